"""The program that holds a directory to its promises: ``python -m campaigns.faults.checker DIR < acks``.

It opens the store as it was left, which recovers it, and reads everything. What must hold:

* every record is a message of the recipe, byte-equal, once, and in the order in which they were sent;
* every promised message is at its physical offset, in its queue, at its queue offset;
* the offsets of every queue are consecutive, and its entries are what the log would give if it were built again;
* every message is found by queue and offset, by its id, and by its unique key, through the store's own look-ups;
* no group that wrote its offsets down has read more of a queue than is in it;
* nothing is called damaged, for nothing rotted.

Where log files may be deleted (`Options.deletes`), what lay below the log's start is gone rightly.
"""

import argparse
import asyncio
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from campaigns.faults.acks import Ack, parse_acks
from campaigns.faults.recipe import HOST, Recipe, Sent, number_of, unique_key
from campaigns.faults.session import Options, Session
from firearrow.model import PhysicalOffset
from firearrow.record.decode import RecordHead, peek
from firearrow.record.message_id import offset_message_id
from firearrow.record.properties import decode_properties
from firearrow.store.queue.consume_queue import ENTRY_BYTES
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.store.views.repair import entry_of

_NO_DELAYS: Final = (1000,)
_MANY: Final = 1000
_NEWEST: Final = 40
_OTHERS: Final = 40


