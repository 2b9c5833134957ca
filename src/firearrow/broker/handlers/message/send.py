"""Sends: single, in batches, one-way. Java: ``SendMessageProcessor``, ``AbstractSendMessageProcessor``.

A send is checked, appended and ended here. The checks are steps in Apache's order (`send_checked`), among them those of
halves, timers and rows. Before them stands a check of microseconds that nearly every message passes: its topic was
checked before, its queue exists, its properties ask for nothing special, so that no step concerns it. Many sends of one
shape in one read are taken by columns (`send_bulk`). Whichever way a message came, `Gate.placed` counts it, has it
remembered and answers it.

Stored properties are the sender's, without those that only brokers set, followed by MSG_REGION, TRACE_ON and CLUSTER.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from firearrow.broker.gate.gate import Gate, KeptAnswer
from firearrow.broker.handlers.message.send_bulk import BulkSends
from firearrow.broker.handlers.message.send_checked import CheckedSends
from firearrow.broker.handlers.message.send_rows import RowSends
from firearrow.broker.send.admission import Admission
from firearrow.broker.send.checked_topics import CheckedTopic
from firearrow.broker.send.incoming import MAX_BATCH_TOPIC, MAX_SENT_PROPERTIES, is_plain
from firearrow.broker.send.marks import BORN, born_host
from firearrow.broker.send.replies import SendReplies
from firearrow.broker.send.sent import AnySend, SentMessage, batch_of
from firearrow.errors import DiskError, IllegalMessage
from firearrow.model import EpochMs, keys
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import SendAnswer, SendBatchMessage, SendMessage, SendMessageV2
from firearrow.record.encode import Draft
from firearrow.record.properties import StoredProperties
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.store.placement import AppendedColumns, AppendPosition, QueueTail
from firearrow.store.store import Store

_UNIQ_KEY: Final = keys.UNIQ_KEY + "\x01"
_UNIQ_KEY_LENGTH: Final = len(_UNIQ_KEY)
_SEPARATOR: Final = 2


class SendHandlers:
    """Takes messages from producers."""

    def __init__(
        self,
        admission: Admission,
        replies: SendReplies,
        known: dict[str, CheckedTopic],
        *,
        rows: RowSends,
        checked: CheckedSends,
        bulk: BulkSends,
        store: Store,
        gate: Gate,
    ) -> None:
        self._append = store.log.append
        self._append_columns = store.log.append_columns
        self._retention = store.retention
        self._gate = gate
        self.admission: Final = admission
        self.replies: Final = replies
        self._known = known
        self.rows: Final = rows
        self._checked = checked
        self._bulk = bulk

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        kept = self._gate.before(handlers)
        kept.on(SendMessage, self.send)
        kept.on(SendMessageV2, self.send)
        kept.on(SendBatchMessage, self.send)
        handlers.on_many_sends(self._bulk.send, self._bulk.is_wanted)
        handlers.shedding = self.admission

    def send(self, request: AnySend, call: Call) -> KeptAnswer:
        """Store a message or a batch, unless it comes too late."""
        if self.admission.is_late():
            busy = self.admission.refusal
            self.admission.refused_some(1, were_asked=True)
            return self.replies.refused(busy)
        return self._store(request, call, self._known.get(request.topic))

    def _again(self, request: AnySend, call: Call) -> KeptAnswer:
        """Begin a send anew that had to wait."""
        return self._store(request, call, None)

    def _plain(self, request: AnySend, call: Call, known: CheckedTopic) -> SentMessage | KeptAnswer | None:
        """Return a message that no step of the checks concerns; None when that is not certain."""
        body, properties, queue_id = call.asked.body, request.properties, request.queue_id
        replies, gate = self.replies, self._gate
        if (
            not properties
            or not 0 <= queue_id < known.limit
            or not 0 < len(body) <= replies.max_body
            or not is_plain(request.sys_flag, properties, syncs=gate.waits)
            or self._retention.refusal is not None
            or (gate.replicas is not None and gate.is_shut)
        ):
            return None
        at = properties.find(_UNIQ_KEY)
        if at < 0 or (at and properties[at - 1] != "\x02"):
            return None
        try:
            raw = properties.encode()
        except UnicodeEncodeError:
            return None
        marks = replies.marks
        stored = raw + marks.suffix if raw[-1] == _SEPARATOR else raw + b"\x02" + marks.suffix
        if len(stored) > MAX_SENT_PROPERTIES:
            return None
        end = properties.find("\x02", at)
        unique = properties[at + _UNIQ_KEY_LENGTH : end if end > 0 else None]
        tail = known.tails.get(queue_id) or known.tail(queue_id)
        if request.batch:
            return self._plain_batch(request, call, known, tail, unique)
        draft = Draft(
            request.topic,
            queue_id,
            body,
            StoredProperties(stored),
            EpochMs(request.born_timestamp),
            call.peer.slots.get(BORN) or born_host(call),
            marks.store_host,
            request.flag,
            request.sys_flag | known.added_flags,
            request.reconsume_times or 0,
        )
        return SentMessage(call, request.topic, queue_id, draft, tail, known.counts, unique)

    def _plain_batch(
        self, request: AnySend, call: Call, known: CheckedTopic, tail: QueueTail, unique: str
    ) -> SentMessage | KeptAnswer | None:
        """Return a batch that no step but that of rows concerns, or raise the refusal of a batch."""
        if len(request.topic) > MAX_BATCH_TOPIC:
            return None
        queue_id, born, store_host = request.queue_id, born_host(call), self.replies.marks.store_host
        batch = batch_of(request, call.body, queue_id, known.added_flags, born, store_host)
        sent = SentMessage(call, request.topic, queue_id, batch, tail, known.counts, unique)
        return self.rows.admit_batch(sent, batch, partial(self._again, request, call)) or sent

    def _store(self, request: AnySend, call: Call, known: CheckedTopic | None) -> KeptAnswer:
        """Append a message and end its send, after every check unless its topic is known; or answer with the refusal.

        All of it is guarded: a plain message is refused too, as is a batch of rows whose first copies are undone.
        """
        replies = self.replies
        try:
            sent = None if known is None else self._plain(request, call, known)
            if sent is None:
                sent = self._checked.admit(request, call, partial(self._again, request, call))
            if not isinstance(sent, SentMessage):
                return sent
            content = sent.content
            place: AppendPosition | AppendedColumns
            if isinstance(content, Draft):
                place = one = self._append(sent.tail, content)
                physical, messages, queue_offset = one.physical_offset, 1, one.queue_offset
                msg_id = f"{replies.marks.id_prefix}{physical:016X}"
            else:
                messages = len(content.columns.bodies)
                place = many = self._append_columns(content.envelope, [sent.tail] * messages, content.columns)
                physical = many.physical_offsets[0]
                places, queue_offset = (sent.places_of or _places)(many)
                msg_id = replies.ids_of(places)
        except Refused as refusal:
            return replies.refused(refusal)
        except (DiskError, IllegalMessage) as error:
            return replies.not_stored(error)
        marks = replies.marks.on_answers
        answer = SendAnswer(
            msg_id=msg_id,
            queue_id=sent.queue_id,
            queue_offset=queue_offset,
            transaction_id=sent.unique,
            recall_handle=sent.handle,
            msg_region=marks.msg_region,
            trace_on=marks.trace_on,
        )
        remember = [partial(note, place) for note in sent.remember] if sent.remember else ()
        counts, size = sent.counts, place.end - physical
        return self._gate.placed(sent.call, place.end, Answer(answer), counts, messages, size, remember, sent.waits)


def _places(place: AppendedColumns) -> tuple[Sequence[int], int]:
    """Return the physical offsets and the first queue offset of a batch."""
    return place.physical_offsets, place.queue_offsets[0]
