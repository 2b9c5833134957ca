"""A consumer of a simulated cluster."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from firearrow import fastjson
from firearrow.errors import FireArrowError, RequestRefused, RequestTimedOut
from firearrow.model.message import MessageQueue, StoredMessage
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, ConsumerIdList, HeartbeatData, SubscriptionData
from firearrow.protocol.bodies.group.lock import LockBatchBody, LockedQueues
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import A, Request
from firearrow.protocol.requests.group.heartbeat import GetConsumerListByGroup, HeartBeat, NotifyConsumerIdsChanged
from firearrow.protocol.requests.group.lock import LockBatchMq
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack
from firearrow.record.decode import decode_all
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Call, Handlers
from firearrow.remoting.reply import CALL_TIMEOUT_MS, SUCCESS_ONLY, Reply
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node
from tests.simulation.invariants.history import History, key_of
from tests.simulation.workload.queue_scan import COMMIT, PULLED, SUSPEND, read_of
from tests.simulation.workload.routes import Routes

NOT_THERE: Final = "look message by offset failed"
"""The remark of a broker that does not hold a message that is sent back."""
REBALANCE_S: Final = 2.0
HEARTBEAT_S: Final = 10.0
LOCK_S: Final = 5.0
TRY_AGAIN_S: Final = 0.3
SUSPEND_MS: Final = 3_000


@dataclass
class Consumer:
    """A member of a group: takes its share of the queues and hands every message to the history."""

    client_id: str
    group: str
    name_servers: list[Address]
    topics: list[str]
    history: History
    expression: str = "*"
    ordered: bool = False
    fails: float = 0.0
    """The probability that a message is sent back at its first delivery."""
    is_poison: Callable[[str], bool] = lambda _key: False
    most_attempts: int = 16

    async def run(self, node: Node) -> None:
        """The consumer's process."""
        await _Membership(self, node).run()


