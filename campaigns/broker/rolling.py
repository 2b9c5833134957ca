"""Three brokers restarted one after the other under load, as they are and as other versions: clients notice nothing.

- `restart`: brokers of ours are stopped by SIGTERM, drain, and start again.
- `upgrade`: brokers of an earlier commit become brokers of this one, and then brokers of the earlier one again.
- `migrate`: brokers of Apache's 5.5.0 become ours on their own directories, and then Apache's again.

Stock clients look at routes every 30 s and brokers drain for 40 s. In quick runs clients look every second and brokers
drain for 5 s: a drain must outlast a period of the clients, however long that is. Go's client cannot be told its
period, so it is left out there.

Each function returns figures and fails by AssertionError.
"""

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from campaigns.broker.cluster_checks import order_breaks
from campaigns.broker.clusters import OUR_CLIENT, Cluster, Make
from campaigns.broker.load import Load
from campaigns.faults.ledger import Figures
from judges import ApacheBroker, FireArrowBroker
from judges.producers import CLIENT_RETRIES

Change = Literal["restart", "upgrade", "migrate"]
CHANGES: tuple[Change, ...] = ("restart", "upgrade", "migrate")
MASTERS = ("broker-a", "broker-b", "broker-c")
QUEUES = 4
STOP_SECONDS = 90.0
COMMITS_BACK = 50
"""The age of the earlier version."""
ROOT = Path(__file__).parent.parent.parent


class Pace(NamedTuple):
    """The route interval of clients, the drain time of brokers, the clients that follow it, and the number of
    retries."""

    route_ms: int
    drain_s: int
    clients: tuple[str, ...]
    retries: int


STOCK = Pace(30_000, 40, ("java-5.5.0", "java-4.9.8", "go", OUR_CLIENT), CLIENT_RETRIES)
QUICK = Pace(1_000, 5, ("java-5.5.0", "java-4.9.8", OUR_CLIENT), 0)
"""Without retries, which would hide that a broker does not drain: Go's client, whose retries do not, is not there."""

OURS: Make = partial(FireArrowBroker, arguments=["--drain"])


def rolls(change: Change, pace: Pace) -> Figures:
    """Restart all three, once for every version that is to come: no send fails, nothing is lost, order is kept."""
    settings = {"drainWaitSeconds": str(pace.drain_s)}
    if change == "migrate":
        pace = pace._replace(retries=CLIENT_RETRIES)  # how Apache's brokers start and stop is not ours to judge
    with (
        _versions(change) as (first, *later),
        Cluster("ours", clients=pace.clients, settings=settings, masters=MASTERS, master=first) as cluster,
    ):
        return _roll(cluster, pace, later)


@contextmanager
def _versions(change: Change) -> Iterator[Sequence[Make]]:
    """The versions of the brokers at first, and after the upgrade."""
    if change == "restart":
        yield OURS, OURS
    elif change == "migrate":
        yield ApacheBroker, OURS, ApacheBroker
    else:
        with tempfile.TemporaryDirectory(prefix="firearrow-earlier-") as directory:
            _unpack(COMMITS_BACK, Path(directory))
            program = (
                f"import sys; sys.path.insert(0, '{directory}/src'); from firearrow.cli import main; sys.exit(main())"
            )
            earlier = partial(OURS, program=program)
            yield earlier, OURS, earlier


def _unpack(commits_back: int, directory: Path) -> None:
    """Put the source of an earlier commit into a directory."""
    words = ["git", "archive", f"HEAD~{commits_back}", "src"]
    packed = subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")


def _roll(cluster: Cluster, pace: Pace, versions: Sequence[Make]) -> Figures:
    topic = cluster.topic("rolling", QUEUES)
    producers = 2 * len(pace.clients)
    with Load(
        cluster.judges,
        topic,
        producers=producers,
        consumers=len(pace.clients),
        ordered=True,
        route_ms=pace.route_ms,
        retries=pace.retries,
    ) as load:
        load.advance()
        for version in versions:
            for number in range(len(MASTERS)):
                _leave(cluster, number, load, pace)
                load.advance(consuming=False)
                cluster.replace(number, version)
                load.advance()
        findings = load.finish()
        errors = [error for one in load.produced for error in one.errors]
        assert findings.failed == 0, f"{findings.failed} sends failed: {errors[:3]}"
        assert not findings.broken, findings.broken
        breaks = [complaint for one in load.received for complaint in order_breaks(one)]
        assert not breaks, breaks[:5]
        used = {broker for one in load.produced for broker in one.brokers}
        assert used == set(MASTERS), f"messages went to {used} only"
        return {**findings.figures(), "restarts": len(versions) * len(MASTERS), "order_breaks": len(breaks)}


def _leave(cluster: Cluster, number: int, load: Load, pace: Pace) -> None:
    """Stop a broker as an operator does: ours drains by itself, Apache's write permission is wiped first."""
    broker = cluster.masters[number]
    if type(broker) is ApacheBroker:
        for names in cluster.name_servers:
            cluster.mqadmin.run(f"wipeWritePerm -n {names.address} -b {broker.name}")
        load.run_for(pace.drain_s)
    broker.stop(timeout_seconds=STOP_SECONDS)
