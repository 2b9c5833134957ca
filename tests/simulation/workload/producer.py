"""A producer of a simulated cluster, and a single send for other clients."""

import asyncio
from dataclasses import dataclass
from typing import Final, Literal

from firearrow.errors import FireArrowError, RequestRefused
from firearrow.model.flags import PREPARED
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.message.send import SendMessageV2
from firearrow.record.message_id import parse_offset_message_id
from firearrow.record.properties import format_properties
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node
from tests.simulation.invariants.history import History, Outcome, Place, Sent, body_of
from tests.simulation.workload.routes import Routes

SENT: Final = frozenset({0, int(ResponseCode.FLUSH_DISK_TIMEOUT)})
TRY_AGAIN_S: Final = 0.3
DEFAULT_TOPIC: Final = "TBW102"
Timed = Literal["no", "at", "after"]
"""Whether a message is delivered at a time of the producer's clock, or some time after the broker has it."""


@dataclass(frozen=True)
class Post:
    """A message that is to be sent."""

    key: str
    topic: str
    broker: str
    queue_id: int
    size: int = 20
    tag: str = ""
    delay_level: int = 0
    timed: Timed = "no"
    after_ms: int = 0
    """The milliseconds that a timed message waits."""
    group: str = "p"
    half: bool = False

    @property
    def unique_key(self) -> str:
        """The id that the producer gives the message: for a half message as long as those of stock clients."""
        return self.key.encode().hex().upper().rjust(32, "0") if self.half else self.key

    def due_ms(self, born_ms: int) -> int:
        """Return the due time of a timed message; 0 for a message that is not timed."""
        return 0 if self.timed == "no" else born_ms + self.after_ms

    def request(self, born_ms: int) -> SendMessageV2:
        """Return the request that sends it."""
        properties = {"KEYS": self.key, "UNIQ_KEY": self.unique_key, **({"TAGS": self.tag} if self.tag else {})}
        if self.delay_level:
            properties["DELAY"] = str(self.delay_level)
        if self.timed == "after":
            properties["TIMER_DELAY_MS"] = str(self.after_ms)
        elif self.timed == "at":
            properties["TIMER_DELIVER_MS"] = str(self.due_ms(born_ms))
        if self.half:
            properties |= {"TRAN_MSG": "true", "PGROUP": self.group}
        return SendMessageV2(
            producer_group=self.group,
            topic=self.topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=4,
            queue_id=self.queue_id,
            sys_flag=PREPARED if self.half else 0,
            born_timestamp=born_ms,
            flag=0,
            properties=format_properties(properties),
        )


async def send(
    node: Node, caller: Caller, address: Address, post: Post, history: History, timeout_ms: int = 3_000
) -> Sent:
    """Send a message once; what became of it."""
    loop = asyncio.get_running_loop()
    began_s, born_ms, place, physical = loop.time(), node.clock.now_ms(), None, -1
    body = body_of(post.key, post.size)
    try:
        reply = await caller.call(address, post.request(born_ms), body, timeout_ms=timeout_ms, accept=SENT)
    except RequestRefused as refused:
        outcome = Outcome.FAIL
        history.counts[f"refused {refused.code}"] += 1
    except FireArrowError as error:
        outcome = Outcome.INFO if error.may_have_happened else Outcome.FAIL
    else:
        outcome = Outcome.OK if reply.code == 0 else Outcome.INFO
        place = Place(post.broker, post.topic, reply.answer.queue_id, reply.answer.queue_offset)
        physical = parse_offset_message_id(reply.answer.msg_id)[1] if post.half else -1
    return Sent(
        key=post.key,
        topic=post.topic,
        broker=post.broker,
        queue_id=post.queue_id,
        outcome=outcome,
        place=place if outcome is Outcome.OK else None,
        began_s=began_s,
        ended_s=loop.time(),
        tag=post.tag,
        delay_level=post.delay_level,
        born_ms=born_ms,
        due_ms=post.due_ms(born_ms),
        is_relative=post.timed == "after",
        physical=physical,
    )


@dataclass
class Producer:
    """Sends one message after the other, each once, and remembers how it ended."""

    name: str
    name_servers: list[Address]
    topics: list[str]
    history: History
    sizes: tuple[int, ...] = (20, 200, 2000)
    pause_s: float = 0.05
    delay_chance: float = 0.1
    delay_levels: int = 3
    timed_chance: float = 0.0
    longest_ms: int = 20_000
    """The most milliseconds that a timed message waits."""
    timeout_ms: int = 3_000
    number: int = 0
    stopped: bool = False
    """Set to end sending."""

    async def run(self, node: Node) -> None:
        """The producer's process."""
        caller = Caller(node.network)
        routes = Routes(caller, self.name_servers, node.rng)
        while not self.stopped:
            for topic in self.topics:
                await routes.refresh(topic)
            for _ in range(20):
                if self.stopped:
                    break
                await self._send_one(node, caller, routes)
                await asyncio.sleep(node.rng.expovariate(1.0) * self.pause_s)
        await caller.close()

    async def _send_one(self, node: Node, caller: Caller, routes: Routes) -> None:
        rng = node.rng
        queues = routes.queues.get(rng.choice(self.topics), [])
        if not queues:
            await asyncio.sleep(TRY_AGAIN_S)
            return
        queue = rng.choice(queues)
        self.number += 1
        delayed, timed = rng.random() < self.delay_chance, rng.random() < self.timed_chance
        post = Post(
            key=f"{self.name}:{self.number}",
            topic=queue.topic,
            broker=queue.broker_name,
            queue_id=queue.queue_id,
            tag=rng.choice(["A", "B", ""]),
            delay_level=rng.randint(1, self.delay_levels) if delayed and not timed else 0,
            timed=rng.choice(("at", "after")) if timed else "no",
            after_ms=rng.randint(1, self.longest_ms) if timed else 0,
            size=rng.choice(self.sizes),
        )
        address = routes.brokers[queue.broker_name]
        self.history.sends.append(await send(node, caller, address, post, self.history, self.timeout_ms))
