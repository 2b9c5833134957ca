"""A mirror of one cluster in another: a lane for each queue, marks on disk, translated offsets of groups.

    mirror = Mirror(order, disk, clock, chance, say=print)
    await mirror.run(once=True)

A mirror has a task for each queue, and tasks that save marks, translate offsets, and look for new topics and queues.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from typing import Final, TypedDict

from msgspec import Struct

from firearrow.admin import Admin, BrokerMember
from firearrow.client.consumer.log_consumer import LogConsumer
from firearrow.client.consumer.pull_consumer import PullConsumer
from firearrow.client.producer.encoded import BatchProducer
from firearrow.errors import FireArrowError, SettingsError
from firearrow.mirror.copies import PATH_SEPARATOR, Names
from firearrow.mirror.group_sync import GroupSync
from firearrow.mirror.lane import FIRST, Manner, MirrorClients, MirrorLane, QueueClosed, TopicGone, is_mended_later
from firearrow.mirror.left_out import LeftOutQueues
from firearrow.mirror.marks import Marks
from firearrow.mirror.progress import MirrorProgress
from firearrow.mirror.topics import TargetTopics, chosen
from firearrow.model import MessageQueue
from firearrow.model.names import TOOLS_CONSUMER_GROUP
from firearrow.model.signature import SignatureMethod
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.tls_settings import ClientTls
from firearrow.telemetry.damped import Trouble

log: Final = logging.getLogger(__name__)

PRODUCER_GROUP: Final = "FIREARROW_MIRROR"
SAVE_S: Final = 1.0
LOOK_S: Final = 30.0
ENDS_S: Final = 1.0
SEND_TIMEOUT_MS: Final = 10_000
MAX_BYTES: Final = 1 << 30
"""No limit of ours on a message: the target's brokers have their own."""


class ConnectionSettings(TypedDict, total=False):
    """TLS settings and the keys of an account, for the connections to a cluster."""

    tls: ClientTls
    access_key: str
    secret_key: str
    signature_method: SignatureMethod


class Side(Struct, frozen=True):
    """One of the two clusters. ``name`` is empty for the name of the cluster; ``cluster`` chooses one of several."""

    name_servers: str
    reach: ConnectionSettings = {}
    name: str = ""
    cluster: str = ""

    def admin(self) -> Admin:
        """Return an ``Admin`` of the cluster."""
        return Admin(self.name_servers, **self.reach)


class Order(Struct, frozen=True):
    """The order to a mirror. Topics and groups are names, or patterns with ``*`` and ``?``."""

    source: Side
    target: Side
    topics: tuple[str, ...]
    groups: tuple[str, ...] = ("*",)
    start: str = FIRST
    born_spread_ms: int = 1000
    skips_damaged: bool = False
    groups_every_s: float = 5.0


