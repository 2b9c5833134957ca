"""``python -m campaigns.broker CAMPAIGN``: run a campaign, print its figures, record them.

Every campaign works in pieces, prints one line a piece and, with ``--ledger``, appends it; what the ledger has of the
same source is not done again. The exit status is 1 when anything was lost or wrong.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from campaigns.broker import cluster_checks as clustered
from campaigns.broker import handover as transactions
from campaigns.broker import killed_transactions, matrix
from campaigns.broker import replay as replaying
from campaigns.broker import rolling as rollings
from campaigns.broker import upkeep as operations
from campaigns.broker.clusters import KINDS, Cluster, Kind
from campaigns.broker.deaths import killed, unpowered
from campaigns.faults.ledger import DEFAULT_PATH, Figures, Ledger, commit, source
from campaigns.faults.loop_file_system import FileSystem
from firearrow.errors import FireArrowError
from firearrow.store.config import FlushMode
from judges import JudgeProcess

Work = Callable[[], tuple[Figures, list[str]]]
Piece = tuple[dict[str, Any], Work]
"""The key of a piece of work, and the work."""
DEATHS_A_PIECE = 10
PAGE = "docs/reference/interop-matrix.md"
RESULTS = "build/matrix.json"
BOTH = ["ASYNC_FLUSH", "SYNC_FLUSH"]


def kill(given: argparse.Namespace) -> Iterator[Piece]:
    """Kill -9 a broker under eight producers and eight consumers of the stock clients."""
    for seed, deaths in _seeds(given):
        for flush in given.flush:

            def work(flush: FlushMode = flush, seed: int = seed, deaths: int = deaths) -> tuple[Figures, list[str]]:
                run = killed(flush, deaths, seed)
                return run.figures(), run.broken

            yield {"flush": flush, "seed": seed}, work


def power(given: argparse.Namespace) -> Iterator[Piece]:
    """Cut the power of the broker's file system under the same load; ``--mutant`` plants a defect."""
    for seed, deaths in _seeds(given):
        for filesystem in given.filesystem:

            def work(
                filesystem: FileSystem = filesystem, seed: int = seed, deaths: int = deaths
            ) -> tuple[Figures, list[str]]:
                run = unpowered(deaths, seed, filesystem=filesystem, mutant=given.mutant)
                if not given.mutant:
                    return run.figures(), run.broken
                return run.figures(), [] if run.broken else [f"the planted {given.mutant} was not seen"]

            yield {"filesystem": filesystem, "seed": seed, "mutant": given.mutant}, work


def cluster(given: argparse.Namespace) -> Iterator[Piece]:
    """Two name servers and two masters, ours alone and mixed with Apache's, through deaths of each."""
    for kind in given.kind:
        for check in clustered.CHECKS:

            def work(kind: Kind = kind, check: Callable[[Cluster], Figures] = check) -> tuple[Figures, list[str]]:
                with Cluster(kind) as running:
                    return _tried(lambda: check(running))

            yield {"cluster": kind, "check": check.__name__}, work


def upkeep(_given: argparse.Namespace) -> Iterator[Piece]:
    """Restarts without a failed send, and queues added and taken away under load."""
    for way in operations.WAYS:
        yield {"restart": way}, lambda way=way: _tried(lambda: operations.restarts(way))  # type: ignore[misc]
    for check in operations.RESIZINGS:

        def work(check: Callable[[Cluster], Figures] = check) -> tuple[Figures, list[str]]:
            with Cluster("ours", clients=operations.JAVA_CLIENTS) as running:
                return _tried(lambda: check(running))

        yield {"check": check.__name__}, work


def rolling(given: argparse.Namespace) -> Iterator[Piece]:
    """Restart three brokers one after the other, upgrade and roll them back, migrate them from Apache's and back."""
    pace = rollings.QUICK if given.quick else rollings.STOCK
    for change in given.change:
        key = {"change": change, "drain_s": pace.drain_s, "clients": list(pace.clients)}
        yield key, lambda change=change: _tried(lambda: rollings.rolls(change, pace))  # type: ignore[misc]


def replay(given: argparse.Namespace) -> Iterator[Piece]:
    """Groups moved back and forward by time with mqadmin, running and off-line."""
    for tools in given.tools:
        for client in replaying.CLIENTS:
            for check in (replaying.moves_a_running_group, replaying.moves_an_offline_group):

                def work(
                    tools: str = tools,
                    client: str = client,
                    check: Callable[[replaying.Replay, JudgeProcess], Figures] = check,
                ) -> tuple[Figures, list[str]]:
                    with replaying.replay(tools) as running, JudgeProcess(client) as process:
                        return _tried(lambda: check(running, process))

                yield {"tools": tools, "client": client, "check": check.__name__}, work


