"""Sends that came together and are of one shape: taken by columns, without a request and a draft of each.

Whoever sends many messages sends them with headers that hardly differ (``protocol.sendshape``). Shapes are learned
for each connection from the sends that it has sent. What is taken here passed the checks of the short way of
`SendHandlers`, once for the shape or once for all: it is stored, counted and answered alike. Whenever anything is not
as expected nothing is taken, and the sends go their ordinary way.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from firearrow.broker.acknowledging import Acks
from firearrow.broker.admission import Admission
from firearrow.broker.checked import Checked
from firearrow.broker.incoming import MAX_SENT_PROPERTIES, is_plain
from firearrow.broker.stamps import Stamps, born_of
from firearrow.model import EpochMs
from firearrow.protocol.conversation import Fields
from firearrow.protocol.frame import PREFIX_SIZE
from firearrow.protocol.requests.send import SendAnswer
from firearrow.protocol.sendshape import Run, SendShape
from firearrow.record.encode import Draft
from firearrow.record.properties import StoredProperties
from firearrow.record.together import Together
from firearrow.remoting.handlers import PARKED_OVERHEAD_BYTES, SUCCESS, Debtor, LaterTogether
from firearrow.store.placement import AppendedTogether, QueueTail
from firearrow.store.store import Store

LEARNED_AFTER: Final = 4
"""So many reads begin with a send of a length before a shape is made of it; twice as many each time it did not fit."""
WORTH_IT: Final = 4
"""Fewer sends in a read go the ordinary way: columns cost 30 us before the first message and half as much for each."""
SHAPES_MAX: Final = 64
"""Lengths that are remembered for a connection."""
KNOWN_MAX: Final = 4096
"""Shapes that are remembered for all of them."""
_SHAPES: Final = object()


class _Seen(msgspec.Struct):
    """What is known of the sends of one connection that have headers of one length."""

    shape: SendShape | None = None
    misses: int = 0
    next_try: int = LEARNED_AFTER


class SendsTogether:
    """Takes sends of one shape."""

    def __init__(
        self,
        store: Store,
        known: dict[str, Checked],
        acks: Acks,
        admission: Admission,
        *,
        tail_of: Callable[[Checked, str, int], QueueTail],
        syncs: bool,
    ) -> None:
        self._append = store.log.append_together
        self._retention = store.retention
        self._known = known
        self._acks = acks
        self._admission = admission
        self._tail_of = tail_of
        self._syncs = syncs
        self._shapes: dict[object, SendShape] = {}

    def take(self, peer: Debtor, data: bytes, stamps: Stamps, max_body: int) -> bytes:
        """Take the sends that ``data`` begins with; return the rest."""
        while len(data) > PREFIX_SIZE and len(data) >= WORTH_IT * int.from_bytes(data[:4]):
            seen = _seen(peer, data[4:PREFIX_SIZE])
            end = self._take_run(peer, seen.shape, data, stamps, max_body) if seen.shape is not None else 0
            if not end:
                self._missed(seen, data)
                return data
            data = data[end:]
        return data

    def _missed(self, seen: _Seen, data: bytes) -> None:
        """Learn from a send that is read now, if it is time."""
        seen.misses += 1
        if seen.misses < seen.next_try:
            return
        seen.next_try *= 2
        word = int.from_bytes(data[4:PREFIX_SIZE])
        header = data[PREFIX_SIZE : PREFIX_SIZE + (word & 0xFFFFFF)]
        shape = SendShape.learn(word >> 24, header) if word >> 25 == 0 else None
        if shape is not None and is_plain(shape.request, syncs=self._syncs):
            seen.shape = self._one_of_each(shape)

    def _one_of_each(self, shape: SendShape) -> SendShape:
        """Producers of one group say the same on all of their connections: remember it once."""
        if len(self._shapes) >= KNOWN_MAX:
            self._shapes.clear()
        return self._shapes.setdefault(shape.identity, shape)

    def _take_run(self, peer: Debtor, shape: SendShape, data: bytes, stamps: Stamps, max_body: int) -> int:
        """Where the sends that were taken end; 0 when none was."""
        request = shape.request
        known = self._known.get(request.topic)
        if known is None or self._retention.refusal is not None:
            return 0
        run = shape.cut(data, stamps.suffix)
        if run is None or not _fits(run, known.limit, max_body) or not self._admission.lets_in(len(run.bodies)):
            return 0
        tails = [known.tails.get(queue) or self._tail_of(known, request.topic, queue) for queue in run.queue_ids]
        shared = Draft(
            request.topic,
            0,
            b"",
            StoredProperties(b""),
            EpochMs(0),
            born_of(peer),
            stamps.store_host,
            request.flag,
            request.sys_flag | known.added_flags,
            request.reconsume_times or 0,
        )
        place = self._append(shared, tails, Together(run.queue_ids, run.born, run.bodies, run.properties))
        if place is None:
            return 0
        known.counts.messages += len(run.bodies)
        known.counts.size += place.end - place.physical_offsets[0]
        size = run.end + PARKED_OVERHEAD_BYTES * len(run.bodies)
        peer.park(size)
        self._acks.add(place.end, LaterTogether(peer, shape.encoding, _owed(run, place, stamps), size), SUCCESS)
        return run.end


def _seen(peer: Debtor, word: bytes) -> _Seen:
    """What is known of the sends of a peer whose frames have this word, which says how long the header is."""
    by_word: dict[bytes, _Seen] = peer.slots.setdefault(_SHAPES, {})
    if word not in by_word:
        if len(by_word) >= SHAPES_MAX:
            by_word.clear()
        by_word[word] = _Seen()
    return by_word[word]


def _fits(run: Run, queues: int, max_body: int) -> bool:
    sizes = list(map(len, run.bodies))
    return (
        max(run.queue_ids) < queues
        and max(sizes) <= max_body
        and min(sizes) > 0
        and max(map(len, run.properties)) <= MAX_SENT_PROPERTIES
    )


def _owed(run: Run, place: AppendedTogether, stamps: Stamps) -> Sequence[tuple[int, Fields]]:
    region, trace, prefix = stamps.marks.msg_region, stamps.marks.trace_on, stamps.id_prefix
    return [
        (
            opaque,
            SendAnswer(
                msg_id=f"{prefix}{physical:016X}",
                queue_id=queue_id,
                queue_offset=queue_offset,
                transaction_id=unique.decode(),
                msg_region=region,
                trace_on=trace,
            ),
        )
        for opaque, physical, queue_id, queue_offset, unique in zip(
            run.opaques, place.physical_offsets, run.queue_ids, place.queue_offsets, run.unique_keys, strict=True
        )
    ]
