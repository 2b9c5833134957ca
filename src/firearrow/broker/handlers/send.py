"""Taking messages: single, in batches, one-way. Java: ``SendMessageProcessor``, ``AbstractSendMessageProcessor``.

A message takes one of two ways. The short way is for what nearly every message is: a topic that was checked before, a
queue that it has, properties that ask for nothing special. It is written for its cost in microseconds. Everything else
goes the careful way, through `incoming`, check by check as Apache does it; it may put the topic among those that are
known, and so the next message takes the short way. Both give the same answers.

The answer waits in `Acks` until the log has written the record, or synced it where the broker syncs and the sender does
not say WAIT=false. It joins the line where the message is appended, and nowhere else: only there is it certain that a
write which fails takes this answer with it. A message for a topic that is not durable yet is not appended: it begins
anew when the topic is, and when the topic cannot be written it is refused, and is nowhere. So does Apache, which writes
its topics before the message.

Stored properties are the sender's, without what only brokers set, and MSG_REGION, TRACE_ON and CLUSTER behind them.
"""

import random
from collections.abc import Callable
from typing import Final

from firearrow.broker.acknowledging import lines_of
from firearrow.broker.admission import Admission
from firearrow.broker.checked import Checked, CheckedTopics, PutCounts, added_flags
from firearrow.broker.handlers.together import SendsTogether
from firearrow.broker.incoming import (
    MAX_BATCH_TOPIC,
    MAX_SENT_PROPERTIES,
    KnownGroups,
    check_name,
    check_time,
    delay_level,
    illegal_message,
    is_odd,
    missing_group,
    missing_topic,
    not_stored,
    park,
    refuse_inner_batch,
    refuse_timer,
    refuse_transaction,
    waits_for_store,
)
from firearrow.broker.live import LiveSettings
from firearrow.broker.stamps import BORN, Stamps, born_host
from firearrow.broker.topicbook import Topics
from firearrow.broker.topics import DLQ_QUEUES, describe
from firearrow.errors import BadBody, DiskError, FireArrowError, IllegalMessage
from firearrow.model import Address as Host
from firearrow.model import EpochMs, keys, names
from firearrow.model.flags import INNER_BATCH, TRANSACTION_MASK
from firearrow.model.versions import version_number
from firearrow.protocol.bodies.topic import TopicConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import ONEWAY_FLAG
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.send import (
    Send,
    SendAnswer,
    SendBatchMessage,
    SendMessage,
    SendMessageV2,
    ShortSend,
)
from firearrow.protocol.shedding import Refusals, beginnings
from firearrow.record.alike import Alike
from firearrow.record.batch import Piece, messages_of
from firearrow.record.encode import Draft
from firearrow.record.hosts import host_bytes
from firearrow.record.message_id import UniqueKeys, offset_message_ids
from firearrow.record.properties import StoredProperties, format_properties, parse_properties, stored_properties
from firearrow.remoting.handlers import SUCCESS, Answer, Call, Debtor, Handlers, Later
from firearrow.runtime.clock import Clock
from firearrow.store.placement import QueueTail
from firearrow.store.store import Store

COUNTS_RETRIES_SINCE: Final = version_number("3.4.9")
SENDS: Final = frozenset({int(SendMessage.code), int(SendMessageV2.code), int(SendBatchMessage.code)})
_ODD_FLAGS: Final = TRANSACTION_MASK | INNER_BATCH
_UNIQ_KEY: Final = keys.UNIQ_KEY + "\x01"
_UNIQ_KEY_LENGTH: Final = len(_UNIQ_KEY)
_SEPARATOR: Final = 2
_HASH: Final = b"#"[0]

AnySend = Send | ShortSend


