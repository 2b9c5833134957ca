"""``clusterList``."""

from typing import Final

from firearrow.cli.mqadmin.places import repeat
from firearrow.cli.mqadmin.session import ClusterView, Session
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.errors import FireArrowError
from firearrow.runtime.clock import SystemClock

HOUR_MS: Final = 3_600_000
BASE_HEAD: Final = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %-11s  %-12s  %-8s  %-10s"
BASE_ROW: Final = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %11s  %-12s  %-8s  %10s"
MORE_HEAD: Final = "%-16s  %-32s %14s %14s %14s %14s"
MORE_ROW: Final = "%-16s  %-32s %14d %14d %14d %14d"


async def cluster_list(session: Session, given: OptionValues) -> None:
    """Print every broker of every cluster; with -i again and again."""

    async def once() -> None:
        cluster = await session.cluster()
        names = [given.text("c")] if given.has("c") else list(cluster.clusters)
        await (_print_more if given.has("m") else _print_base)(session, cluster, names)

    await repeat(session, given, once)


async def _print_base(session: Session, cluster: ClusterView, names: list[str]) -> None:
    session.line(
        BASE_HEAD, "#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)", "#OutTPS(LOAD)",
        "#Timer(Progress)", "#PCWait(ms)", "#Hour", "#SPACE", "#ACTIVATED",
    )  # fmt: skip
    for name, broker, number, address in _members(cluster, names):
        table = await _table(session, address)
        earliest = table.get("earliestMessageTimeStamp", "")
        hour = (SystemClock().now_ms() - int(earliest)) / HOUR_MS if earliest else 0.0
        session.line(
            BASE_ROW,
            name,
            broker,
            number,
            address,
            table.get("brokerVersionDesc", "") if table else "",
            incoming(table),
            outgoing(table),
            timers(table),
            table.get("pageCacheLockTimeMills", "" if not table else None),
            f"{hour:2.2f}",
            f"{float(table.get('commitLogDiskRatio') or 0.0):.4f}",
            table.get("brokerActive", "").lower() == "true",
        )


def _members(cluster: ClusterView, names: list[str]) -> list[tuple[str, str, int, str]]:
    return [
        (name, broker, number, address)
        for name in names
        for broker in cluster.names(name)
        for number, address in cluster.numbered(broker)
    ]


async def _table(session: Session, address: str) -> dict[str, str]:
    try:
        return await session.admin.operations.runtime(address)
    except FireArrowError as error:
        session.failed(error)
        return {}


def rate(text: str | None) -> float:
    """Return the first of a broker's rates; 0 where it has none yet, as one of Apache's right after its start."""
    return float(text.split()[0]) if text and text.strip() else 0.0


def _load(table: dict[str, str], pool: str) -> str:
    missing = "" if not table else "null"
    size, wait = f"{pool}ThreadPoolQueueSize", f"{pool}ThreadPoolQueueHeadWaitTimeMills"
    if pool == "ack":
        missing = "" if not table else "N"
    return f"{table.get(size, missing)},{table.get(wait, missing)}ms"


def incoming(table: dict[str, str]) -> str:
    """Return messages a second that come in, and the load of their pool."""
    return f"{rate(table.get('putTps')):9.2f}({_load(table, 'send')})"


def outgoing(table: dict[str, str]) -> str:
    """Return messages a second that go out, and the load of their pools. 4.9 spells the name with one r."""
    tps = rate(table.get("getTransferredTps") or table.get("getTransferedTps"))
    return f"{tps:9.2f}({_load(table, 'pull')}|{_load(table, 'ack')})"


def timers(table: dict[str, str]) -> str:
    """Return how far timers are behind."""
    try:
        behind, offset, congested = (
            int(table[name]) for name in ("timerReadBehind", "timerOffsetBehind", "timerCongestNum")
        )
        enqueue, dequeue = float(table["timerEnqueueTps"]), float(table["timerDequeueTps"])
    except (KeyError, ValueError):
        return "0-0(0.0w, 0.0, 0.0)"  # brokers of 4.9 have no timers
    return f"{behind}-{offset}({congested / 10000:.1f}w, {enqueue:.1f}, {dequeue:.1f})"


async def _print_more(session: Session, cluster: ClusterView, names: list[str]) -> None:
    session.line(
        MORE_HEAD, "#Cluster Name", "#Broker Name", "#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday"
    )
    for name, broker, _, address in _members(cluster, names):
        table = await _table(session, address)
        totals = [total(table, way, span) for span in (YESTERDAY, TODAY) for way in ("Put", "Get")]
        session.line(MORE_ROW, name, broker, *totals)


YESTERDAY: Final = ("YesterdayMorning", "TodayMorning")
TODAY: Final = ("TodayMorning", "TodayNow")


def total(table: dict[str, str], way: str, span: tuple[str, str]) -> int:
    """Return the messages that a broker stored (``Put``) or delivered (``Get``) in a span."""
    before, after = (int(table.get(f"msg{way}Total{each}", 0)) for each in span)
    return after - before


VERBS: Final = (
    Verb("clusterList", "List cluster infos.",
         (VerbOption("m", "moreStats", "Print more stats", alone=True),
          VerbOption("i", "interval", "specify intervals numbers, it is in seconds"),
          VerbOption("c", "clusterName", "which cluster")),
         cluster_list),
)  # fmt: skip
