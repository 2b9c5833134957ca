"""The lines of the audit log, and whether files of them are as they were written. Pure.

A file is JSON lines. The first line begins the file::

    {"firearrow-audit":1,"file":2,"seq":41,"prev":"<hash of the last line before>","torn":0,"hash":"..."}

and every other line is an event::

    {"seq":42,"time_ms":...,"who":"User:a","from":"10.0.0.7:4321","what":"DELETE_TOPIC_IN_BROKER","on":["Topic:b"],
     "allowed":true,"why":"Allow Delete on Topic:b","hash":"..."}

``hash`` is the SHA-256, in hexadecimal, of the hash of the line before and of the line without its own ``hash``; the
first line of all continues `NOTHING`. So no line can be changed, removed, added or moved without a new hash for every
line behind it. ``torn`` of a first line is the number of bytes of an unfinished line at the end of the file before: the
process was killed while it wrote. An unfinished last line of the last file is the same, and no sign of tampering.

What a chain without a secret cannot show: lines cut off at the very end, and a chain that was written anew from some
line on. Whoever keeps a hash elsewhere (they are in the server's log, too) finds both.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field

NOTHING: Final = "0" * 64
FORM: Final = 1
TEXT_MAX: Final = 255
THINGS_MAX: Final = 16

_END: Final = re.compile(rb'^(\{.*),"hash":"([0-9a-f]{64})"\}$', re.DOTALL)


class Event(Struct, frozen=True):
    """Something that was allowed or denied. Texts come from requests: long ones are cut."""

    time_ms: int
    who: str | None
    """``User:name``, with a question mark behind it if the user was not authenticated; None: no user."""
    source: str = field(name="from")
    what: str
    things: tuple[str, ...] = field(name="on")
    allowed: bool
    why: str


class LostEvents(Struct, frozen=True):
    """Events that could not be written."""

    time_ms: int
    lost: int
    why: str


class _FirstLine(Struct, frozen=True):
    form: int = field(name="firearrow-audit")
    file: int
    seq: int
    prev: str
    torn: int


class _NumberedLine(Struct, frozen=True):
    seq: int


class ChainEnd:
    """The end of a chain: what the next line continues."""

    __slots__ = ("hash", "seq")

    def __init__(self, seq: int = 0, last: str = NOTHING) -> None:
        self.seq = seq
        """The number of lines so far."""
        self.hash = last

    def line(self, event: Event | LostEvents) -> bytes:
        """Return the next line."""
        return self._chained({"seq": self.seq + 1, **msgspec.to_builtins(event)})

    def first(self, file: int, torn: int = 0) -> bytes:
        """Return the first line of a file."""
        first = _FirstLine(FORM, file, self.seq + 1, self.hash, torn)
        return self._chained(msgspec.to_builtins(first))

    def _chained(self, members: dict[str, object]) -> bytes:
        body = msgspec.json.encode(members)[:-1]
        self.seq, self.hash = self.seq + 1, _hash(self.hash, body)
        return body + b',"hash":"' + self.hash.encode() + b'"}\n'


def _hash(before: str, body: bytes) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()


def shortened(text: str) -> str:
    """Return a text from a request as a line may hold it."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."


def shown(things: Sequence[str]) -> tuple[str, ...]:
    """Return the names of things as a line may hold them."""
    more = len(things) - THINGS_MAX
    return (*map(shortened, things[:THINGS_MAX]), *([f"and {more} more"] if more > 0 else []))


def end_of(data: bytes) -> tuple[ChainEnd, int] | None:
    """Return the chain at the end of a file, and the bytes of an unfinished last line; None for a file without lines.

    Raise ``ValueError`` when the last line cannot be read.
    """
    lines, _, torn = data.rpartition(b"\n")
    if not lines:
        return None
    last = lines[lines.rfind(b"\n") + 1 :]
    parts = _END.match(last)
    if parts is None:
        raise ValueError("the last line has no hash")
    try:
        numbered = msgspec.json.decode(last, type=_NumberedLine)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("the last line is not JSON with a number") from error
    return ChainEnd(numbered.seq, parts[2].decode()), len(torn)


# ---- verification


