"""The stage of a script: a simulated cluster with the real brokers and the real client, and the commands for it.

After every command the cluster runs for `SETTLE_S`, so what a command causes at once is told below it. Messages are
known by their bodies. Places are written ``broker/queue``.

    cluster of a, b                     starts a name server and brokers
    topic orders with 2 queues          makes a topic on every broker
    send orders "one"                   sends; more words: to a/1, tag red, by customer-7 (sharding key), delay level 3
    consumer c1 in readers on orders    starts a member of a group; more words: tag red, ordered, broadcasting,
                                        with 2 retries
    c1 fails on "one" 2 times           the handler raises at the next 2 deliveries
    stop consumer c1                    ends it in order
    kill consumer c1                    ends its process at once
    poll a/0 of orders as p1 for 15s    asks for what comes next; the broker holds the request while there is nothing
    advance 10s                         lets time pass
    stop broker a, start broker a       ends it in order, starts it over the disk that it has
    kill broker a                       ends its process at once
    cut power of broker a               ends its machine at once: what was not synced may be gone
    disconnect c1 from a, reconnect     cuts the cables between two machines, mends all
    read orders                         shows what is stored
    consumers of readers                shows which queues each member reads
    progress of readers on orders       shows how far a group is
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

from firearrow.admin import Admin
from firearrow.client import Consumer, Message, MessageQueue, Producer, PullConsumer, PullStatus, ReceivedMessage
from firearrow.client.consumer.settings import ConsumerOptions
from firearrow.errors import FireArrowError
from firearrow.model import StoredMessage
from firearrow.testing.sim.world import Node, World
from firearrow.testing.simulated import SimulatedCluster

SETTLE_S: Final = 0.3
BODY: Final = r'"(?P<body>[^"]*)"'
PLACE: Final = r"(?P<broker>\w+)/(?P<queue>\d+)"
TAG: Final = r"( tag (?P<tag>\w+))?"
SEND_WORDS: Final = rf"( to {PLACE})?{TAG}( by (?P<key>[\w-]+))?( delay level (?P<level>\d+))?"
CONSUMER_WORDS: Final = rf"{TAG}(?P<words> ordered| broadcasting)?( with (?P<retries>\d+) retries)?"


class HandlerFailed(Exception):
    """Raised by a handler when the script wants it."""


class Stage:
    """A cluster and everybody at it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster: SimulatedCluster
        self._producer: Producer
        self._open = AsyncExitStack()
        self._consumers: dict[str, Consumer] = {}
        self._failures: dict[tuple[str, str], int] = {}
        self._sent_at: dict[str, float] = {}
        self._seen: set[tuple[str, str, int]] = set()
        self._happened: list[tuple[str, str]] = []
        world.expected = (HandlerFailed,)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._consumers):
            await self._world.nodes[name].stop()
        await self._open.aclose()

    async def do(self, line: str) -> list[str]:
        """Carry out a command; return what came of it, and what else happened meanwhile, by who saw it."""
        for pattern, command in COMMANDS:
            if match := re.fullmatch(pattern, line):
                lines = await command(self, match)
                await asyncio.sleep(SETTLE_S)
                return lines + self._news()
        raise ValueError(f"no such command: {line}")

    def _news(self) -> list[str]:
        happened, self._happened = sorted(self._happened, key=lambda event: event[0]), []
        return [f"{who} {what}" for who, what in happened]

    # -- the cluster

    async def cluster(self, match: re.Match[str]) -> list[str]:
        """Start a name server and brokers."""
        self._cluster = SimulatedCluster(self._world, match["names"].split(", "), {})
        await self._cluster.open()
        self._producer = Producer(self._cluster.address, doors=self._cluster.doors("shop"))
        await self._open.enter_async_context(self._producer)
        return []

    async def topic(self, match: re.Match[str]) -> list[str]:
        """Make a topic."""
        await self._cluster.create_topic(match["topic"], queues=int(match["queues"]))
        return []

    async def broker(self, match: re.Match[str]) -> list[str]:
        """End or start a broker."""
        change = {
            "start": self._cluster.start_broker,
            "stop": self._cluster.stop_broker,
            "kill": self._cluster.kill_broker,
            "cut power of": self._cluster.cut_power,
        }
        await change[match["verb"]](match["name"])
        return []

    async def disconnect(self, match: re.Match[str]) -> list[str]:
        """Cut the cables between two machines."""
        self._world.network.partition([match["one"]], [match["other"]])
        return []

    async def reconnect(self, _match: re.Match[str]) -> list[str]:
        """Mend all cables."""
        self._world.network.heal()
        return []

    async def advance(self, match: re.Match[str]) -> list[str]:
        """Let time pass."""
        await asyncio.sleep(int(match["seconds"]) - SETTLE_S)
        return []

    # -- who sends and receives

    async def send(self, match: re.Match[str]) -> list[str]:
        """Send a message."""
        topic, body = match["topic"], match["body"]
        queue = MessageQueue(topic, match["broker"], int(match["queue"])) if match["broker"] else None
        message = Message.of(
            topic,
            body.encode(),
            tag=match["tag"] or "",
            sharding_key=match["key"] or "",
            delay_level=int(match["level"] or 0),
        )
        self._sent_at[body] = self._now()
        try:
            result = await self._producer.send(message, queue=queue)
        except FireArrowError as error:
            return [f"not stored: {type(error).__name__}"]
        place = "stored" if match["level"] else f"stored in {_place(result.queue)} at {result.queue_offset}"
        return [f"{place}{self._later(self._sent_at[body])}"]

    async def consumer(self, match: re.Match[str]) -> list[str]:
        """Start a consumer on a machine of its own."""
        name, words = match["name"], match["words"] or ""
        options: ConsumerOptions = {
            "instance_name": name,
            "start": "first",
            "ordered": "ordered" in words,
            "broadcasting": "broadcasting" in words,
            "max_reconsume_times": int(match["retries"] or -1),
        }
        topics = {match["topic"]: match["tag"] or "*"}

        share = name if options["broadcasting"] else match["group"]

        async def handle(message: ReceivedMessage) -> None:
            self._handle(name, share, message)

        async def program(_node: Node) -> None:
            doors = self._cluster.doors(name)
            async with Consumer(
                self._cluster.address, group=match["group"], topics=topics, doors=doors, **options
            ) as consumer:
                self._consumers[name] = consumer
                await consumer.run(handle)

        self._cluster.doors(name)  # adds the machine
        self._world.nodes[name].start(program)
        return []

    def _handle(self, name: str, share: str, message: ReceivedMessage) -> None:
        body = message.body.decode()
        delivery = (share, body, message.reconsume_times)
        tries = f", try {message.reconsume_times + 1}" if message.reconsume_times else ""
        when = " again" if delivery in self._seen else tries + self._later(self._sent_at[body])
        self._seen.add(delivery)
        left = self._failures.get((name, body), 0)
        self._happened.append((name, f'{"fails on" if left else "gets"} "{body}"{when}'))
        if left:
            self._failures[name, body] = left - 1
            raise HandlerFailed(body)

    async def fails(self, match: re.Match[str]) -> list[str]:
        """Let a handler fail."""
        self._failures[match["name"], match["body"]] = int(match["times"])
        return []

    async def end_consumer(self, match: re.Match[str]) -> list[str]:
        """End a consumer in order, or its process at once."""
        node = self._world.nodes[match["name"]]
        await (node.stop() if match["verb"] == "stop" else node.crash())
        del self._consumers[match["name"]]
        return []

    async def poll(self, match: re.Match[str]) -> list[str]:
        """Ask a queue for what comes next, and go on meanwhile."""
        queue, wait_s = MessageQueue(match["topic"], match["broker"], int(match["queue"])), int(match["seconds"])

        async def program(_node: Node) -> None:
            begun = self._now()
            async with self._puller(match["name"]) as puller:
                end = (await puller.bounds(queue.topic))[queue].end
                pulled = await puller.pull_bytes(queue, end, wait_ms=wait_s * 1000)
            bodies = _bodies(pulled.messages()) if pulled.status is PullStatus.FOUND else "nothing"
            self._happened.append((match["name"], f"is told {bodies}{self._later(begun, 'after it asked')}"))

        self._cluster.doors(match["name"])
        self._world.nodes[match["name"]].start(program)
        return []

    # -- what is shown

    async def read(self, match: re.Match[str]) -> list[str]:
        """Show everything that is stored."""
        shown = []
        async with self._puller("reader") as puller:
            for queue, bounds in sorted((await puller.bounds(match["topic"])).items()):
                messages = []
                async for pulled in puller.pull_range(queue, bounds.first, bounds.end):
                    messages += pulled.messages()
                shown.append(f"{_place(queue)}: {_bodies(messages) or 'nothing'}")
        return shown

    async def consumers(self, match: re.Match[str]) -> list[str]:
        """Show the queues of every member."""
        members = {name: one for name, one in self._consumers.items() if one.settings.group == match["group"]}
        queues = {
            name: [_place(queue) for queue in sorted(one.assignment) if not queue.topic.startswith("%RETRY%")]
            for name, one in sorted(members.items())
        }
        return [f"{name} reads {', '.join(places) or 'nothing'}" for name, places in queues.items()]

    async def progress(self, match: re.Match[str]) -> list[str]:
        """Show how far a group is."""
        async with Admin(self._cluster.address, doors=self._cluster.doors("operator")) as admin:
            queues = (await admin.groups.describe(match["group"])).queues
        return [
            f"{_place(progress.queue)}: {max(0, progress.committed)} of {progress.end}"
            for progress in sorted(queues, key=lambda progress: progress.queue)
            if progress.queue.topic == match["topic"]
        ]

    def _puller(self, machine: str) -> PullConsumer:
        return PullConsumer(self._cluster.address, group="reader", doors=self._cluster.doors(machine))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _later(self, since: float, what: str = "after it was sent") -> str:
        seconds = int(self._now() - since)
        return f", {seconds} s {what}" if seconds else ""


