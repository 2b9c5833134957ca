"""The stream that copies a commit log from a master to a slave, byte for byte as Apache's brokers speak it. Pure.

A slave reports how far its log goes; the master sends spans of its own log from there on::

    slave to master    offset 8                   the end of the slave's log; also its acknowledgement
    master to slave    offset 8, size 4, bytes    a span of the log: ``size`` bytes from ``offset`` on

All numbers are big-endian and signed. A span never crosses a log file, and may begin and end inside a record. A header
with size 0 is a heartbeat. The first report asks for a start: 0 for the beginning of the master's newest log file, any
other offset for itself. `FROM_FIRST_BYTE` asks for the first byte that the master has: a master of ours begins there,
Apache's ignores the report and waits for another one. Java: ``DefaultHAConnection``, ``DefaultHAClient``.

Before a slave of ours copies a master of ours, the two compare their logs: a slave may have other records than its
master, whatever the two lengths are. It begins with `FROM_FIRST_BYTE`, and the master answers that it can compare::

    slave to master    report FROM_FIRST_BYTE
    master to slave    heartbeat ASKS, heartbeat: the first offset of the master's log
    slave to master    six numbers of 8 bytes: CLAIM and a `Claim`
    master to slave    heartbeat: a `ClaimVerdict`
    slave to master    its first report

A slave that hears nothing, as from Apache's master, goes on as Apache's slaves do. A master of ours that is older than
the comparison sends its log at once; the slave connects again and goes on without. Slaves of ours that are older take
the first two heartbeats for ordinary ones.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from firearrow.errors import BadFrame

Buffer: TypeAlias = bytes | bytearray | memoryview

REPORT: Final = struct.Struct(">q")
HEADER: Final = struct.Struct(">qi")
FROM_FIRST_BYTE: Final = -1
LARGEST_SPAN: Final = 1 << 30
"""The largest span that is accepted; Apache's masters send ``haTransferBatchSize`` bytes, by default 32 KiB."""
CLAIM: Final = -2
ASKS: Final = int.from_bytes(b"compare?")
_NUMBERS: Final = struct.Struct(">6q")


class LogSpan(NamedTuple):
    """Bytes of the log from an offset on; a heartbeat has no bytes."""

    offset: int
    data: Buffer


def report(offset: int) -> bytes:
    """Return the report of a slave whose log ends at ``offset``."""
    return REPORT.pack(offset)


def heartbeat(offset: int) -> bytes:
    """Return the header of a master that has nothing to send after ``offset``."""
    return HEADER.pack(offset, 0)


def packets(offset: int, data: bytes, batch: int) -> Iterator[Buffer]:
    """Yield the headers and spans that carry ``data``, which begins at ``offset``, in spans of at most ``batch``."""
    view = memoryview(data)
    for start in range(0, len(data), batch):
        span = view[start : start + batch]
        yield HEADER.pack(offset + start, len(span))
        yield span


def joined(spans: Iterable[LogSpan]) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of spans, those that follow each other in one piece; heartbeats have none."""
    parts: list[Buffer] = []
    start = end = 0
    for offset, data in spans:
        if parts and offset != end:
            yield start, b"".join(parts)
            parts = []
        if data:
            if not parts:
                start = offset
            parts.append(data)
            end = offset + len(data)
    if parts:
        yield start, b"".join(parts)


class Reports:
    """Splits the bytes of a slave into reports."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[int]:
        """Return the offsets of the reports that are complete now."""
        data = self._rest + data
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        return [offset for (offset,) in REPORT.iter_unpack(data[:whole])]


class Spans:
    """Splits the bytes of a master into spans.

    Bytes are passed on as they come: a span of the master may come out in several parts, each with its own offset.
    """

    def __init__(self) -> None:
        self._head = b""
        self._offset = 0
        self._left = 0

    def feed(self, data: bytes) -> list[LogSpan]:
        """Return the spans, or parts of spans, in ``data``; raise `BadFrame` when a header cannot be right."""
        found: list[LogSpan] = []
        view, at = memoryview(data), 0
        while at < len(data):
            if not self._left:
                head = self._head + data[at : at + HEADER.size - len(self._head)]
                at += len(head) - len(self._head)
                self._head = head
                if len(head) < HEADER.size:
                    break
                self._begin(head, found)
                continue
            part = view[at : at + self._left]
            found.append(LogSpan(self._offset, part))
            at += len(part)
            self._offset += len(part)
            self._left -= len(part)
        return found

    def _begin(self, head: bytes, found: list[LogSpan]) -> None:
        offset, size = HEADER.unpack(head)
        if offset < 0 or not 0 <= size <= LARGEST_SPAN:
            raise BadFrame(
                f"a span of {size} bytes at {offset} cannot be part of a log: the master does not speak the protocol "
                "of haListenPort; check haMasterAddress"
            )
        self._head, self._offset, self._left = b"", offset, size
        if not size:
            found.append(LogSpan(offset, b""))


class ClaimVerdict(IntEnum):
    """The master's answer to a claim."""

    AGREES = int.from_bytes(b"it agree")
    DIFFERS = int.from_bytes(b"it diffe")
    LONGER = int.from_bytes(b"it is lo")
    DELETED = int.from_bytes(b"it is de")


class Claim(Struct, frozen=True):
    """The log of a slave: its end, and a digest of parts of it."""

    identity: int
    """A number that no other slave has; a slave keeps it, whatever its connection and address."""
    first: int
    """The first offset that both logs have."""
    start: int
    """The begin of the last part, which goes up to ``end``; earlier parts follow from ``first`` and ``start``."""
    end: int
    """The end of the slave's log."""
    digest: int


def encode_claim(claim: Claim) -> bytes:
    """Return the bytes of a claim."""
    return _NUMBERS.pack(CLAIM, claim.identity, claim.first, claim.start, claim.end, claim.digest)


class SlaveOpening(Struct, frozen=True):
    """The meaning of the first bytes of a slave."""

    asks: bool = False
    """Whether the slave can compare, or is an older one of ours that is empty."""
    is_plain: bool = False
    """Whether reports follow without a comparison."""
    skips: bool = False
    """Whether the slave asked, has a log, and went on without a comparison."""
    claim: Claim | None = None


def decode_opening(data: bytes) -> SlaveOpening:
    """Return what a slave has said so far."""
    words = [number for (number,) in REPORT.iter_unpack(data[: len(data) - len(data) % REPORT.size])]
    if not words:
        return SlaveOpening()
    if words[0] != FROM_FIRST_BYTE:
        return SlaveOpening(is_plain=True)
    if len(words) == 1:
        return SlaveOpening(asks=True)
    if words[1] != CLAIM:
        return SlaveOpening(asks=True, is_plain=True, skips=words[1] > 0)
    if len(data) < REPORT.size + _NUMBERS.size:
        return SlaveOpening(asks=True)
    _, identity, first, start, end, digest = _NUMBERS.unpack_from(data, REPORT.size)
    return SlaveOpening(asks=True, claim=Claim(identity, first, start, end, digest))