class Fault(Struct, frozen=True):
    """A place that is not as it was written."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        """The place and what is wrong with it."""
        return f"{self.file}, line {self.line}: {self.text}"


class AuditVerification(Struct, frozen=True):
    """The result of checking the files of an audit log."""

    faults: tuple[Fault, ...]
    lines: int
    first: int
    """The number of the first line; over 1 when older files are gone."""
    last: int
    hash: str
    torn: str
    """The place of an unfinished last line; empty: there is none."""
    has_hash: bool
    """Whether the hash that was asked for is one of the chain."""
    lost: dict[str, int] = {}
    """The number of events that the lines count but do not describe, by the reason."""


class _ChainReader:
    """Follows the chain from line to line."""

    def __init__(self, wanted: str) -> None:
        self.chain: ChainEnd | None = None
        self.faults: list[Fault] = []
        self.lines = self.first = self.torn_bytes = 0
        self.torn = self._unbegun = ""
        self._wanted = wanted
        self.has_hash = not wanted
        self.lost: dict[str, int] = {}

    def read(self, name: str, data: bytes) -> None:
        """Follow the chain through a file."""
        whole, _, torn = data.rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        self._tell_unbegun()
        if not lines:
            self._unbegun = name
            return
        self._begin(name, lines[0])
        for number, line in enumerate(lines, 1):
            self._follow(name, number, line)
        self.torn_bytes = len(torn)
        self.torn = f"{name}, line {len(lines) + 1}" if torn else ""

    def finish(self) -> None:
        """Judge the end of the last file: a server that is killed as it begins a file leaves one without a line."""
        if self.chain is None:
            self._tell_unbegun()
        elif self._unbegun:
            self.torn = f"{self._unbegun}, line 1"

    def _tell_unbegun(self) -> None:
        if self._unbegun:
            self.faults.append(Fault(self._unbegun, 1, "the file has no whole line: its first line is gone"))
            self._unbegun = ""

    def _begin(self, name: str, line: bytes) -> None:
        """Compare the first line of a file with the end of the file before."""
        try:
            first = msgspec.json.decode(line, type=_FirstLine)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.faults.append(Fault(name, 1, "this is not the first line of an audit file: lines before it are gone"))
            return
        if self.chain is None:
            self.chain, self.first = ChainEnd(first.seq - 1, first.prev), first.seq
        elif first.prev != self.chain.hash:
            missing = first.seq - self.chain.seq - 1
            gone = f"{missing} lines before this file are gone"
            self.faults.append(Fault(name, 1, gone if missing > 0 else "it does not continue the file before"))
            self.chain = ChainEnd(first.seq - 1, first.prev)
        elif first.torn != self.torn_bytes:
            text = f"the file before ends with {self.torn_bytes} bytes of an unfinished line, not {first.torn}"
            self.faults.append(Fault(name, 1, text))

    def _follow(self, name: str, number: int, line: bytes) -> None:
        self.lines += 1
        chain = self.chain = self.chain or ChainEnd()
        parts = _END.match(line)
        if parts is None:
            self.faults.append(Fault(name, number, "the line was changed or damaged: it has no hash at its end"))
            return
        if line.find(b'"lost":') > 0:
            self._count_lost(line)
        found, seq = parts[2].decode(), _number(line)
        if found != _hash(chain.hash, parts[1]):
            self.faults.append(Fault(name, number, _difference(seq, chain.seq + 1)))
        chain.seq, chain.hash = chain.seq + 1 if seq is None else seq, found
        self.has_hash = self.has_hash or found == self._wanted

    def _count_lost(self, line: bytes) -> None:
        try:
            lost = msgspec.json.decode(line, type=LostEvents)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # an event whose texts hold the word
        self.lost[lost.why] = self.lost.get(lost.why, 0) + lost.lost


def _number(line: bytes) -> int | None:
    try:
        return msgspec.json.decode(line, type=_NumberedLine).seq
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _difference(seq: int | None, expected: int) -> str:
    if seq is not None and seq > expected:
        return f"lines {expected} to {seq - 1} are gone, or lines were moved: this is line {seq} of the log"
    if seq is not None and seq < expected:
        return f"the line was moved or repeated: it is line {seq} of the log, and {expected} should be here"
    return "the line, or the one before it, was changed"


def verify(files: Iterable[tuple[str, bytes]], wanted: str = "") -> AuditVerification:
    """Return what is wrong with files of an audit log, the oldest first; ``wanted`` is a hash to look for."""
    reader = _ChainReader(wanted)
    for name, data in files:
        reader.read(name, data)
    reader.finish()
    chain = reader.chain or ChainEnd()
    return AuditVerification(
        faults=tuple(reader.faults),
        lines=reader.lines,
        first=reader.first,
        last=chain.seq,
        hash=chain.hash,
        torn=reader.torn,
        has_hash=reader.has_hash,
        lost=reader.lost,
    )
