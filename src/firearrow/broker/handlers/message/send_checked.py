"""The careful way of a send: every check of Apache, for any message.

A message that passes may add its topic to the checked topics, so that the next message takes the short way (`send`);
both ways give the same answers. A message for a topic that is not durable yet is not appended: its send starts again
when the topic is durable, and is refused when the topic cannot be written. Apache also writes the topic first.
"""

from datetime import UTC
from functools import partial
from typing import Final

from firearrow.broker.gate.gate import KeptAnswer, Refusal
from firearrow.broker.handlers.message.send_rows import RowSends
from firearrow.broker.send.batches import batch_of, check_batch_size
from firearrow.broker.send.checked_topics import CheckedTopics, added_flags
from firearrow.broker.send.incoming import (
    MAX_BATCH_TOPIC,
    check_name,
    check_time,
    delay_level,
    destination_of,
    illegal_message,
    missing_group,
    missing_topic,
    refuse_inner_batch,
    transactions_rejected,
    waits_for_store,
)
from firearrow.broker.send.marks import born_host
from firearrow.broker.send.replies import SendReplies
from firearrow.broker.tables.tables import Tables
from firearrow.broker.tables.topics import DLQ_QUEUES, describe
from firearrow.broker.timer.admission import Congestion, is_timed, parked
from firearrow.broker.timer.recall_handle import handle_of
from firearrow.broker.transaction.half import half_destination, is_half
from firearrow.errors import DiskError, IllegalMessage
from firearrow.model import EpochMs, keys, names
from firearrow.model.flags import ROLLBACK, TRANSACTION_MASK
from firearrow.model.versions import version_number
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import ONEWAY_FLAG
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import Send, ShortSend
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.encode import Draft
from firearrow.record.message_id import UniqueKeys
from firearrow.record.properties import StoredProperties, format_properties, parse_properties, stored_properties
from firearrow.remoting.handlers import Call
from firearrow.runtime.clock import elapsed_ms

COUNTS_RETRIES_SINCE: Final = version_number("3.4.9")

AnySend = Send | ShortSend