def _place(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"


def _bodies(messages: Iterable[StoredMessage]) -> str:
    return ", ".join(f'"{message.body.decode()}"' for message in messages)


Command = Callable[[Stage, re.Match[str]], Awaitable[list[str]]]
COMMANDS: Final[list[tuple[str, Command]]] = [
    (r"cluster of (?P<names>\w+(, \w+)*)", Stage.cluster),
    (r"topic (?P<topic>\w+) with (?P<queues>\d+) queues?", Stage.topic),
    (rf"send (?P<topic>\w+) {BODY}{SEND_WORDS}", Stage.send),
    (rf"consumer (?P<name>\w+) in (?P<group>\w+) on (?P<topic>\w+){CONSUMER_WORDS}", Stage.consumer),
    (rf"(?P<name>\w+) fails on {BODY} (?P<times>\d+) times?", Stage.fails),
    (r"(?P<verb>stop|kill) consumer (?P<name>\w+)", Stage.end_consumer),
    (rf"poll {PLACE} of (?P<topic>\w+) as (?P<name>\w+) for (?P<seconds>\d+)s", Stage.poll),
    (r"advance (?P<seconds>\d+)s", Stage.advance),
    (r"(?P<verb>start|stop|kill|cut power of) broker (?P<name>\w+)", Stage.broker),
    (r"disconnect (?P<one>\w+) from (?P<other>\w+)", Stage.disconnect),
    (r"reconnect", Stage.reconnect),
    (r"read (?P<topic>[\w%]+)", Stage.read),
    (r"consumers of (?P<group>\w+)", Stage.consumers),
    (r"progress of (?P<group>\w+) on (?P<topic>\w+)", Stage.progress),
]
