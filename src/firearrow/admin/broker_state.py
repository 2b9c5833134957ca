"""The state of a broker in figures, read from the table that it says of itself. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from firearrow.admin.brokers import BrokerMember
from firearrow.protocol.requests.admin.stats import LONGEST_STEP_KEY, REFUSAL_KEY


class BrokerState(Struct, frozen=True):
    """A broker now. ``fault`` says why it did not answer; the figures mean nothing then."""

    member: BrokerMember
    fault: str = ""
    version: str = ""
    put_rate: float = 0.0
    """Messages stored a second, over the last ten."""
    get_rate: float = 0.0
    """Messages delivered a second, over the last ten."""
    put_total: int = 0
    """Messages stored since the start."""
    disk_ratio: float = 0.0
    behind_bytes: int = 0
    """Bytes of the log that queues do not show yet."""
    booted_ms: int = 0
    log_end: int = 0
    refusal: str = ""
    """The reason why its store takes no messages; empty while it does, and from Apache's brokers, which do not tell."""
    longest_step: str = ""
    """The step that held its loop the longest since its start: milliseconds first; empty from Apache's brokers."""

    @property
    def longest_step_ms(self) -> float:
        """The CPU time of that step; 0 when the broker does not tell."""
        return _rate(self.longest_step)


def read_state(member: BrokerMember, table: Mapping[str, str]) -> BrokerState:
    """Read the table of GET_BROKER_RUNTIME_INFO; a value that is missing or strange counts as 0."""
    return BrokerState(
        member,
        version=table.get("brokerVersionDesc", "").removeprefix("V").replace("_", "."),
        put_rate=_rate(table.get("putTps", "")),
        get_rate=_rate(table.get("getTransferredTps") or table.get("getTransferedTps", "")),
        put_total=int(_number(table.get("msgPutTotalTodayNow", ""))),
        disk_ratio=_number(table.get("commitLogDiskRatio", "")),
        behind_bytes=int(_number(table.get("dispatchBehindBytes", ""))),
        booted_ms=int(_number(table.get("bootTimestamp", ""))),
        log_end=int(_number(table.get("commitLogMaxOffset", ""))),
        refusal=table.get(REFUSAL_KEY, ""),
        longest_step=table.get(LONGEST_STEP_KEY, ""),
    )


def _rate(text: str) -> float:
    """Read the first number of a text, such as that of three rates: over ten seconds, a minute, ten minutes."""
    return _number(text.split()[0]) if text.split() else 0.0


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