def handover(given: argparse.Namespace) -> Iterator[Piece]:
    """Hand open transactions over between Apache's broker and ours, both ways, stopped and killed."""
    for version, direction, ending in transactions.cells():

        def work(
            version: str = version, direction: transactions.Direction = direction, ending: transactions.Ending = ending
        ) -> tuple[Figures, list[str]]:
            outcome = transactions.handed_over(version, direction, ending, transactions.with_open(given.halves))
            return dataclasses.asdict(outcome), outcome.broken

        yield {"apache": version, "direction": direction, "ending": ending, "open": given.halves}, work


def transactions_killed(given: argparse.Namespace) -> Iterator[Piece]:
    """Kill -9 a broker of ours between half messages, ends and questions."""
    for seed, deaths in _seeds(given):
        for flush in BOTH:

            def work(flush: str = flush, seed: int = seed, deaths: int = deaths) -> tuple[Figures, list[str]]:
                run = killed_transactions.killed(deaths, seed, {"flushDiskType": flush})
                return run.figures(), run.broken

            yield {"flush": flush, "seed": seed, "deaths": deaths}, work


def _tried(work: Callable[[], Figures]) -> tuple[Figures, list[str]]:
    try:
        return work(), []
    except (AssertionError, TimeoutError, FireArrowError) as failure:
        said = str(failure) or type(failure).__name__
        return {"failure": said[:500]}, [said]


def _seeds(given: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """The pieces of a long campaign: a seed and a number of deaths for each."""
    for piece in range(-(-given.deaths // DEATHS_A_PIECE)):
        yield given.seed * 10_000 + piece, min(DEATHS_A_PIECE, given.deaths - piece * DEATHS_A_PIECE)


CAMPAIGNS: dict[str, Callable[[argparse.Namespace], Iterator[Piece]]] = {
    "kill": kill,
    "power": power,
    "cluster": cluster,
    "upkeep": upkeep,
    "rolling": rolling,
    "replay": replay,
    "handover": handover,
    "transactions": transactions_killed,
}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.broker", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="campaign")
    for name, campaign in CAMPAIGNS.items():
        command = commands.add_parser(name, help=campaign.__doc__)
        command.add_argument("--ledger", default=None, nargs="?", const=DEFAULT_PATH, help="append the figures here")
        command.add_argument("--seed", type=int, default=1)
        if name in ("kill", "power", "transactions"):
            command.add_argument("--deaths", type=int, default=20, help="of each flush mode or file system")
        if name == "kill":
            command.add_argument("--flush", choices=BOTH, nargs="+", default=BOTH)
        if name == "power":
            command.add_argument("--filesystem", choices=("ext4", "xfs"), nargs="+", default=["ext4"])
            command.add_argument("--mutant", choices=("", "ack-before-sync"), default="")
        if name == "cluster":
            command.add_argument("--kind", choices=KINDS, nargs="+", default=list(KINDS))
        if name == "rolling":
            command.add_argument("--change", choices=rollings.CHANGES, nargs="+", default=list(rollings.CHANGES))
            command.add_argument("--quick", action="store_true", help="clients look at routes every second")
        if name == "handover":
            command.add_argument(
                "--halves", type=int, default=1000, help="half messages that are open at each handover"
            )
        if name == "replay":
            command.add_argument("--tools", choices=("5.5.0", "4.9.8"), nargs="+", default=["5.5.0", "4.9.8"])
    filling = commands.add_parser("matrix", help=write_matrix.__doc__)
    filling.add_argument("--page", default=PAGE, help="where the table is written")
    filling.add_argument("--results", default=RESULTS, help="what came of each cell; a stopped run goes on from it")
    filling.add_argument("--go-on", action="store_true", help="also from results of another commit")
    given = parser.parse_args()
    sys.exit(write_matrix(given) if given.campaign == "matrix" else _run(given))


def write_matrix(given: argparse.Namespace) -> int:
    """Try every stock client in every row, at our broker and at Apache's; write the page."""
    results = matrix.Results(given.results, commit(), source(), of_any_commit=given.go_on)
    for cell, said in matrix.fill(results):
        print(f"{cell}: {said}", flush=True)  # noqa: T201
    Path(given.page).write_text(matrix.page(results))
    print("\n".join(matrix.table(results.outcomes)))  # noqa: T201
    return 0 if all(said == matrix.PASS for said in results.outcomes.values()) else 1


def _run(given: argparse.Namespace) -> int:
    ledger = Ledger(f"broker-{given.campaign}", given.ledger)
    done = ledger.done()
    complaints = 0
    for name, work in CAMPAIGNS[given.campaign](given):
        if any(name.items() <= entry.items() and not entry.get("broken") and "failure" not in entry for entry in done):
            continue
        figures, broken = work()
        print(json.dumps(ledger.add(name | figures)), flush=True)  # noqa: T201
        for complaint in broken:
            print(complaint, file=sys.stderr)  # noqa: T201
        complaints += len(broken)
    return 1 if complaints else 0


if __name__ == "__main__":
    main()
