"""Handing out messages. Java: ``PullMessageProcessor``, ``DefaultPullMessageResultHandler``,
``PullRequestHoldService``.

A pull is served on the spot from memory. What lies on the device goes to `Errands`, off the loop. At the end of a queue
a pull that may wait is parked, and is served once more when a message comes or its time is over. Between finding
nothing and parking nothing else runs, and after a read that had to wait the end of the queue is compared again: no
arrival falls between the two. Arrivals of one turn of the loop are gathered, so a pull wakes once and takes all. While
others send, a pull that has more than one answer before it waits in `BacklogLine` for the sends of its turn.

Nothing above the confirm offset is seen here: a message has a place in its queue only from there on.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from firearrow.broker import pullanswer
from firearrow.broker.backlog import BacklogLine
from firearrow.broker.clients import ClientTable
from firearrow.broker.errands import Errands
from firearrow.broker.grouping import Groups
from firearrow.broker.longpoll import Parked, ParkedPulls
from firearrow.broker.offsets import OffsetTable
from firearrow.broker.pullconfig import LARGE_PULL_BYTES, LARGE_PULL_MESSAGES, MAX_SUSPEND_MS, PullConfig
from firearrow.broker.subscription import codes_of, is_tag_type, wanted_codes
from firearrow.model.flags import PERM_READ
from firearrow.model.java_hash import tag_code
from firearrow.protocol.bodies.group import SubscriptionGroupConfig
from firearrow.protocol.bodies.topic import TopicConfig
from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.pull import LitePullMessage, Pull, PullMessage
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.store import pulling
from firearrow.store.placement import PlacedRun, Rows
from firearrow.store.propertyfields import TAGS_MARK, field
from firearrow.store.store import Store

COMMIT_FLAG: Final = 0x1
SUSPEND_FLAG: Final = 0x2
SUBSCRIPTION_FLAG: Final = 0x4

Tags = frozenset[int] | None


class KnownTopics(Protocol):
    """Where topics are looked up."""

    def get(self, topic: str, /) -> TopicConfig | None:
        """A topic, if it is there."""
        ...


class ConsumeCounts(Protocol):
    """Who counts what is handed out and what comes back."""

    def pulled(self, group: str, topic: str, messages: int, size: int) -> None:
        """A pull found messages."""
        ...

    def missed(self) -> None:
        """A pull found none."""
        ...

    def sent_back(self, group: str, topic: str) -> None:
        """A consumer could not handle a message."""
        ...


class Uncounted:
    """Nobody counts."""

    def pulled(self, group: str, topic: str, messages: int, size: int) -> None:
        """Nothing."""

    def missed(self) -> None:
        """Nothing."""

    def sent_back(self, group: str, topic: str) -> None:
        """Nothing."""


class _Admitted(Struct, gc=False):
    """A pull that passed every check."""

    request: Pull
    tags: Tags
    topic_flag: int
    group_flag: int


class _Ticket(Struct, eq=False):
    """What it takes to serve a parked pull."""

    request: Pull
    call: Call


class PullHandlers:
    """Pulls, now or later."""

    def __init__(
        self,
        store: Store,
        topics: KnownTopics,
        groups: Groups,
        clients: ClientTable,
        offsets: OffsetTable,
        errands: Errands,
        *,
        config: PullConfig,
        memory_bytes: int,
        is_readable: Callable[[], bool],
        broker_ip: str,
        counts: ConsumeCounts,
        on_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._errands = errands
        self._memory_bytes = memory_bytes
        self._backlogs: Final = BacklogLine(store.log, self._hand_out, config.max_transfer_bytes_beside_sends)
        self.configure(config)
        self._is_readable = is_readable
        self._broker_ip = broker_ip
        self._counts = counts
        self._on_commit = on_commit
        self.parked: Final[ParkedPulls[_Ticket]] = ParkedPulls()
        self._woken: list[Parked[_Ticket]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0  # when it is due: the handle of a loop need not say

    def configure(self, config: PullConfig) -> None:
        """Follow other settings from now on; pulls that wait keep the time they were given."""
        self._config = config
        self._hot_distance = self._memory_bytes * config.access_message_in_memory_max_ratio // 100
        self._backlogs.least = config.max_transfer_bytes_beside_sends

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        handlers.on(PullMessage, self.pull)
        handlers.on(LitePullMessage, self.pull)

    # ---- asking

    def pull(self, request: Pull, call: Call) -> Answer | Later:
        """Hand out messages of a queue, or wait for some."""
        admitted = self._admit(request, call)
        move = self._take_move(admitted)
        if move is not None:
            return move
        self._commit(admitted)  # before anything is awaited: what the group commits next must not be overtaken by it
        if self._backlogs.is_open and self._has_backlog(request):
            return self._backlogs.add(admitted, call)
        return self._hand_out(admitted, call)

    def _has_backlog(self, request: Pull) -> bool:
        """Whether there is more than one answer can hold."""
        most = self._config.max_transfer_count_on_message_in_memory
        return self._end_of(request) - request.queue_offset > most

    def _hand_out(self, admitted: _Admitted, call: Call) -> Answer | Later:
        request = admitted.request
        hot = self._read_hot(admitted)
        if hot is None:
            return self._errands.do(call, self._pull_cold(admitted, call))
        self._note_pulled(admitted, hot.next_offset)
        code = pullanswer.code_of(hot, request.queue_offset)
        if code is ResponseCode.PULL_NOT_FOUND and request.sys_flag & SUSPEND_FLAG:
            return self._park(admitted, call)
        return self._answer(admitted, hot, code)

    async def _pull_cold(self, admitted: _Admitted, call: Call) -> Answer | Later:
        """The same, waiting for the device."""
        request = admitted.request
        pulled = await self._read(admitted)
        self._note_pulled(admitted, pulled.next_offset)
        code = pullanswer.code_of(pulled, request.queue_offset)
        if code is ResponseCode.PULL_NOT_FOUND and request.sys_flag & SUSPEND_FLAG:
            if self._end_of(request) <= request.queue_offset:
                return self._park(admitted, call)
            pulled = await self._read(admitted)
            code = pullanswer.code_of(pulled, request.queue_offset)
        return self._answer(admitted, pulled, code)

    def _answer(self, admitted: _Admitted, pulled: pulling.Pulled, code: int) -> Answer:
        if code == ResponseCode.SUCCESS:
            request = admitted.request
            self._counts.pulled(request.consumer_group, request.topic, pulled.messages, pulled.size)
        else:
            self._counts.missed()
        return pullanswer.answer(pulled, code, admitted.topic_flag, admitted.group_flag)

    def _take_move(self, admitted: _Admitted) -> Answer | None:
        request = admitted.request
        offset = self._offsets.take_move(request.consumer_group, request.topic, request.queue_id)
        if offset is None:
            return None
        queue = self._store.queues.find(request.topic, request.queue_id)
        least = 0 if queue is None else self._store.queues.min_offset(queue, self._store.log.min_offset)
        end = 0 if queue is None else queue.max_offset
        return pullanswer.moved(offset, least, end, admitted.topic_flag, admitted.group_flag)

    def _note_pulled(self, admitted: _Admitted, next_offset: int) -> None:
        request = admitted.request
        self._offsets.note_pulled(request.consumer_group, request.topic, request.queue_id, next_offset)

    def _commit(self, admitted: _Admitted) -> None:
        request = admitted.request
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        if request.sys_flag & COMMIT_FLAG and self._offsets.commit(group, topic, queue_id, request.commit_offset):
            self._on_commit()

    # ---- reading

    def _read_hot(self, admitted: _Admitted) -> pulling.Pulled | None:
        request, config = admitted.request, self._config
        most, size = config.max_transfer_count_on_message_in_memory, config.max_transfer_bytes_on_message_in_memory
        return self._store.read_hot(request.topic, request.queue_id, _limited(admitted, most, size))

    async def _read(self, admitted: _Admitted) -> pulling.Pulled:
        """Read with Apache's limits: others where messages lie so far from the log's end that they count as on disk."""
        request, config = admitted.request, self._config
        most, size = config.max_transfer_count_on_message_in_memory, config.max_transfer_bytes_on_message_in_memory
        near = _limited(admitted, most, size)
        most, size = config.max_transfer_count_on_message_in_disk, config.max_transfer_bytes_on_message_in_disk
        far = _limited(admitted, most, size)
        return await self._store.read(request.topic, request.queue_id, near, far=far, near_bytes=self._hot_distance)

    def _end_of(self, request: Pull) -> int:
        queue = self._store.queues.find(request.topic, request.queue_id)
        return 0 if queue is None else queue.max_offset

    # ---- waiting

    def _park(self, admitted: _Admitted, call: Call) -> Later:
        request, config = admitted.request, self._config
        held_ms = request.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
        until_ms = _now_ms() + min(max(held_ms, 0), MAX_SUSPEND_MS)
        key = (request.topic, request.queue_id)
        self.parked.park(key, request.queue_offset, admitted.tags, until_ms, _Ticket(request, call))
        self._set_timer()
        return call.later()

    def arrived(self, rows: Rows) -> None:
        """Messages can be seen now: wake whoever waits for them, at the end of this turn of the loop."""
        queues = self.parked.queues
        if not queues or (type(rows) is PlacedRun and (rows.tail.topic, rows.tail.queue_id) not in queues):
            return
        for tail, _, _, queue_offset, _, _, properties in rows:
            key = (tail.topic, tail.queue_id)
            if key in queues:
                tag = field(properties, TAGS_MARK)
                code = tag_code(tag.decode("utf-8", "replace")) if tag else 0
                self._wake(self.parked.arrived(key, queue_offset, code))

    def recall(self, group: str, topic: str, queue_id: int) -> None:
        """A group was sent elsewhere: let its waiting pulls hear of it now."""
        self._wake(self.parked.recall((topic, queue_id), lambda ticket: ticket.request.consumer_group == group))

    def _wake(self, woken: list[Parked[_Ticket]]) -> None:
        if woken and not self._woken:
            asyncio.get_running_loop().call_soon(self._serve_woken)
        self._woken += woken

    def _serve_woken(self) -> None:
        woken, self._woken = self._woken, []
        for parked in woken:
            self._serve(parked.ticket)

    def _serve(self, ticket: _Ticket) -> None:
        """Answer a pull that has waited, whatever there is; the world may have changed meanwhile."""
        later = ticket.call.later()
        if not later.is_owed:
            return
        try:
            admitted = self._admit(ticket.request, ticket.call)
            answer = self._take_move(admitted)
        except Refused as refusal:
            later.refuse(refusal.code, refusal.remark)
            return
        hot = None if answer is not None else self._read_hot(admitted)
        if hot is not None:
            answer = self._woken_answer(admitted, hot)
        if answer is not None:
            later.answer(answer)
        else:
            self._errands.add(later, self._serve_cold(admitted))

    async def _serve_cold(self, admitted: _Admitted) -> Answer:
        return self._woken_answer(admitted, await self._read(admitted))

    def _woken_answer(self, admitted: _Admitted, pulled: pulling.Pulled) -> Answer:
        request = admitted.request
        self._offsets.note_pulled(request.consumer_group, request.topic, request.queue_id, pulled.next_offset)
        return self._answer(admitted, pulled, pullanswer.code_of(pulled, request.queue_offset))

    def _set_timer(self) -> None:
        deadline_ms = self.parked.next_deadline_ms
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_at(deadline_ms / 1000, self._expire, deadline_ms)

    def _expire(self, deadline_ms: int) -> None:
        self._timer = None
        # A timer may come a little before its time by the loop's own clock: what it was set for has come.
        for parked in self.parked.expired(max(deadline_ms, _now_ms())):
            self._serve(parked.ticket)
        self._set_timer()

    # ---- checks, in Apache's order

    def _admit(self, request: Pull, call: Call) -> _Admitted:
        if not self._is_readable():
            raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] pulling message is forbidden")
        if request.code == RequestCode.LITE_PULL_MESSAGE and not self._config.lite_pull_message_enable:
            remark = f"the broker[{self._broker_ip}] for lite pull consumer is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        group = self._group(request.consumer_group)
        topic = self._topic(request, call)
        carried = request.sys_flag & SUBSCRIPTION_FLAG
        tags = _carried_tags(request) if carried else self._registered_tags(request, group)
        return _Admitted(request, tags, topic.topic_sys_flag, group.group_sys_flag)

    def _group(self, name: str) -> SubscriptionGroupConfig:
        group = self._groups.get(name)
        if group is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist; make it, or allow groups to be made by their first use",
            )
        if not group.consume_enable:
            raise Refused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}")
        return group

    def _topic(self, request: Pull, call: Call) -> TopicConfig:
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist, apply first please!")
        if not topic.perm & PERM_READ:
            raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{request.topic}] pulling message is forbidden")
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{call.peer.address}]",
            )
        return topic

    def _registered_tags(self, request: Pull, config: SubscriptionGroupConfig) -> Tags:
        name, topic = request.consumer_group, request.topic
        group = self._clients.group(name)
        if group is None:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        if group.is_broadcasting and not config.consume_broadcast_enable:
            remark = f"the consumer group[{name}] can not consume by broadcast way"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if not self._groups.table.may_read(name, topic):
            remark = f"the consumer group[{name}] is forbidden for topic[{topic}]"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        subscription = group.subscriptions.get(topic)
        if subscription is None:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        if subscription.sub_version < request.sub_version:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        _check_type(subscription.expression_type)
        return wanted_codes(subscription)


def _carried_tags(request: Pull) -> Tags:
    if not is_tag_type(request.expression_type) and not request.subscription:
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
    _check_type(request.expression_type)
    return codes_of(request.subscription)


def _check_type(expression_type: str | None) -> None:
    if not is_tag_type(expression_type):
        remark = f"The broker does not support consumer to filter message by {expression_type}"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)


def _limited(admitted: _Admitted, most: int, size: int) -> pulling.Pull:
    """What is asked of the store: Apache's limits, or those of a consumer that asked for large answers."""
    request = admitted.request
    if request.large and request.max_msg_bytes is not None:
        most, size = LARGE_PULL_MESSAGES, min(request.max_msg_bytes, LARGE_PULL_BYTES)
    return pulling.Pull(request.queue_offset, max(1, min(request.max_msg_nums, most)), size, admitted.tags)


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