class SendHandlers:
    """Takes messages from producers."""

    beginnings: Final = beginnings(SENDS)

    def __init__(
        self,
        store: Store,
        topics: Topics,
        groups: KnownGroups,
        *,
        settings: LiveSettings,
        store_host: Host,
        clock: Clock,
        chance: random.Random,
        unique_keys: UniqueKeys,
        counts: PutCounts,
        admission: Admission,
        is_consumed_in_order: Callable[[str], bool],
        disk_text: Callable[[], str],
    ) -> None:
        log = store.log
        self._append = log.append
        self._append_pieces = log.append_pieces
        self._retention = store.retention
        self._tails = store.queues
        self._topics = topics
        self._groups = groups
        self._settings = settings
        self._store_host = host_bytes(store_host)
        self._broker_ip = store_host.ip
        self._clock = clock
        self._chance = chance
        self._unique_keys = unique_keys
        self._counts = counts
        self._admission = self.pacing = admission
        self._is_consumed_in_order = is_consumed_in_order
        self._disk_text = disk_text
        self._busy_as: Refused | None = None
        self._busy_unread: Refusals | None = None
        self._checked = CheckedTopics(topics, settings, counts, clock)
        self._known = self._checked.by_name
        self._syncs = settings.value.log.syncs_first
        self.answers: Final = lines_of(log, self._unavailable, lambda: settings.broker.sync_flush_timeout)
        self.failed = 0
        self._written, self._acks = self.answers[0], self.answers[self._syncs]
        self._together = SendsTogether(store, self._known, self._acks, admission, tail_of=self._tail, syncs=self._syncs)
        self._reconfigure()
        settings.on_change.append(self._reconfigure)

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        handlers.on(SendMessage, self.send)
        handlers.on(SendMessageV2, self.send)
        handlers.on(SendBatchMessage, self.send)
        handlers.gate = self

    def _reconfigure(self) -> None:
        broker = self._settings.broker
        self._stamps = Stamps.make(
            broker.region_id, broker.broker_cluster_name, self._store_host, trace_on=broker.trace_on
        )
        self._max_body = self._settings.value.log.max_message_size

    # ---- the short way

    def send(self, request: AnySend, call: Call) -> Answer | Later | None:
        """Store a message or a batch."""
        if self._admission.is_late():
            return self._busy()
        known = self._known.get(request.topic)
        properties = request.properties
        queue_id = request.queue_id
        sys_flag = request.sys_flag
        body = call.asked.body
        if (
            known is None
            or not properties
            or not 0 <= queue_id < known.limit
            or sys_flag & _ODD_FLAGS
            or not 0 < len(body) <= self._max_body
            or is_odd(properties)
            or self._retention.refusal is not None
            or (self._syncs and "WAIT\x01true" not in properties)
        ):
            return self._carefully(request, call)
        at = properties.find(_UNIQ_KEY)
        if at < 0 or (at and properties[at - 1] != "\x02"):
            return self._carefully(request, call)
        try:
            raw = properties.encode()
        except UnicodeEncodeError:
            return self._carefully(request, call)
        if raw[-1] != _SEPARATOR:
            raw += b"\x02"
        stored = raw + self._stamps.suffix
        if len(stored) > MAX_SENT_PROPERTIES or _HASH in raw:
            return self._carefully(request, call)
        end = properties.find("\x02", at)
        unique = properties[at + _UNIQ_KEY_LENGTH : end if end > 0 else None]
        if request.batch:
            return self._put_batch(request, call, known, unique)
        return self._put(request, call, known, StoredProperties(stored), unique)

    def _put(
        self, request: AnySend, call: Call, known: Checked, properties: StoredProperties, unique: str
    ) -> Answer | Later:
        """Store a message that passed every check."""
        stamps, asked, queue_id = self._stamps, call.asked, request.queue_id
        tail = known.tails.get(queue_id) or self._tail(known, request.topic, queue_id)
        draft = Draft(
            request.topic,
            queue_id,
            asked.body,
            properties,
            EpochMs(request.born_timestamp),
            call.peer.slots.get(BORN) or born_host(call),
            stamps.store_host,
            request.flag,
            request.sys_flag | known.added_flags,
            request.reconsume_times or 0,
        )
        try:
            place = self._append(tail, draft)
        except (DiskError, IllegalMessage) as error:
            return self._store_refusal(error)
        physical = place.physical_offset
        counts = known.counts
        counts.messages += 1
        counts.size += place.end - physical
        if asked.heading.flag & ONEWAY_FLAG:
            return SUCCESS
        marks = stamps.marks
        answer = SendAnswer(
            msg_id=f"{stamps.id_prefix}{physical:016X}",
            queue_id=queue_id,
            queue_offset=place.queue_offset,
            transaction_id=unique,
            msg_region=marks.msg_region,
            trace_on=marks.trace_on,
        )
        later = call.later()
        self._acks.add(place.end, later, Answer(answer))
        return later

    def _put_batch(self, request: AnySend, call: Call, known: Checked, unique: str) -> Answer | Later:
        """Store a batch that passed every check."""
        queue_id = request.queue_id
        if len(request.topic) > MAX_BATCH_TOPIC:
            return self._carefully(request, call)
        tail = known.tails.get(queue_id) or self._tail(known, request.topic, queue_id)
        try:
            place = self._append_pieces(tail, *self._pieces(request, call, queue_id, known.added_flags))
        except Refused as refusal:
            return Answer(self._stamps.marks, code=refusal.code, remark=refusal.remark)
        except (DiskError, IllegalMessage) as error:
            return self._store_refusal(error)
        places, counts = place.physical_offsets, known.counts
        counts.messages += len(places)
        counts.size += place.end - places[0]
        if call.is_oneway:
            return SUCCESS
        later, ids = call.later(), offset_message_ids(self._store_host, places)
        self._acks.add(place.end, later, self._stored(ids, queue_id, place.queue_offset, unique))
        return later

    def _tail(self, known: Checked, topic: str, queue_id: int) -> QueueTail:
        tail = known.tails[queue_id] = self._tails.tail_of(topic, queue_id)
        return tail

    def refusals(self, *, has_rested: bool) -> Refusals | None:
        """How sends are refused unread while there is no time for any, or none for those that waited for a rest."""
        if not (self._admission.is_shut() or (has_rested and self._admission.is_behind())):
            return None
        busy = self._admission.refusal
        if busy is not self._busy_as:
            self._busy_as = busy
            self._busy_unread = Refusals(SENDS, self._stamps.marks, int(busy.code), busy.remark)
        return self._busy_unread

    def take(self, peer: Debtor, data: bytes) -> bytes:
        """Take sends that came together."""
        return self._together.take(peer, data, self._stamps, self._max_body)

    def refused(self, count: int) -> None:
        """So many sends were refused unread."""
        self._admission.refused_some(count)

    def _busy(self) -> Answer:
        busy = self._admission.refusal
        self._admission.refused_some(1, were_asked=True)
        return Answer(self._stamps.marks, code=int(busy.code), remark=busy.remark)

    # ---- the careful way

    def _carefully(self, request: AnySend, call: Call) -> Answer | Later:
        try:
            if not call.asked.body:
                return Answer(code=int(ResponseCode.SYSTEM_ERROR), remark="java.lang.NullPointerException: no body")
            check_time(self._settings.broker.start_accept_send_request_time_stamp, self._clock.now_ms())
            topic = self._topic(request, call)
            if request.batch:
                return self._send_batch(request, call, topic)
            return self._send_single(request, call, topic)
        except Refused as refusal:
            return Answer(self._stamps.marks, code=refusal.code, remark=refusal.remark)
        except (DiskError, IllegalMessage) as error:
            return self._store_refusal(error)

    def _topic(self, request: AnySend, call: Call) -> TopicConfig:
        name = request.topic
        topic = self._topics.get(name)
        if topic is not None and topic.order and not self._settings.broker.is_writable:
            raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] sending message is forbidden")
        check_name(name)
        topic = topic or self._made(request)
        if topic is None:
            raise missing_topic(name)
        if request.queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            remark = f"request queueId[{request.queue_id}] is illegal, {describe(topic)} Producer: {call.peer.address}"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        return topic

    def _made(self, request: AnySend) -> TopicConfig | None:
        """The topic of a first message, if it may be made."""
        return self._topics.make_for_message(
            request.topic,
            request.default_topic,
            request.default_topic_queue_nums,
            unit_mode=bool(request.unit_mode),
            auto_create=self._settings.broker.auto_create_topic_enable,
        )

    def _queue(self, request: AnySend, topic: TopicConfig) -> int:
        if request.queue_id >= 0:
            return request.queue_id
        if topic.write_queue_nums <= 0:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"topic[{request.topic}] has no write queues")
        return self._chance.randrange(topic.write_queue_nums)

    def _send_single(self, request: AnySend, call: Call, topic: TopicConfig) -> Answer | Later:
        queue_id = self._queue(request, topic)
        reconsume_times = request.reconsume_times or 0
        properties = parse_properties(request.properties or "")
        properties.pop(keys.POP_CK, None)
        target = request.topic
        if target.startswith(names.RETRY_PREFIX) and self._is_given_up(request, call):
            target, queue_id = self._dead_letter(target), 0
            properties[keys.DELAY] = "-1"
        unique = properties.get(keys.UNIQ_KEY)
        if not unique:
            unique = properties[keys.UNIQ_KEY] = self._unique_keys.next(EpochMs(self._clock.now_ms()))
        self._stamp(properties)
        refuse_transaction(properties, request.sys_flag, reconsume_times, self._broker_ip)
        self._check_body(call.body)
        refuse_inner_batch(properties, request.sys_flag, self._max_body)
        sys_flag = request.sys_flag | added_flags(topic)
        parked = park(target, queue_id, properties, sys_flag, len(self._settings.broker.delays_ms))
        draft = Draft(
            parked.topic,
            parked.queue_id,
            call.body,
            self._encoded(format_properties(parked.properties)),
            EpochMs(request.born_timestamp),
            born_host(call),
            self._store_host,
            request.flag,
            sys_flag,
            reconsume_times,
        )
        self._check_room()
        if target in self._topics.young:
            return self._wait_for_topic(target, request, call)
        place = self._append(self._tails.tail_of(parked.topic, parked.queue_id), draft)
        self._count(parked.topic, 1, place.end - place.physical_offset)
        if target == request.topic:
            self._checked.remember(topic)
        ids = self._id(place.physical_offset)
        answer = self._stored(ids, queue_id, place.queue_offset, unique)
        return self._acknowledge(call, place.end, answer, waits=waits_for_store(properties))

    def _check_room(self) -> None:
        if self._retention.refusal is not None:
            raise self._retention.refusal

    def _check_body(self, body: bytes) -> None:
        if not 0 < len(body) <= self._max_body:
            raise illegal_message(self._max_body)

    def _encoded(self, properties: str) -> StoredProperties:
        try:
            return stored_properties(properties)
        except IllegalMessage:
            raise illegal_message(self._max_body) from None

    def _is_given_up(self, request: AnySend, call: Call) -> bool:
        """Whether a message that a consumer sends back by itself has been tried often enough."""
        group_name = request.topic.removeprefix(names.RETRY_PREFIX)
        group = self._groups.get(group_name)
        if group is None:
            raise missing_group(group_name)
        most = group.retry_max_times
        if call.version >= COUNTS_RETRIES_SINCE and request.max_reconsume_times is not None:
            most = request.max_reconsume_times
        return (request.reconsume_times or 0) > most or self._is_consumed_in_order(group_name)

    def _dead_letter(self, retry: str) -> str:
        topic = names.dlq_topic(retry.removeprefix(names.RETRY_PREFIX))
        self._topics.ensure(topic, DLQ_QUEUES)
        return topic

    def _stamp(self, properties: dict[str, str]) -> None:
        marks = self._stamps.marks
        properties[keys.MSG_REGION] = marks.msg_region
        properties[keys.TRACE_ON] = str(marks.trace_on).lower()
        properties[keys.CLUSTER] = self._settings.broker.broker_cluster_name

    def _send_batch(self, request: AnySend, call: Call, topic: TopicConfig) -> Answer | Later:
        queue_id = self._queue(request, topic)
        name = request.topic
        if len(name) > MAX_BATCH_TOPIC:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"message topic length too long {len(name)}")
        if name.startswith(names.RETRY_PREFIX):
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {name}")
        shared = parse_properties(request.properties or "")
        refuse_inner_batch(shared, request.sys_flag, self._max_body)
        refuse_timer(shared)
        if request.sys_flag & TRANSACTION_MASK or delay_level(shared) > 0:
            raise illegal_message(self._max_body)
        template, pieces = self._pieces(request, call, queue_id, added_flags(topic))
        self._check_room()
        if name in self._topics.young:
            return self._wait_for_topic(name, request, call)
        place = self._append_pieces(self._tails.tail_of(name, queue_id), template, pieces)
        self._count(name, len(place.physical_offsets), place.end - place.physical_offsets[0])
        self._checked.remember(topic)
        ids = offset_message_ids(self._store_host, place.physical_offsets)
        answer = self._stored(ids, queue_id, place.queue_offset, shared.get(keys.UNIQ_KEY))
        return self._acknowledge(call, place.end, answer, waits=waits_for_store(shared))

    def _pieces(self, request: AnySend, call: Call, queue_id: int, flags: int) -> tuple[Draft, Alike | list[Piece]]:
        """What the messages of a batch share, and each of them."""
        if len(call.body) > self._max_body:
            raise Refused(ResponseCode.SYSTEM_ERROR, "message body size exceeded")
        template = Draft(
            request.topic,
            queue_id,
            b"",
            StoredProperties(b""),
            EpochMs(request.born_timestamp),
            born_host(call),
            self._store_host,
            request.flag,
            request.sys_flag | flags,
            request.reconsume_times or 0,
        )
        try:
            pieces = messages_of(call.body)
        except BadBody as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if not pieces:
            raise Refused(ResponseCode.SYSTEM_ERROR, "the batch is empty")
        return template, pieces

    # ---- topics that are not durable yet

    def _wait_for_topic(self, topic: str, request: AnySend, call: Call) -> Later:
        """Begin a send anew once its topic is durable."""
        later = call.later()
        self._topics.when_kept(topic, lambda error: self._send_again(error, request, call, later))
        return later

    def _send_again(self, error: FireArrowError | None, request: AnySend, call: Call, later: Later) -> None:
        answer = self._carefully(request, call) if error is None else self._store_refusal(error)
        if isinstance(answer, Answer):
            later.answer(answer)

    # ---- answering

    def _id(self, physical: int) -> str:
        return f"{self._stamps.id_prefix}{physical:016X}"

    def _stored(self, ids: str, queue_id: int, queue_offset: int, transaction_id: str | None) -> Answer:
        marks = self._stamps.marks
        return Answer(
            SendAnswer(
                msg_id=ids,
                queue_id=queue_id,
                queue_offset=queue_offset,
                transaction_id=transaction_id,
                msg_region=marks.msg_region,
                trace_on=marks.trace_on,
            )
        )

    def _acknowledge(self, call: Call, end: int, answer: Answer, *, waits: bool) -> Answer | Later:
        """Answer once the record that was just appended, and ends there, has come far enough."""
        if call.is_oneway:
            return SUCCESS
        (self._acks if waits else self._written).add(end, later := call.later(), answer)
        return later

    def _store_refusal(self, error: FireArrowError) -> Answer:
        self.failed += 1
        return self._unavailable(error)

    def _unavailable(self, error: FireArrowError) -> Answer:
        refusal = not_stored(error, self._max_body, self._disk_text)
        return Answer(self._stamps.marks, code=refusal.code, remark=refusal.remark)

    def _count(self, topic: str, messages: int, size: int) -> None:
        counts = self._counts.of_topic(topic)
        counts.messages += messages
        counts.size += size
