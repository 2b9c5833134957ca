"""Popped messages that Apache's broker waits for: check-points and acknowledgements. Pure.

Both are messages of the revive log with a JSON body. A check-point (tag ``ck``) names up to 32 messages of one queue:
group, topic, queue, time of the pop and first offset are its name, ``d`` the distances of the messages from the first
offset (older brokers write none: they lie side by side), ``bm`` a bit for each one that is done. An acknowledgement
(``ack``, ``bAck``) carries the name and one offset, or several. Java: ``store.pop.PopCheckPoint``, ``AckMsg``,
``BatchAckMsg``; ``broker.processor.PopReviveService``.
"""

from typing import Final

from msgspec import Struct, field

from firearrow import fastjson
from firearrow.errors import BadBody

CHECK_POINT_TAG: Final = "ck"
ACK_TAGS: Final = frozenset({"ack", "bAck"})

_Name = tuple[str, str, int, int, int]


class _Mark(Struct, frozen=True):
    """The fields that check-points and acknowledgements share."""

    topic: str = field(name="t", default="")
    group: str = field(name="c", default="")
    queue_id: int = field(name="q", default=0)
    pop_ms: int = field(name="pt", default=0)
    first: int = field(name="so", default=0)

    @property
    def name(self) -> _Name:
        """The name of a check-point, which its acknowledgements carry too."""
        return self.topic, self.group, self.queue_id, self.pop_ms, self.first


class CheckPoint(_Mark, frozen=True):
    """Messages that were delivered by one pop."""

    count: int = field(name="n", default=0)
    done: int = field(name="bm", default=0)
    distances: list[int] | None = field(name="d", default=None)

    def offsets(self) -> list[int]:
        """The messages that were not acknowledged when the check-point was written."""
        distances = self.distances or list(range(self.count))
        return [self.first + distance for bit, distance in enumerate(distances) if not self.done >> bit & 1]


class Acknowledgement(_Mark, frozen=True):
    """Messages that are acknowledged."""

    offset: int | None = field(name="ao", default=None)
    offsets: list[int] | None = field(name="aol", default=None)


class PopMarks:
    """Check-points and their acknowledgements."""

    def __init__(self) -> None:
        self._check_points: dict[_Name, CheckPoint] = {}
        self._acknowledged: dict[_Name, set[int]] = {}
        self._unreadable = 0

    def add(self, tag: str, body: bytes) -> None:
        """Take a message of the revive log into account. One that cannot be read counts as a check-point."""
        try:
            if tag == CHECK_POINT_TAG:
                check_point = fastjson.decode(body, CheckPoint)
                self._check_points[check_point.name] = check_point
            elif tag in ACK_TAGS:
                self._acknowledge(fastjson.decode(body, Acknowledgement))
        except BadBody:
            self._unreadable += tag == CHECK_POINT_TAG

    def _acknowledge(self, said: Acknowledgement) -> None:
        offsets = self._acknowledged.setdefault(said.name, set())
        offsets.update(said.offsets or ())
        if said.offset is not None:
            offsets.add(said.offset)

    def pending(self) -> int:
        """The number of check-points with an unacknowledged message."""
        return self._unreadable + sum(
            not self._acknowledged.get(name, set()).issuperset(check_point.offsets())
            for name, check_point in self._check_points.items()
        )
