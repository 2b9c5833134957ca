"""``python -m campaigns.failover``: failovers of a real group of three, one after another; goes on where it stopped.

Three brokers, three machines of etcd, a name server and the clients, each in a network namespace of its own. The faults
of the master take turns: its process is killed or frozen, it is divided from etcd, from its slaves or from its clients,
its disk is full; a killed one returns with the other flush mode. Our producer, a stock Java and a stock Go client go on
all the while; in the end every consumer must have every acknowledged message, in its place. Other clients of ours give
messages back, recall, end transactions, commit and send without waiting; what was answered must hold in the end.
``--system apache`` does the same, without these others, to a group of Apache's with three controllers. Prints a table
of everything that the ledger has of both. Without root or ``ip`` all of it runs on loopback, with the faults that can
be made there.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

import msgspec

from campaigns.failover import disks, network
from campaigns.failover.apache_group import ApacheGroup
from campaigns.failover.failovers import Outcome, run_round
from campaigns.failover.faults import FAULTS, Fault, possible
from campaigns.failover.group import Group
from campaigns.failover.network import Loopback, Namespaces, Network
from campaigns.failover.real_group import RealGroup
from campaigns.failover.table import story
from campaigns.faults.ledger import DEFAULT_PATH, Ledger

COMPLAINTS_SHOWN: Final = 20
JAVA: Final = ("java-5.5.0", "java-4.9.8")
SYSTEMS: Final[dict[str, Callable[[Network], Group]]] = {"firearrow": RealGroup, "apache": ApacheGroup}


def main() -> int:
    """Run failovers; return 1 when something acknowledged was lost or out of order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=6, help="failovers, those that the ledger has included")
    parser.add_argument("--system", choices=SYSTEMS, default="firearrow", help="whose brokers (default: %(default)s)")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS, help="in turn (default: all six)")
    parser.add_argument("--loopback", action="store_true", help="no namespaces, also where they can be made")
    parser.add_argument("--ledger", action="store_true", help=f"append outcomes to {DEFAULT_PATH}")
    given = parser.parse_args()
    missing = network.lacks()
    machines: Callable[[], Network] = Loopback if given.loopback or missing else Namespaces
    can = [fault for fault in given.faults if fault in possible(divisible=machines is Namespaces)]
    for fault in given.faults:
        if fault not in can:
            print(f"{fault}: not possible here, needs namespaces; missing: {', '.join(missing)}", file=sys.stderr)  # noqa: T201
    if not can:
        return 1
    ledgers = {name: Ledger(f"failover {name}", DEFAULT_PATH if given.ledger else None) for name in SYSTEMS}
    ledger = ledgers.pop(given.system)
    entries, broken = ledger.recorded(), list[str]()
    while (done := len(entries)) < given.count:
        faults = [can[number % len(can)] for number in range(done, min(done + len(FAULTS), given.count))]
        outcomes, complaints = _round(SYSTEMS[given.system], machines(), faults, JAVA[done // len(FAULTS) % len(JAVA)])
        broken += complaints
        for outcome in outcomes:
            entries.append(ledger.add(msgspec.to_builtins(outcome)))
            print(json.dumps(entries[-1]), flush=True)  # noqa: T201
    others = chain.from_iterable(other.recorded() for other in ledgers.values())
    print(story([*entries, *others]))  # noqa: T201
    print(*broken[:COMPLAINTS_SHOWN], sep="\n", file=sys.stderr)  # noqa: T201
    return int(bool(broken))


def _round(
    system: Callable[[Network], Group], machines: Network, faults: Sequence[Fault], java: str
) -> tuple[list[Outcome], list[str]]:
    disks.remove_leftovers()
    with machines, system(machines) as group:
        return run_round(group, faults, (java, "go"))


if __name__ == "__main__":
    sys.exit(main())