class Mirror:
    """Copies topics from one cluster to another. ``say`` gets lines for people."""

    def __init__(
        self, order: Order, disk: Disk, clock: Clock, chance: random.Random, *, say: Callable[[str], None]
    ) -> None:
        self._order = order
        self._clock = clock
        self._chance = chance
        self._say = say
        self._marks = Marks(disk)
        self._lanes: dict[MessageQueue, MirrorLane] = {}
        self._trouble = Trouble(log)
        self.progress: Final = MirrorProgress("mirror")

    async def run(self, *, once: bool) -> None:
        """Copy everything up to the present end, or for good. Ends with the first error that waiting does not mend.

        Raise ``PartlyDone`` at the present end if queues were left out.
        """
        self.progress.begin_ms = self._clock.now_ms()
        try:
            async with AsyncExitStack() as stack:
                source = await stack.enter_async_context(self._order.source.admin())
                target = await stack.enter_async_context(self._order.target.admin())
                names = await self._names(source, target)
                await self._marks.open(names)
                stack.callback(self._marks.close)
                self.progress.name = f"{names.source}->{names.target}"
                ends = MirrorClients(await self._clients(stack), self._clock, self._chance, self._marks.save)
                await self._copy(
                    _MirrorParts(source, target, ends, self._manner(names), LeftOutQueues(self._say)), once=once
                )
        except* FireArrowError as failures:
            raise first_of(failures) from failures
        finally:
            self.progress.is_active = False

    async def _copy(self, work: "_MirrorParts", *, once: bool) -> None:
        order = self._order
        cluster = order.target.cluster
        topics = TargetTopics(work.ends.source, work.target, self._marks, cluster, work.left_out, self._say)
        groups = GroupSync(work.source, work.target, self._marks, order.groups, cluster)
        try:
            if once:
                async with asyncio.TaskGroup() as tasks:
                    await self._look(tasks, work, topics, once=True)
                await self._marks.save()
                await self._translate(groups, tells=True)
                work.left_out.require_none()
                return
            async with asyncio.TaskGroup() as tasks:
                await self._look(tasks, work, topics, once=False)
                tasks.create_task(self._save_on(), name="marks")
                tasks.create_task(self._ends_on(work.ends.source), name="ends")
                tasks.create_task(self._translate_on(groups), name="groups")
                tasks.create_task(self._look_on(tasks, work, topics), name="topics")
        finally:
            await self._marks.save()

    def _manner(self, names: Names) -> Manner:
        order = self._order
        return Manner(names, start=order.start, born_spread_ms=order.born_spread_ms, skips_damaged=order.skips_damaged)

    async def _clients(self, stack: AsyncExitStack) -> tuple[LogConsumer, BatchProducer, PullConsumer]:
        source, target = self._order.source, self._order.target
        consumer = LogConsumer(source.name_servers, group=TOOLS_CONSUMER_GROUP, **source.reach)
        producer = BatchProducer(
            target.name_servers,
            group=PRODUCER_GROUP,
            retries=0,
            send_timeout_ms=SEND_TIMEOUT_MS,
            max_message_bytes=MAX_BYTES,
            **target.reach,
        )
        reader: PullConsumer = PullConsumer(target.name_servers, group=TOOLS_CONSUMER_GROUP, **target.reach)
        return (
            await stack.enter_async_context(consumer),
            await stack.enter_async_context(producer),
            await stack.enter_async_context(reader),
        )

    # -- the clusters

    async def _names(self, source: Admin, target: Admin) -> Names:
        held, there = await source.brokers.list(), await target.brokers.list()
        if {member.address for member in held} & {member.address for member in there}:
            raise SettingsError("source and target are the same cluster; -n names the source, --to the target")
        names = Names(
            _name(self._order.source, held, "--source-name"), _name(self._order.target, there, "--target-name")
        )
        if names.source == names.target:
            raise SettingsError(
                f"both clusters are called {names.source}, so loops cannot be told; give --source-name and "
                "--target-name, the same names in all mirrors of these clusters"
            )
        return names

    # -- tasks

    async def _look(self, tasks: asyncio.TaskGroup, work: "_MirrorParts", topics: TargetTopics, *, once: bool) -> None:
        """Begin to copy queues that are not copied yet."""
        listed = await work.source.topics.list(cluster=self._order.source.cluster)
        for topic in chosen(listed, self._order.topics):
            for mark in await topics.prepare(topic):
                if mark.source not in self._lanes:
                    lane = MirrorLane(mark, work.manner, work.ends, self.progress)
                    self._lanes[mark.source] = lane
                    tasks.create_task(
                        self._run_lane(mark.source, lane, work.left_out, once=once), name=str(mark.source)
                    )
        await self._marks.save()

    async def _run_lane(self, queue: MessageQueue, lane: MirrorLane, left_out: LeftOutQueues, *, once: bool) -> None:
        """Copy a queue until its topic is deleted; the next look begins anew if the topic is there again."""
        try:
            await lane.run(once=once)
        except QueueClosed as closed:
            left_out.note(queue, str(closed))
        except TopicGone as gone:
            del self._lanes[queue], self.progress.queues[queue]
            left_out.note(queue, f"{gone}; if the topic was deleted for good, nothing is to be done")

    async def _look_on(self, tasks: asyncio.TaskGroup, work: "_MirrorParts", topics: TargetTopics) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look(tasks, work, topics, once=False)
            except FireArrowError as error:
                self._waits("new topics and queues wait", error)

    async def _ends_on(self, source: LogConsumer) -> None:
        """Look how many messages wait in queues whose lanes cannot go on."""
        while True:
            await asyncio.sleep(ENDS_S)
            waiting = [state for state in self.progress.queues.values() if state.is_waiting]
            for topic in dict.fromkeys(state.queue.topic for state in waiting):
                with suppress(FireArrowError):  # the source may be what the lane waits for
                    held = await source.held_queues(topic)
                    for state in waiting:
                        if state.queue in held:
                            state.end = max(state.end, held[state.queue].bounds.end)

    async def _save_on(self) -> None:
        while True:
            await asyncio.sleep(SAVE_S)
            await self._marks.save()

    async def _translate_on(self, groups: GroupSync) -> None:
        while True:
            try:
                await self._translate(groups, tells=False)
            except FireArrowError as error:
                self._waits("the offsets of groups wait", error)
            await asyncio.sleep(self._order.groups_every_s)

    async def _translate(self, groups: GroupSync, *, tells: bool) -> None:
        if not self._order.groups:
            return
        found = await groups.once()
        self.progress.groups = len(found)
        for group in found if tells else ():
            waiting = await groups.waiting_retries(group)
            if waiting:
                self._say(
                    f"group {group} has {waiting} messages at the source that wait to be delivered again; they are not "
                    "copied, so let the group finish them before it moves"
                )

    def _waits(self, what: str, error: FireArrowError) -> None:
        if not is_mended_later(error):
            raise error
        self._trouble.say(asyncio.get_running_loop().time(), what, "%s: %s", what, error, reason=str(error))


class _MirrorParts(Struct, frozen=True):
    """The objects that the tasks of a running mirror share."""

    source: Admin
    target: Admin
    ends: MirrorClients
    manner: Manner
    left_out: LeftOutQueues


def _name(side: Side, members: Iterable[BrokerMember], option: str) -> str:
    clusters = sorted({member.cluster for member in members if side.cluster in ("", member.cluster)})
    name = side.name or (clusters[0] if len(clusters) == 1 else "")
    if not name:
        there = ", ".join(clusters) or "none"
        raise SettingsError(f"the cluster at {side.name_servers} is not known by one name ({there}); give {option}")
    if PATH_SEPARATOR in name or not name.isprintable():
        raise SettingsError(f"{option} {name!r} holds a comma or an unprintable character; choose another name")
    return name


def first_of(group: BaseExceptionGroup[FireArrowError]) -> FireArrowError:
    """Return the first error of a group."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, FireArrowError)
    return found