@dataclass
class Findings:
    """The findings of a check."""

    records: int = 0
    promised: int = 0
    lost: list[Ack] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    cut_bytes: int = 0
    end: int = 0
    """The end of the log after its recovery."""
    last_number: int = -1
    found: dict[int, Ack] = field(default_factory=dict)
    """Every message of the log by its number, as a promise of what must be there from now on."""
    entries: defaultdict[tuple[str, int], bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    """The contents that the queues must hold, by topic and number."""
    firsts: dict[tuple[str, int], int] = field(default_factory=dict)
    """The offset of the oldest message of every queue."""

    @property
    def good(self) -> bool:
        """Whether every promise was kept and nothing is wrong."""
        return not self.lost and not self.wrong

    def story(self) -> str:
        """The faults, in a few lines."""
        lost = [f"lost: message {ack.number} promised {ack.level} at {ack.physical}" for ack in self.lost[:5]]
        return "\n".join([*lost, *self.wrong[:5], f"{self.records} records, {self.promised} promised"])


async def check(
    options: Options, recipe: Recipe, promised: Sequence[Ack], *, may_lose: bool = False, close: bool = True
) -> Findings:
    """Open the directory, compare, and let go. With ``may_lose`` a promise above the end of the log is only counted."""
    findings = Findings(promised=len(promised))
    session = await Session.open(options)
    try:
        findings.cut_bytes, findings.end = session.opened.recovered.cut_bytes, session.opened.recovered.end
        await _read_everything(session, recipe, findings)
        await Views(session, findings).check()
        if len(session.opened.damage):
            findings.wrong.append(f"called damaged: {session.opened.damage.as_list()}")
        for ack in promised:
            if not options.deletes or ack.physical >= session.log.min_offset:
                _compare(ack, session.log.tail, findings, may_lose=may_lose)
        await _compare_offsets(session, [] if may_lose else promised, findings)
    finally:
        await (session.close() if close else session.abandon())
    return findings


async def _read_everything(session: Session, recipe: Recipe, findings: Findings) -> None:
    queues: dict[tuple[str, int], int] = {}
    opened = session.opened
    at, end = opened.segments.min_offset, opened.recovered.end
    while at < end:
        walked = await opened.scanner.walk(at, end)
        for head in walked.heads:
            number = number_of(head.body(walked.piece))
            _judge(head, walked.piece, recipe.message(number), findings)
            if number <= findings.last_number:
                findings.wrong.append(f"message {number} comes after message {findings.last_number}")
            first = head.queue_offset if session.options.deletes else 0
            expected = queues.get((head.topic, head.queue_id), first)
            findings.firsts.setdefault((head.topic, head.queue_id), expected)
            if head.queue_offset != expected:
                findings.wrong.append(f"message {number} has queue offset {head.queue_offset}, not {expected}")
            queues[head.topic, head.queue_id] = head.queue_offset + 1
            findings.last_number = max(number, findings.last_number)
            findings.found[number] = _promise(number, head, session.options)
            findings.entries[head.topic, head.queue_id] += entry_of(walked.piece, head, _NO_DELAYS)
        if walked.end <= at:
            findings.wrong.append(f"the log is not whole at {at}: {walked.reason}")
            break
        at = walked.end
    findings.records = len(findings.found)


def _judge(head: RecordHead, piece: bytes, sent: Sent, findings: Findings) -> None:
    properties = decode_properties(head.properties(piece))
    expected = {"KEYS": sent.key, "UNIQ_KEY": sent.unique_key} | ({"TAGS": sent.tag} if sent.tag else {})
    if (head.topic, head.queue_id) != (sent.topic, sent.queue_id):
        findings.wrong.append(f"message {sent.number} is in {head.topic}/{head.queue_id}")
    if head.body(piece) != sent.body or properties != expected:
        findings.wrong.append(f"message {sent.number} is not what was sent")


class Views:
    """Compares what makes messages findable with the log."""

    def __init__(self, session: Session, findings: Findings) -> None:
        self._session = session
        self._store = session.store
        self._findings = findings

    async def check(self) -> None:
        """Every queue in full; by id and by key the newest messages and some of the others."""
        start = self._session.log.min_offset
        queues = {
            (queue.topic, queue.queue_id)
            for queue in self._store.queues
            if self._store.queues.min_offset(queue, start) < queue.max_offset
        }
        if queues != set(self._findings.entries):
            self._findings.wrong.append(f"queues are {queues}, the log has {set(self._findings.entries)}")
        for (topic, queue_id), entries in self._findings.entries.items():
            await self._check_queue(topic, queue_id, bytes(entries))
        found = list(self._findings.found.values())
        for ack in found[-_NEWEST:] + found[: -_NEWEST : max(1, len(found) // _OTHERS)]:
            await self._check_message(ack)

    async def _check_queue(self, topic: str, queue_id: int, expected: bytes) -> None:
        queue = self._store.queues.tail_of(topic, queue_id)
        entries, first = b"", self._findings.firsts[topic, queue_id]
        while piece := await self._store.queues.entries(queue, first + len(entries) // ENTRY_BYTES, _MANY):
            entries += piece
        if entries != expected:
            self._findings.wrong.append(
                f"queue {topic}/{queue_id} holds {len(entries) // ENTRY_BYTES} entries that are not the "
                f"{len(expected) // ENTRY_BYTES} of the log"
            )
        offset, got = first, 0
        while offset < queue.max_offset:
            pulled = await self._store.read(topic, queue_id, ReadRequest(offset, _MANY, 1 << 20))
            if pulled.next_offset <= offset:
                break
            offset, got = pulled.next_offset, got + pulled.messages
        if got * ENTRY_BYTES != len(expected):
            self._findings.wrong.append(f"queue {topic}/{queue_id} gives {got} messages")

    async def _check_message(self, ack: Ack) -> None:
        lookups = self._store.lookups
        by_id = await lookups.by_message_id(offset_message_id(HOST, PhysicalOffset(ack.physical)))
        if number_of(peek(by_id).body(by_id)) != ack.number:
            self._findings.wrong.append(f"message {ack.number} is not found by its id")
        by_key = await lookups.by_key(ack.topic, unique_key(ack.number), 64, ack.store_ms, ack.store_ms)
        if [number_of(peek(record).body(record)) for record in by_key.records] != [ack.number]:
            self._findings.wrong.append(f"message {ack.number} is not found by its key, or not it alone")


async def _compare_offsets(session: Session, promised: Sequence[Ack], findings: Findings) -> None:
    """No queue ends before a promised message, and no group is ahead of its queue."""
    ends = {(queue.topic, queue.queue_id): queue.max_offset for queue in session.store.queues}
    for ack in promised:
        if ack.queue_offset >= ends.get((ack.topic, ack.queue_id), 0):
            findings.wrong.append(f"queue {ack.topic}/{ack.queue_id} ends before message {ack.number}")
    for group, topic, queues in session.offsets.rows():
        for queue_id, offset in queues.items():
            if offset > ends.get((topic, queue_id), 0):
                findings.wrong.append(f"{group} is at {offset} of {topic}/{queue_id}, which ends before")


def _promise(number: int, head: RecordHead, options: Options) -> Ack:
    place = (head.physical_offset, head.size, head.topic, head.queue_id, head.queue_offset, head.store_timestamp)
    return Ack(number, *place, options.level.name, 0, head.body_crc, 0)


def _compare(ack: Ack, end: int, findings: Findings, *, may_lose: bool) -> None:
    found = findings.found.get(ack.number)
    if ack.flushed > end:
        findings.wrong.append(f"the log ends at {end}, and was said to be durable to {ack.flushed}")
    if found is None:
        if not may_lose or ack.physical + ack.size <= end:
            findings.lost.append(ack)
    elif found[:7] != ack[:7]:
        findings.wrong.append(f"message {ack.number} was promised at {ack} and lies at {found}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="hold a store to the promises on standard input")
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--segment-bytes", type=int, default=0)
    parser.add_argument("--boot-id", default="boot-0")
    given = parser.parse_args()
    options = Options(root=given.directory, segment_bytes=given.segment_bytes, boot_id=given.boot_id)
    findings = asyncio.run(check(options, Recipe(given.seed), parse_acks(sys.stdin.buffer.read())))
    print(findings.story())  # noqa: T201
    sys.exit(0 if findings.good else 1)


if __name__ == "__main__":
    main()