class _Membership:
    def __init__(self, consumer: Consumer, node: Node) -> None:
        self.me = consumer
        self.node = node
        self.changed = asyncio.Event()
        handlers = Handlers()
        handlers.on(NotifyConsumerIdsChanged, self.notified)
        self.caller = Caller(node.network, handlers=handlers)
        self.routes = Routes(self.caller, consumer.name_servers, node.rng)
        self.pulling: dict[MessageQueue, asyncio.Task[None]] = {}
        self.locked: dict[MessageQueue, float] = {}
        self.topics = [*consumer.topics, *([] if consumer.ordered else [f"%RETRY%{consumer.group}"])]

    def notified(self, _request: NotifyConsumerIdsChanged, _call: Call) -> None:
        self.changed.set()

    async def run(self) -> None:
        beaten_s = -HEARTBEAT_S
        loop = asyncio.get_running_loop()
        while True:
            for topic in self.topics:
                await self.routes.refresh(topic)
            if loop.time() - beaten_s >= HEARTBEAT_S or self.changed.is_set():
                await self.heartbeat()
                beaten_s = loop.time()
            self.changed.clear()
            await self.rebalance()
            try:
                async with asyncio.timeout(REBALANCE_S):
                    await self.changed.wait()
            except TimeoutError:
                pass

    async def heartbeat(self) -> None:
        wanted = [
            SubscriptionData(topic=topic, sub_string=self.me.expression if topic in self.me.topics else "*")
            for topic in self.topics
        ]
        group = ConsumerData(
            group_name=self.me.group,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            subscription_data_set=wanted,
        )
        body = encode_body(HeartbeatData(client_id=self.me.client_id, consumer_data_set=[group]))
        for address in list(self.routes.brokers.values()):
            await self.tried(address, HeartBeat(), body)

    async def tried(
        self,
        address: Address,
        request: Request[A],
        body: bytes = b"",
        *,
        timeout_ms: float = CALL_TIMEOUT_MS,
        accept: frozenset[int] = SUCCESS_ONLY,
    ) -> Reply[A] | None:
        """The reply, or None when there is none."""
        try:
            return await self.caller.call(address, request, body, timeout_ms=timeout_ms, accept=accept)
        except FireArrowError as error:
            self.me.history.counts[f"{type(request).__name__} failed"] += 1
            if isinstance(error, RequestTimedOut) and isinstance(request, PullMessage):
                asked_s = asyncio.get_running_loop().time() - timeout_ms / 1000
                self.me.history.unanswered.append((asked_s, str(address)))
            if isinstance(error, RequestRefused) and error.code == ResponseCode.SUBSCRIPTION_NOT_EXIST:
                self.changed.set()  # the broker has forgotten us: say hello again
            return None

    async def rebalance(self) -> None:
        mine: dict[MessageQueue, None] = {}
        for topic in self.topics:
            queues = self.routes.queues.get(topic, [])
            if queues:
                members = await self.members(queues)
                if members is None:
                    mine |= {queue: None for queue in self.pulling if queue.topic == topic}
                else:
                    mine |= dict.fromkeys(share(queues, members, self.me.client_id))
        for queue in [queue for queue in self.pulling if queue not in mine]:
            task = self.pulling.pop(queue)
            task.cancel()
            await asyncio.wait([task])
        for queue in mine:
            if queue not in self.pulling:
                self.pulling[queue] = asyncio.create_task(self.consume(queue))

    async def members(self, queues: list[MessageQueue]) -> list[str] | None:
        """The members by the word of any broker that answers, as stock clients ask."""
        names = sorted({queue.broker_name for queue in queues})
        name = self.node.rng.choice(names)
        reply = await self.tried(self.routes.brokers[name], GetConsumerListByGroup(consumer_group=self.me.group))
        if reply is None:
            return None
        return sorted(fastjson.decode(reply.body, ConsumerIdList).consumer_id_list or [])

    # ---- one queue

    async def consume(self, queue: MessageQueue) -> None:
        offset: int | None = None
        while True:
            if self.me.ordered and not await self.hold(queue):
                offset = None
                await asyncio.sleep(TRY_AGAIN_S)
                continue
            if offset is None:
                offset = await self.first_offset(queue)
            following = None if offset is None else await self.pull(queue, offset)
            if following is None:
                offset = None if self.me.ordered else offset
                await asyncio.sleep(TRY_AGAIN_S)
            else:
                offset = following

    async def hold(self, queue: MessageQueue) -> bool:
        """Whether the queue is locked for us, asked again every few seconds."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self.locked.get(queue, -LOCK_S) < LOCK_S:
            return True
        body = encode_body(LockBatchBody(client_id=self.me.client_id, consumer_group=self.me.group, mq_set=[queue]))
        reply = await self.tried(self.routes.brokers[queue.broker_name], LockBatchMq(), body)
        if reply is None or queue not in fastjson.decode(reply.body, LockedQueues).locked:
            self.locked.pop(queue, None)
            return False
        self.locked[queue] = now_s
        return True

    async def first_offset(self, queue: MessageQueue) -> int | None:
        request = QueryConsumerOffset(consumer_group=self.me.group, topic=queue.topic, queue_id=queue.queue_id)
        accept = frozenset({0})
        try:
            reply = await self.caller.call(self.routes.brokers[queue.broker_name], request, accept=accept)
        except RequestRefused as refused:
            return 0 if refused.code == ResponseCode.QUERY_NOT_FOUND else None
        except FireArrowError:
            return None
        self.me.history.goes_on_at(self.me.group, queue.broker_name, queue.topic, queue.queue_id, reply.answer.offset)
        return reply.answer.offset

    async def pull(self, queue: MessageQueue, offset: int) -> int | None:
        """Pull once and consume what comes; return where to go on, None when something failed.

        The pull says how far we are, so that a commit which got lost is made up for by the next pull.
        """
        self.me.history.commits_to(self.me.group, queue.broker_name, queue.topic, queue.queue_id, offset)
        request = PullMessage(
            consumer_group=self.me.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=8,
            sys_flag=SUSPEND | COMMIT,
            commit_offset=offset,
            suspend_timeout_millis=SUSPEND_MS,
            sub_version=0,
        )
        address = self.routes.brokers[queue.broker_name]
        reply = await self.tried(address, request, timeout_ms=SUSPEND_MS * 2, accept=PULLED)
        if reply is None:
            return None
        self.me.history.counts[f"pull {reply.code}"] += 1
        for message in decode_all(reply.body):
            await self.handle(queue, message)
        following: int = reply.answer.next_begin_offset
        if reply.code in (0, ResponseCode.PULL_RETRY_IMMEDIATELY):
            await self.commit(queue, following)
        return following

    async def handle(self, queue: MessageQueue, message: StoredMessage) -> None:
        read = read_of(queue.broker_name, message)
        self.me.history.read_by(self.me.group, read)
        first_time = message.reconsume_times == 0
        if self.me.is_poison(read.key) or (first_time and self.node.rng.random() < self.me.fails):
            await self.send_back(queue, message)

    async def send_back(self, queue: MessageQueue, message: StoredMessage) -> None:
        request = ConsumerSendMsgBack(
            offset=message.physical_offset,
            group=self.me.group,
            delay_level=0,
            origin_msg_id=message.unique_key,
            origin_topic=message.topic,
            max_reconsume_times=self.me.most_attempts,
        )
        history, group, key = self.me.history, self.me.group, key_of(message.body)
        while True:
            try:
                await self.caller.call(self.routes.brokers[queue.broker_name], request)
                break
            except RequestRefused as refused:
                if refused.remark.startswith(NOT_THERE):
                    history.unreturnable.append((group, key))
                    return
            except FireArrowError:
                history.counts["ConsumerSendMsgBack failed"] += 1
            await asyncio.sleep(TRY_AGAIN_S)
        history.counts["sent back"] += 1
        history.returned.append((group, key, message.reconsume_times))

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        history, group = self.me.history, self.me.group
        history.commits_to(group, queue.broker_name, queue.topic, queue.queue_id, offset)
        request = UpdateConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        await self.tried(self.routes.brokers[queue.broker_name], request)


def share(queues: list[MessageQueue], members: list[str], me: str) -> list[MessageQueue]:
    """The average allocation: blocks of queues in order, the first members one more."""
    if me not in members:
        return []
    index, count = members.index(me), len(members)
    size, rest = divmod(len(queues), count)
    start = index * size + min(index, rest)
    return queues[start : start + size + (index < rest)]
