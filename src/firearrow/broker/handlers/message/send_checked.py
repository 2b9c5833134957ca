"""The checks of a send: one list of steps in Apache's order, for any message; those of a batch are another list.

A step looks at the properties of a message. It leaves the message as it is, changes where and how it is stored
(retries that are given up, delays, timers, halves of transactions), has its place remembered (rows), or raises the
refusal. A message that passes may add its topic to the checked topics, so that the next one needs no step (`send`). A
message for a topic that is not durable yet is not appended: its send starts again when the topic is durable, and is
refused when the topic cannot be written. Apache also writes the topic first.
"""

import random
from collections.abc import Callable, Mapping
from datetime import UTC
from functools import partial
from typing import Any, Final

from msgspec import Struct

from firearrow.broker.gate.gate import Gate, KeptAnswer, Refusal
from firearrow.broker.handlers.message.send_rows import RowSends
from firearrow.broker.identity import Identity
from firearrow.broker.send.checked_topics import CheckedTopics, added_flags
from firearrow.broker.send.incoming import (
    MAX_BATCH_TOPIC,
    Destination,
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
from firearrow.broker.send.sent import Again, AnySend, SentBatch, SentMessage, batch_of, check_batch_size
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.locks import QueueLocks
from firearrow.broker.tables.new_names import NewNames
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.broker.tables.topics import DLQ_QUEUES, describe
from firearrow.broker.timer.admission import Congestion, is_timed, parked
from firearrow.broker.transaction.half import half_destination, is_half
from firearrow.errors import IllegalMessage
from firearrow.model import EpochMs, keys, names
from firearrow.model.flags import ROLLBACK, TRANSACTION_MASK
from firearrow.model.versions import version_number
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import ONEWAY_FLAG
from firearrow.protocol.refusal import Refused
from firearrow.record.encode import Draft
from firearrow.record.message_id import UniqueKeys
from firearrow.record.properties import StoredProperties, format_properties, parse_properties, stored_properties
from firearrow.record.recall_handle import handle_of
from firearrow.remoting.handlers import Call
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.store.store import Store

COUNTS_RETRIES_SINCE: Final = version_number("3.4.9")
NOWHERE: Final = Destination("", -1, {})


class IncomingSend(Struct):
    """A message between two steps."""

    request: AnySend
    call: Call
    config: TopicConfig
    """The topic that the request names."""
    topic: str
    queue_id: int
    properties: Mapping[str, str]
    sys_flag: int
    unique: str = ""
    is_half: bool = False
    stored_at: Destination = NOWHERE
    """Its own queue, or where it waits until it is due or committed. Known from the step of delays on."""


Step = Callable[[IncomingSend], None]


class CheckedSends:
    """Takes messages through every check."""

    def __init__(
        self,
        checked: CheckedTopics,
        replies: SendReplies,
        rows: RowSends,
        is_congested: Congestion,
        *,
        store: Store,
        identity: Identity,
        chance: random.Random,
        gate: Gate,
        topics: TopicBook,
        groups: GroupBook,
        new_names: NewNames,
        locks: QueueLocks,
        settings: LiveSettings,
        clock: Clock,
        stats: BrokerStats,
    ) -> None:
        self._retention = store.retention
        self._gate = gate
        self._tails = store.queues
        self._topics = topics
        self._groups = groups
        self._new_names = new_names
        self._locks = locks
        self._checked = checked
        self._replies = replies
        self._rows = rows
        self._is_congested = is_congested
        self._broker_name = identity.name
        self._settings = settings
        self._store_host = identity.store_host
        self._broker_ip = identity.ip
        self._clock = clock
        self._chance = chance
        self._unique_keys = UniqueKeys(identity.ip, chance.getrandbits(16), chance.getrandbits(32), UTC)
        self._stats = stats
        self._steps: Final[tuple[Step, ...]] = (
            self._give_up,
            self._mark,
            self._begin,
            self._check_content,
            self._delay,
            self._time,
            self._hide,
        )

    def admit(self, request: AnySend, call: Call, again: Again) -> SentMessage | KeptAnswer:
        """Return a message or a batch that passed every check, or its answer where it has to wait or was stored before.

        ``again`` begins the send anew. Raise the refusal of a check.
        """
        if not call.asked.body:
            return Refusal(code=int(ResponseCode.SYSTEM_ERROR), remark="java.lang.NullPointerException: no body")
        check_time(self._settings.broker.start_accept_send_request_time_stamp, self._clock.now_ms())
        config = self._topic(request, call)
        admit = self._admit_batch if request.batch else self._admit_single
        message = IncomingSend(
            request, call, config, request.topic, self._queue(request, config),
            parse_properties(request.properties or ""), request.sys_flag,
        )  # fmt: skip
        return admit(message, again)

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

    def _admit_single(self, message: IncomingSend, again: Again) -> SentMessage | KeptAnswer:
        for step in self._steps:
            step(message)
        waits = waits_for_store(message.properties)
        stored_at, draft = message.stored_at, self._draft(message)
        answer = self._wait_for_room(message, again, waits=waits)
        if answer is not None:
            return answer
        sent = self._sent(message, draft, stored_at.topic, stored_at.queue_id, waits=waits)
        sent.handle = handle_of(stored_at.properties, self._broker_name, message.unique)
        is_row = keys.ROW_ID in message.properties and not message.is_half
        return (self._rows.admit(sent, draft, again) if is_row else None) or sent

    def _sent(
        self, message: IncomingSend, content: Draft | SentBatch, topic: str, queue_id: int, *, waits: bool
    ) -> SentMessage:
        """Return a message that passed every check but that of rows, to be stored in a queue."""
        remember: list[Callable[[Any], object]] = []
        if message.topic == message.request.topic:
            remember.append(lambda _: self._checked.remember(message.config))
        else:
            retry = message.request.topic  # it was given up
            remember.append(lambda _: self._stats.died(retry.removeprefix(names.RETRY_PREFIX), retry))
        return SentMessage(
            message.call,
            message.topic,
            message.queue_id,
            content,
            self._tails.tail_of(topic, queue_id),
            self._stats.of_topic(topic),
            message.unique,
            waits,
            remember=tuple(remember),
        )

    # ---- the steps of a message, in their order

    def _give_up(self, message: IncomingSend) -> None:
        """Send a retry to the dead letters that has used up its attempts."""
        properties = dict(message.properties)
        properties.pop(keys.POP_CK, None)
        message.properties = properties
        if message.topic.startswith(names.RETRY_PREFIX) and self._is_given_up(message.request, message.call):
            message.topic, message.queue_id = self._dead_letter(message.topic), 0
            properties[keys.DELAY] = "-1"

    def _mark(self, message: IncomingSend) -> None:
        """Give a message a unique key, unless it has one, and the marks of this broker."""
        marks, given = self._replies.marks.on_answers, message.properties
        message.unique = given.get(keys.UNIQ_KEY) or self._unique_keys.next(EpochMs(self._clock.now_ms()))
        message.properties = {
            **given,
            keys.UNIQ_KEY: message.unique,
            keys.MSG_REGION: marks.msg_region,
            keys.TRACE_ON: str(marks.trace_on).lower(),
            keys.CLUSTER: self._settings.broker.broker_cluster_name,
        }

    def _begin(self, message: IncomingSend) -> None:
        """Find out whether a message begins a transaction; refuse it where none may begin."""
        sys_flag = message.sys_flag
        message.is_half = is_half(message.properties, sys_flag, message.request.reconsume_times or 0)
        rejects = self._settings.value.transactions.reject_transaction_message
        if message.is_half and (rejects or sys_flag & TRANSACTION_MASK == ROLLBACK):
            raise transactions_rejected(self._broker_ip)

    def _check_content(self, message: IncomingSend) -> None:
        """Refuse a body that is too large, and a batch that is to be one record; complete the flags."""
        if not 0 < len(message.call.body) <= self._replies.max_body:
            raise illegal_message(self._replies.max_body)
        refuse_inner_batch(message.properties, message.sys_flag, self._replies.max_body)
        message.sys_flag |= added_flags(message.config)
        if message.is_half:
            message.sys_flag &= ~TRANSACTION_MASK

    def _delay(self, message: IncomingSend) -> None:
        """Store a message with a delay level in the queue of its level.

        A half message goes there with its commit: one that could not is refused now, and so in the next step.
        """
        levels = len(self._settings.broker.delays_ms)
        message.stored_at = destination_of(
            message.topic, message.queue_id, message.properties, message.sys_flag, levels
        )

    def _time(self, message: IncomingSend) -> None:
        """Store a message with a time of its own in the queue of the timers."""
        timers, now_ms = self._settings.value.timers, self._clock.now_ms()
        message.stored_at = parked(message.stored_at, message.sys_flag, timers, now_ms, self._is_congested)

    def _hide(self, message: IncomingSend) -> None:
        """Store a half message in the queue of halves."""
        if message.is_half:
            group = message.request.producer_group
            message.stored_at = half_destination(message.topic, message.queue_id, group, message.properties)

    def _draft(self, message: IncomingSend) -> Draft:
        request, stored_at = message.request, message.stored_at
        return Draft(
            stored_at.topic,
            stored_at.queue_id,
            message.call.body,
            self._encoded(format_properties(stored_at.properties)),
            EpochMs(request.born_timestamp),
            born_host(message.call),
            self._store_host,
            request.flag,
            message.sys_flag,
            request.reconsume_times or 0,
        )

    def _wait_for_room(self, message: IncomingSend, again: Again, *, waits: bool) -> KeptAnswer | None:
        """Refuse a message for which there is no room; return the answer of one whose topic is not durable yet."""
        if self._retention.refusal is not None:
            raise self._retention.refusal
        self._gate.check()
        if not waits or message.call.asked.heading.flag & ONEWAY_FLAG:
            self._gate.check_lead()
        return self._wait_for_topic(message.topic, message.call, again) if message.topic in self._topics.young else None

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

    # ---- batches

    def _admit_batch(self, message: IncomingSend, again: Again) -> SentMessage | KeptAnswer:
        request, call, name, shared = message.request, message.call, message.topic, message.properties
        if len(name) > MAX_BATCH_TOPIC:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"message topic length too long {len(name)}")
        if name.startswith(names.RETRY_PREFIX):
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {name}")
        refuse_inner_batch(shared, request.sys_flag, self._replies.max_body)
        if request.sys_flag & TRANSACTION_MASK or delay_level(shared) > 0 or is_timed(name, shared):
            raise illegal_message(self._replies.max_body)
        check_batch_size(call.body, self._replies.max_body)
        flags, born = added_flags(message.config), born_host(call)
        batch = batch_of(request, call.body, message.queue_id, flags, born, self._store_host)
        waits = waits_for_store(shared)
        answer = self._wait_for_room(message, again, waits=waits)
        if answer is not None:
            return answer
        sent = self._sent(message, batch, name, message.queue_id, waits=waits)
        sent.unique = shared.get(keys.UNIQ_KEY)
        return self._rows.admit_batch(sent, batch, again) or sent

    # ---- topics that are not durable yet

    def _wait_for_topic(self, topic: str, call: Call, again: Again) -> KeptAnswer:
        """Start a send again once its topic is durable."""
        later = call.later()
        self._topics.when_kept(topic, partial(self._replies.resume, later, again))
        return self._gate.owed(later)