class CheckedSends:
    """Takes messages after every check."""

    def __init__(
        self, tables: Tables, checked: CheckedTopics, replies: SendReplies, rows: RowSends, is_congested: Congestion
    ) -> None:
        store, identity, chance = tables.store, tables.identity, tables.chance
        self._append = store.log.append
        self._append_columns = store.log.append_columns
        self._retention = store.retention
        self._gate = tables.gate
        self._tails = store.queues
        self._topics = tables.topics
        self._groups = tables.groups
        self._new_names = tables.new_names
        self._locks = tables.locks
        self._checked = checked
        self._replies = replies
        self._rows = rows
        self._is_congested = is_congested
        self._broker_name = identity.name
        self._settings = tables.settings
        self._store_host = identity.store_host
        self._broker_ip = identity.ip
        self._clock = tables.clock
        self._chance = chance
        self._unique_keys = UniqueKeys(identity.ip, chance.getrandbits(16), chance.getrandbits(32), UTC)
        self._stats = tables.stats

    def send(self, request: AnySend, call: Call) -> KeptAnswer:
        """Store a message or a batch, or answer with the refusal."""
        try:
            if not call.asked.body:
                return Refusal(code=int(ResponseCode.SYSTEM_ERROR), remark="java.lang.NullPointerException: no body")
            check_time(self._settings.broker.start_accept_send_request_time_stamp, self._clock.now_ms())
            topic = self._topic(request, call)
            if request.batch:
                return self._send_batch(request, call, topic)
            return self._send_single(request, call, topic)
        except Refused as refusal:
            return self._replies.refused(refusal)
        except (DiskError, IllegalMessage) as error:
            return self._replies.not_stored(error)

    def _topic(self, request: AnySend, call: Call) -> TopicConfig:
        name = request.topic
        topic = self._topics.get(name)
        if topic is not None and topic.order and not self._settings.broker.is_writable:
            raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] sending message is forbidden")
        check_name(name)
        topic = topic or self._made(request, call)
        if topic is None:
            raise missing_topic(name)
        if request.queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            remark = f"request queueId[{request.queue_id}] is illegal, {describe(topic)} Producer: {call.peer.address}"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        return topic

    def _made(self, request: AnySend, call: Call) -> TopicConfig | None:
        """Create the topic for its first message; None when the topic may not be created."""
        auto_create = self._settings.broker.auto_create_topic_enable
        if not self._topics.may_make(request.topic, request.default_topic, auto_create=auto_create):
            return None
        fault = self._new_names.topic_fault(len(self._topics.table), call.peer)
        if fault is not None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist, and {fault}")
        return self._topics.make_for_message(
            request.topic,
            request.default_topic,
            request.default_topic_queue_nums,
            unit_mode=bool(request.unit_mode),
        )

    def _queue(self, request: AnySend, topic: TopicConfig) -> int:
        if request.queue_id >= 0:
            return request.queue_id
        if topic.write_queue_nums <= 0:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"topic[{request.topic}] has no write queues")
        return self._chance.randrange(topic.write_queue_nums)

    def _send_single(self, request: AnySend, call: Call, topic: TopicConfig) -> KeptAnswer:
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
        self._mark(properties)
        begins = is_half(properties, request.sys_flag, reconsume_times)
        rejects = self._settings.value.transactions.reject_transaction_message
        if begins and (rejects or request.sys_flag & TRANSACTION_MASK == ROLLBACK):
            raise transactions_rejected(self._broker_ip)
        self._check_body(call.body)
        refuse_inner_batch(properties, request.sys_flag, self._replies.max_body)
        sys_flag = request.sys_flag | added_flags(topic)
        if begins:
            sys_flag &= ~TRANSACTION_MASK
        # A half message goes there with its commit: one that could not is refused now.
        waits_at = destination_of(target, queue_id, properties, sys_flag, len(self._settings.broker.delays_ms))
        timers, now_ms = self._settings.value.timers, self._clock.now_ms()
        waits_at = parked(waits_at, sys_flag, timers, now_ms, self._is_congested)
        if begins:
            waits_at = half_destination(target, queue_id, request.producer_group, properties)
        draft = Draft(
            waits_at.topic,
            waits_at.queue_id,
            call.body,
            self._encoded(format_properties(waits_at.properties)),
            EpochMs(request.born_timestamp),
            born_host(call),
            self._store_host,
            request.flag,
            sys_flag,
            reconsume_times,
        )
        self._check_room(call, waits_for_store(properties))
        if target in self._topics.young:
            return self._wait_for_topic(target, request, call)
        row = None if begins or keys.ROW_ID not in properties else self._rows.row_of(target, queue_id, draft)
        if row is not None:
            if not self._rows.windows.is_ready(target, queue_id):
                return self._rows.wait(call, target, queue_id, lambda: self.send(request, call))
            first = self._rows.first_of(row)
            if first is not None:
                return self._rows.repeated(call, first, queue_id, unique, waits=waits_for_store(properties))
        place = self._append(self._tails.tail_of(waits_at.topic, waits_at.queue_id), draft)
        if row is not None:
            self._rows.stored(row, place)
        self._count(waits_at.topic, 1, place.end - place.physical_offset)
        if target == request.topic:
            self._checked.remember(topic)
        handle = handle_of(waits_at.properties, self._broker_name, unique)
        answer = self._replies.stored(
            self._replies.id_of(place.physical_offset), queue_id, place.queue_offset, unique, handle
        )
        return self._replies.acknowledge(call, place.end, answer, waits=waits_for_store(properties))

    def _check_room(self, call: Call, waits: bool) -> None:
        if self._retention.refusal is not None:
            raise self._retention.refusal
        self._gate.check()
        if not waits or call.asked.heading.flag & ONEWAY_FLAG:
            self._gate.check_lead()

    def _check_body(self, body: bytes) -> None:
        if not 0 < len(body) <= self._replies.max_body:
            raise illegal_message(self._replies.max_body)

    def _encoded(self, properties: str) -> StoredProperties:
        try:
            return stored_properties(properties)
        except IllegalMessage:
            raise illegal_message(self._replies.max_body) from None

    def _is_given_up(self, request: AnySend, call: Call) -> bool:
        """Whether a message that a consumer sends to its retry topic has used up its attempts."""
        group_name = request.topic.removeprefix(names.RETRY_PREFIX)
        group = self._groups.of_client(group_name, call.peer)
        if isinstance(group, str):
            raise missing_group(group_name, group)
        most = group.retry_max_times
        if call.version >= COUNTS_RETRIES_SINCE and request.max_reconsume_times is not None:
            most = request.max_reconsume_times
        return (request.reconsume_times or 0) > most or self._locks.is_any_held(group_name, elapsed_ms())

    def _dead_letter(self, retry: str) -> str:
        topic = names.dlq_topic(retry.removeprefix(names.RETRY_PREFIX))
        self._topics.ensure(topic, DLQ_QUEUES)
        return topic

    def _mark(self, properties: dict[str, str]) -> None:
        """Add the broker's marks to the properties of a message."""
        marks = self._replies.marks.on_answers
        properties[keys.MSG_REGION] = marks.msg_region
        properties[keys.TRACE_ON] = str(marks.trace_on).lower()
        properties[keys.CLUSTER] = self._settings.broker.broker_cluster_name

    def _send_batch(self, request: AnySend, call: Call, topic: TopicConfig) -> KeptAnswer:
        queue_id = self._queue(request, topic)
        name = request.topic
        if len(name) > MAX_BATCH_TOPIC:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"message topic length too long {len(name)}")
        if name.startswith(names.RETRY_PREFIX):
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {name}")
        shared = parse_properties(request.properties or "")
        refuse_inner_batch(shared, request.sys_flag, self._replies.max_body)
        if request.sys_flag & TRANSACTION_MASK or delay_level(shared) > 0 or is_timed(name, shared):
            raise illegal_message(self._replies.max_body)
        check_batch_size(call.body, self._replies.max_body)
        born = born_host(call)
        envelope, columns = batch_of(request, call.body, queue_id, added_flags(topic), born, self._store_host)
        self._check_room(call, waits_for_store(shared))
        if name in self._topics.young:
            return self._wait_for_topic(name, request, call)
        if self._rows.are_in(columns):
            self._checked.remember(topic)
            return self.put_rows(request, call, envelope, columns, shared.get(keys.UNIQ_KEY))
        tails = [self._tails.tail_of(name, queue_id)] * len(columns.bodies)
        place = self._append_columns(envelope, tails, columns)
        places = place.physical_offsets
        self._count(name, len(places), place.end - places[0])
        self._checked.remember(topic)
        unique = shared.get(keys.UNIQ_KEY)
        answer = self._replies.stored(self._replies.ids_of(places), queue_id, place.queue_offsets[0], unique)
        return self._replies.acknowledge(call, place.end, answer, waits=waits_for_store(shared))

    def put_rows(
        self, request: AnySend, call: Call, envelope: Envelope, columns: MessageColumns, unique: str | None
    ) -> KeptAnswer:
        """Store a batch of rows with identities that passed every check, without the repeated rows."""
        waits = waits_for_store(parse_properties(request.properties or ""))
        return self._rows.put(call, envelope, columns, unique, lambda: self.send(request, call), waits=waits)

    # ---- topics that are not durable yet

    def _wait_for_topic(self, topic: str, request: AnySend, call: Call) -> KeptAnswer:
        """Start a send again once its topic is durable."""
        later = call.later()
        self._topics.when_kept(topic, partial(self._replies.resume, later, lambda: self.send(request, call)))
        return self._gate.owed(later)

    def _count(self, topic: str, messages: int, size: int) -> None:
        counts = self._stats.of_topic(topic)
        counts.messages += messages
        counts.size += size
        if topic.startswith(names.DLQ_PREFIX):
            group = topic.removeprefix(names.DLQ_PREFIX)
            self._stats.died(group, names.retry_topic(group))
