"""Sends: single, in batches, one-way. Java: ``SendMessageProcessor``, ``AbstractSendMessageProcessor``.

A message takes one of three ways, with the same answers and the same records. The short way serves nearly every
message: its topic was checked before, its queue exists, its properties ask for nothing special. The short way is
optimized to microseconds. Every other message takes the careful way, check by check (`send_checked`). Many sends of one
shape in one read are taken by columns (`send_bulk`).

Stored properties are the sender's, without those that only brokers set, followed by MSG_REGION, TRACE_ON and CLUSTER.
"""

from typing import Final

from firearrow.broker.gate.gate import KeptAnswer
from firearrow.broker.handlers.message.send_bulk import BulkSends
from firearrow.broker.handlers.message.send_checked import AnySend, CheckedSends
from firearrow.broker.handlers.message.send_rows import RowSends
from firearrow.broker.send.admission import Admission
from firearrow.broker.send.batches import batch_of
from firearrow.broker.send.checked_topics import Checked, CheckedTopics
from firearrow.broker.send.incoming import MAX_BATCH_TOPIC, MAX_SENT_PROPERTIES, is_plain, usage_text
from firearrow.broker.send.marks import BORN, born_host
from firearrow.broker.send.replies import SendReplies
from firearrow.broker.send.shedding import SendShedding
from firearrow.broker.tables.tables import Tables
from firearrow.broker.timer.admission import Congestion, never_congested
from firearrow.errors import DiskError, IllegalMessage
from firearrow.model import EpochMs, keys
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import SendBatchMessage, SendMessage, SendMessageV2
from firearrow.record.encode import Draft
from firearrow.record.properties import StoredProperties
from firearrow.remoting.handlers import Call, Handlers

_UNIQ_KEY: Final = keys.UNIQ_KEY + "\x01"
_UNIQ_KEY_LENGTH: Final = len(_UNIQ_KEY)
_SEPARATOR: Final = 2


class SendHandlers:
    """Takes messages from producers."""

    def __init__(self, tables: Tables, is_congested: Congestion = never_congested) -> None:
        log, settings = tables.store.log, tables.settings
        self._append = log.append
        self._append_columns = log.append_columns
        self._retention = tables.store.retention
        self._gate = tables.gate
        self.admission: Final = Admission(settings)
        self.replies: Final = SendReplies(
            tables.gate, settings, tables.identity.store_host, lambda: usage_text(tables.disk.usage())
        )
        checked = CheckedTopics(tables)
        self._known = checked.by_name
        self.rows: Final = RowSends(tables, self.replies)
        self._checked = CheckedSends(tables, checked, self.replies, self.rows, is_congested)
        self._bulk = BulkSends(tables, self._known, self.replies, self.admission)

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        kept = self._gate.before(handlers)
        kept.on(SendMessage, self.send)
        kept.on(SendMessageV2, self.send)
        kept.on(SendBatchMessage, self.send)
        handlers.on_many_sends(self._bulk.send, self._bulk.is_wanted)
        handlers.shedding = SendShedding(self.admission, self.replies)

    def send(self, request: AnySend, call: Call) -> KeptAnswer:
        """Store a message or a batch."""
        if self.admission.is_late():
            return self._busy()
        known = self._known.get(request.topic)
        properties = request.properties
        replies = self.replies
        if (
            known is None
            or not properties
            or not 0 <= request.queue_id < known.limit
            or not 0 < len(call.asked.body) <= replies.max_body
            or not is_plain(request.sys_flag, properties, syncs=self._gate.waits)
            or self._retention.refusal is not None
            or self._gate.is_shut
        ):
            return self._checked.send(request, call)
        at = properties.find(_UNIQ_KEY)
        if at < 0 or (at and properties[at - 1] != "\x02"):
            return self._checked.send(request, call)
        try:
            raw = properties.encode()
        except UnicodeEncodeError:
            return self._checked.send(request, call)
        if raw[-1] != _SEPARATOR:
            raw += b"\x02"
        stored = raw + replies.marks.suffix
        if len(stored) > MAX_SENT_PROPERTIES:
            return self._checked.send(request, call)
        end = properties.find("\x02", at)
        unique = properties[at + _UNIQ_KEY_LENGTH : end if end > 0 else None]
        try:
            if request.batch:
                return self._put_batch(request, call, known, unique)
            return self._put(request, call, known, StoredProperties(stored), unique)
        except (DiskError, IllegalMessage) as error:
            return replies.not_stored(error)

    def _put(
        self, request: AnySend, call: Call, known: Checked, properties: StoredProperties, unique: str
    ) -> KeptAnswer:
        """Store a message that passed every check."""
        replies, queue_id = self.replies, request.queue_id
        marks = replies.marks
        draft = Draft(
            request.topic,
            queue_id,
            call.asked.body,
            properties,
            EpochMs(request.born_timestamp),
            call.peer.slots.get(BORN) or born_host(call),
            marks.store_host,
            request.flag,
            request.sys_flag | known.added_flags,
            request.reconsume_times or 0,
        )
        place = self._append(known.tails.get(queue_id) or known.tail(queue_id), draft)
        physical = place.physical_offset
        counts = known.counts
        counts.messages += 1
        counts.size += place.end - physical
        answer = replies.stored(f"{marks.id_prefix}{physical:016X}", queue_id, place.queue_offset, unique)
        return replies.acknowledge(call, place.end, answer)

    def _put_batch(self, request: AnySend, call: Call, known: Checked, unique: str) -> KeptAnswer:
        """Store a batch that passed every check."""
        queue_id, replies = request.queue_id, self.replies
        if len(request.topic) > MAX_BATCH_TOPIC:
            return self._checked.send(request, call)
        born, store_host = born_host(call), replies.marks.store_host
        try:
            envelope, columns = batch_of(request, call.body, queue_id, known.added_flags, born, store_host)
        except Refused as refusal:
            return replies.refused(refusal)
        if self.rows.are_in(columns):
            return self._checked.put_rows(request, call, envelope, columns, unique)
        tails = [known.tails.get(queue_id) or known.tail(queue_id)] * len(columns.bodies)
        place = self._append_columns(envelope, tails, columns)
        places, counts = place.physical_offsets, known.counts
        counts.messages += len(places)
        counts.size += place.end - places[0]
        answer = replies.stored(replies.ids_of(places), queue_id, place.queue_offsets[0], unique)
        return replies.acknowledge(call, place.end, answer)

    def _busy(self) -> KeptAnswer:
        busy = self.admission.refusal
        self.admission.refused_some(1, were_asked=True)
        return self.replies.refused(busy)
