"""A producer of half messages in a simulated cluster: it commits, rolls back, forgets, or dies in between.

What becomes of a half message is decided before it is sent and written down in the history, where every member of the
group finds it, as members find it in their database. So any member answers a broker's check for any other.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from firearrow.errors import FireArrowError, RequestRefused
from firearrow.model.flags import COMMIT, ROLLBACK
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import HeartbeatData, ProducerData
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.transaction.transaction import CheckTransactionState, EndTransaction
from firearrow.record.decode import decode_all
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Call, Handlers
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node
from tests.simulation.invariants.history import Decision, End, Half, History, Outcome, Sent, key_of
from tests.simulation.workload.producer import TRY_AGAIN_S, Post, send
from tests.simulation.workload.routes import Routes

HEARTBEAT_S: Final = 2.0
CODES: Final = {Decision.COMMIT: COMMIT, Decision.ROLLBACK: ROLLBACK, Decision.UNKNOWN: 0}
DRAWN: Final = (Decision.COMMIT,) * 5 + (Decision.ROLLBACK,) * 3 + (Decision.UNKNOWN,)


@dataclass
class TransactionProducer:
    """A member of a producer group: sends half messages and ends most of them; its group answers for the rest."""

    name: str
    group: str
    name_servers: list[Address]
    topics: list[str]
    history: History
    pause_s: float = 0.3
    ended_chance: float = 0.7
    """The probability that the transaction is ended by the member that began it."""
    late_chance: float = 0.2
    """The probability that the end comes so late that a broker may have asked before."""
    number: int = 0
    stopped: bool = False
    """Set to begin no more transactions; checks are answered as before."""

    async def run(self, node: Node) -> None:
        """The producer's process."""
        await _Member(self, node).run()


class _Member:
    """One run of a member's process."""

    def __init__(self, producer: TransactionProducer, node: Node) -> None:
        self.me = producer
        self.node = node
        self.history = producer.history
        handlers = Handlers()
        handlers.on(CheckTransactionState, self.asked)
        self.caller = Caller(node.network, handlers=handlers)
        self.routes = Routes(self.caller, producer.name_servers, node.rng)
        self.brokers: dict[str, str] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.beat())
            while True:
                if self.me.stopped or not any(self.routes.queues.values()):
                    await asyncio.sleep(TRY_AGAIN_S)
                else:
                    await self.begin()
                    await asyncio.sleep(self.node.rng.expovariate(1.0) * self.me.pause_s)

    async def beat(self) -> None:
        """Tell every broker again and again which group this is."""
        data = HeartbeatData(client_id=self.me.name, producer_data_set=[ProducerData(group_name=self.me.group)])
        body = encode_body(data)
        while True:
            for topic in self.me.topics:
                await self.routes.refresh(topic)
            for address in list(self.routes.brokers.values()):
                try:
                    await self.caller.call(address, HeartBeat(), body)
                except FireArrowError:
                    self.history.counts["HeartBeat failed"] += 1
            await asyncio.sleep(HEARTBEAT_S)

    # ---- one transaction

    async def begin(self) -> None:
        """Send a half message and, mostly, end its transaction."""
        rng, me = self.node.rng, self.me
        queue = rng.choice(
            self.routes.queues[rng.choice([topic for topic in me.topics if self.routes.queues.get(topic)])]
        )
        me.number += 1
        key, decision = f"{me.name}:{me.number}", rng.choice(DRAWN)
        post = Post(
            key, queue.topic, queue.broker_name, queue.queue_id, tag=rng.choice(["A", ""]), group=me.group, half=True
        )
        # Written down first: the process may die while the answer is on its way.
        now_s = asyncio.get_running_loop().time()
        unsure = Sent(
            key, post.topic, post.broker, post.queue_id, Outcome.INFO, None, now_s, now_s, post.tag, decision=decision
        )
        half = self.history.halves[key] = Half(unsure, decision, unknowns=rng.choice((0, 0, 0, 1)))
        address = self.routes.brokers[queue.broker_name]
        sent = await send(self.node, self.caller, address, post, self.history)
        half.sent = replace(sent, decision=decision)
        if sent.outcome is not Outcome.OK or decision is Decision.UNKNOWN or rng.random() >= me.ended_chance:
            return
        self.do(self.end(half, post.unique_key, rng.uniform(0.5, 6.0) if rng.random() < me.late_chance else 0.0))

    async def end(self, half: Half, unique_key: str, after_s: float) -> None:
        """Commit or roll back."""
        await asyncio.sleep(after_s)
        sent = half.sent
        assert sent.place is not None
        request = EndTransaction(
            topic=sent.topic,
            producer_group=self.me.group,
            tran_state_table_offset=sent.place.offset,
            commit_log_offset=sent.physical,
            commit_or_rollback=CODES[half.decision],
            msg_id=unique_key,
            transaction_id=unique_key,
        )
        await self.tell(half, half.decision, self.routes.brokers[sent.broker], request)

    async def tell(self, half: Half, decision: Decision, address: Address, request: EndTransaction) -> None:
        """Send a decision and write down what was answered."""
        began_s = asyncio.get_running_loop().time()
        try:
            await self.caller.call(address, request)
        except RequestRefused as refused:
            outcome = Outcome.FAIL
            self.history.counts[f"end refused {refused.code}"] += 1
        except FireArrowError as error:
            outcome = Outcome.INFO if error.may_have_happened else Outcome.FAIL
        else:
            outcome = Outcome.OK
        half.ends.append(End(decision, outcome, began_s, asyncio.get_running_loop().time()))
        self.history.counts[f"transactions: {decision.value} {outcome.value}"] += 1

    # ---- checks

    def asked(self, request: CheckTransactionState, call: Call) -> None:
        """Answer a broker's check, as soon as the loop gets to it."""
        self.do(self.answer(request, call.body, call.peer.address))

    async def answer(self, request: CheckTransactionState, record: bytes, address: Address) -> None:
        """Tell what the group decided."""
        (message,) = decode_all(record)
        half = self.history.halves[key_of(message.body)]
        half.checks.append(asyncio.get_running_loop().time())
        self.history.counts["transactions checked"] += 1
        decision = half.decision if len(half.checks) > half.unknowns else Decision.UNKNOWN
        answer = EndTransaction(
            topic=half.sent.topic,
            producer_group=self.me.group,
            tran_state_table_offset=request.tran_state_table_offset,
            commit_log_offset=request.commit_log_offset,
            commit_or_rollback=CODES[decision],
            from_transaction_check=True,
            msg_id=request.msg_id or "",
            transaction_id=request.transaction_id,
        )
        await self.tell(half, decision, address, answer)

    def do(self, work: "asyncio._CoroutineLike[None]") -> None:
        """Let work go on beside the rest of this process."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
