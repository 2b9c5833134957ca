"""Links to clusters: one client for each set of connection options, kept for the life of the process.

Spark keeps its Python workers between tasks, so a task reuses the connections of the previous task. A forked worker
opens its own, because a portal does not work in a child process. Transient errors are retried with exponential
back-off, because an error in a driver's call ends the query.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from firearrow import fastjson
from firearrow.client import MessageQueue, PulledBytes, PullStatus
from firearrow.client.consumer.hidden_queues import QueueExtent
from firearrow.client.consumer.log_consumer import LogConsumer
from firearrow.client.consumer.settings import ConsumerOptions
from firearrow.client.routes import MASTER_ID, Route
from firearrow.errors import (
    ConnectionFailed,
    ConnectionLost,
    FireArrowError,
    NoRoute,
    RequestRefused,
    RequestTimedOut,
    SettingsError,
    Unsupported,
)
from firearrow.model.names import is_dlq_topic, is_retry_topic, is_system_topic
from firearrow.protocol.bodies.naming.route import TopicList
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.naming.route import GetAllTopicListFromNameserver
from firearrow.record.decode import peek
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.portal import Portal
from firearrow.runtime.process import process_id
from firearrow.spark.options import ConnectionOptions, FetchOptions, TopicSelection
from firearrow.spark.reach import ask_names, client_tls, deleted_topics, require_checked_accounts, route_of
from firearrow.spark.row_mark import Mark

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
FinalErrors = type[FireArrowError] | tuple[()]
Place = tuple[str, str]
"""A topic and a broker."""

LONGEST_PAUSE_S: Final = 5.0
ROUTES_MS: Final = 5000
"""Milliseconds between refreshes of routes: new and removed queues and brokers are noticed within this time."""
UNANSWERED: Final = (ConnectionFailed, ConnectionLost, RequestTimedOut)
REPLICA_ID: Final = 1
LOOKS_AT_ONCE: Final = 64
"""Most requests for single messages in flight at once."""
NO_SQL: Final = "does not support consumer to filter message by SQL92"
"""Part of the remark of brokers without SQL92 filters. Java: ``ClientManageProcessor``, ``PullMessageProcessor``."""
BUSY: Final = frozenset({int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.SERVICE_NOT_AVAILABLE)})

_links: dict[tuple[int, ConnectionOptions, FetchOptions], "Link"] = {}


def link_of(connection: ConnectionOptions, fetching: FetchOptions) -> "Link":
    """Return the client of this process for a cluster and a group, opened at the first call."""
    key = (process_id(), connection, replace(fetching.unfiltered(), from_replica=False))
    found = _links.get(key)
    if found is None:
        found = _links[key] = Link(connection, fetching)
    return found


def close_links() -> None:
    """End every client of this process."""
    while _links:
        (process, _, _), link = _links.popitem()
        if process == process_id():
            link.close()


class Link:
    """One client of a cluster: blocking requests from Spark's threads, and access to its loop for bulk reads."""

    def __init__(self, connection: ConnectionOptions, fetching: FetchOptions) -> None:
        self._connection = connection
        self.fetching: Final = fetching
        self._checked: set[str] = set()
        self._has_met = False
        self._deleted: tuple[set[Place], set[Place], int] = (set(), set(), 0)
        self._told: set[str] = set()
        self._last_failure: FireArrowError | None = None
        self.portal: Final = Portal("firearrow-spark")
        self.consumer: Final = LogConsumer(
            connection.name_server, group=fetching.group, **_consumer_options(connection)
        )
        self.portal.call(self.consumer.open())

    def close(self) -> None:
        """Close the client."""
        self.portal.call(self.consumer.close())
        self.portal.close()

    # -- which topics and queues

    def topics(self, chosen: TopicSelection) -> tuple[str, ...]:
        """Return the chosen topics that exist now."""
        if chosen.topics:
            return chosen.topics
        if chosen.assigned:
            return tuple(chosen.assigned)
        try:
            matches = re.compile(chosen.pattern).fullmatch
        except re.error as wrong:
            raise SettingsError(f"subscribePattern {chosen.pattern!r} is not a regular expression: {wrong}") from wrong
        names = self.portal.call(self._patiently(self._all_topics))
        return tuple(name for name in sorted(names) if matches(name) and _is_plain(name, chosen.pattern))

    async def _all_topics(self) -> list[str]:
        return fastjson.decode(await ask_names(self._connection, GetAllTopicListFromNameserver()), TopicList).topic_list

    def held(self, topics: Iterable[str], known: Iterable[MessageQueue] = ()) -> dict[MessageQueue, QueueExtent]:
        """Return what logs have of every queue of some topics.

        ``known`` are queues of a checkpoint: those without messages are returned as empty ones. A topic of theirs
        without a route is left out: it may be deleted.
        """
        known = list(known)
        return self.portal.call(self._held(topics, known, {queue.topic for queue in known}))

    def held_of_routed(self, topics: Collection[str]) -> dict[MessageQueue, QueueExtent]:
        """Return what logs have of every queue of those topics that have a route."""
        return self.portal.call(self._held(topics, [], topics))

    async def _held(
        self, topics: Iterable[str], known: list[MessageQueue], may_lack: Collection[str]
    ) -> dict[MessageQueue, QueueExtent]:
        async def held(topic: str) -> dict[MessageQueue, QueueExtent]:
            # A stream looks again by itself, and a topic that it has read may be deleted: no time goes to retries.
            final = NoRoute if may_lack else ()
            try:
                return await self._patiently(partial(self.consumer.held_queues, topic, known), final)
            except NoRoute:
                if topic not in may_lack:
                    raise
                return {}

        found: dict[MessageQueue, QueueExtent] = {}
        for some in await asyncio.gather(*(held(topic) for topic in topics)):
            found.update(some)
        await self._require_checked_accounts(found)
        return found

    def deleted(self, places: set[Place]) -> set[Place]:
        """Return the places at which a topic is deleted: the broker is there and does not know the topic."""
        now_ms, (asked, found, asked_ms) = SystemClock().now_ms(), self._deleted
        if places != asked or now_ms - asked_ms >= ROUTES_MS:
            found = self.portal.call(self._patiently(partial(deleted_topics, self._connection, places)))
            self._deleted = (places, found, now_ms)
        return set(found)

    def news(self, losses: Iterable[T]) -> list[T]:
        """Return the losses that were not among those of the last call."""
        losses = list(losses)
        news = [loss for loss in losses if str(loss) not in self._told]
        self._told = {str(loss) for loss in losses}
        return news

    async def _require_checked_accounts(self, queues: Iterable[MessageQueue]) -> None:
        """Ask each broker once whether it checks accounts; that does not change while it runs."""
        topics = {queue.topic for queue in queues if queue.broker_name not in self._checked}
        await self._patiently(partial(require_checked_accounts, self._connection, sorted(topics)))
        self._checked.update(queue.broker_name for queue in queues)

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return the offset of each queue at its own time."""
        by_time: dict[int, list[MessageQueue]] = {}
        for queue, time_ms in times.items():
            by_time.setdefault(time_ms, []).append(queue)
        found: dict[MessageQueue, int] = {}
        for time_ms, queues in by_time.items():
            found.update(self.portal.call(self._patiently(partial(self.consumer.offsets_at, queues, time_ms))))
        return found

    def require_replicas(self, queues: Iterable[MessageQueue]) -> None:
        """Raise unless every broker of some queues has a replica that can be read."""
        routes = self.portal.call(self._routes(sorted({queue.topic for queue in queues})))
        for broker in sorted({queue.broker_name for queue in queues}):
            if not any(number != MASTER_ID for route in routes for number in route.brokers.get(broker, {})):
                raise SettingsError(
                    f"option readFrom is replica, but broker {broker} has no replica to read from: its name servers "
                    "list a master alone. Set readFrom to master, or start a slave of this broker"
                )

    async def _routes(self, topics: Iterable[str]) -> list[Route]:
        return [await self._patiently(partial(route_of, self._connection, topic)) for topic in topics]

    # -- reading and reporting

    async def pull(
        self, queue: MessageQueue, offset: int, most: int, fetching: FetchOptions, *, from_replica: bool = False
    ) -> PulledBytes:
        """Pull once, with retries after transient errors. Await it on the loop of the portal."""
        try:
            return await self._again_and_again(
                lambda: self.consumer.pull_bytes(
                    queue,
                    offset,
                    expression=fetching.expression,
                    max_messages=most,
                    max_bytes=fetching.max_bytes,
                    timeout_ms=fetching.timeout_ms,
                    broker_id=REPLICA_ID if from_replica else 0,
                )
            )
        except RequestRefused as refusal:
            if fetching.sql and NO_SQL in refusal.remark:
                raise _without_sql(queue.broker_name, refusal) from refusal
            raise

    def sizes(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, float]:
        """Return the average size of records of each queue from an offset on, from a sample."""

        async def ask() -> list[PulledBytes]:
            return await asyncio.gather(*(self.pull(queue, at, 32, self.fetching) for queue, at in offsets.items()))

        found = {}
        for (queue, at), pulled in zip(offsets.items(), self.portal.call(ask()), strict=True):
            if pulled.body:
                found[queue] = max(1.0, len(pulled.body) / max(1, min(32, pulled.next_offset - at)))
        return found

    def marks_at(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        """Return the marks of the messages at some offsets; missing messages are left out."""
        return self.portal.call(self._marks_at(places)) if places else {}

    async def _marks_at(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        fetching, room = self.fetching.unfiltered(), asyncio.Semaphore(LOOKS_AT_ONCE)

        async def look(queue: MessageQueue, place: int) -> Mark | None:
            async with room:
                pulled = await self.pull(queue, place, 1, fetching)
            if not pulled.body or pulled.status is not PullStatus.FOUND:
                return None
            head = peek(pulled.body)
            is_there = head.queue_offset <= place < pulled.next_offset
            return Mark(head.store_timestamp, head.physical_offset) if is_there else None

        found = await asyncio.gather(*(look(*place) for place in places.items()))
        return {queue: mark for queue, mark in zip(places, found, strict=True) if mark is not None}

    def report(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit the group's offsets to brokers. An unreachable broker gets them the next time."""
        try:
            self.portal.call(self.consumer.commit(offsets))
        except FireArrowError as error:
            log.warning("progress could not be reported", extra={"reason": str(error)})

    async def _patiently(self, ask: Callable[[], Awaitable[T]], final: FinalErrors = ()) -> T:
        """Send a request, with retries after transient errors; give up earlier if the cluster has never answered.

        Errors of the kinds ``final`` are raised at once.
        """
        if self._has_met:
            return await self._again_and_again(ask, final)
        try:
            async with asyncio.timeout(self.fetching.connect_timeout_ms / 1000):
                answer = await self._again_and_again(ask, final)
        except (TimeoutError, *UNANSWERED) as failure:
            raise self._unreached() from failure
        self._has_met = True
        return answer

    def _unreached(self) -> FireArrowError:
        last = self._last_failure
        if last is not None and not isinstance(last, UNANSWERED):
            return last  # a server answered and said what is wrong
        return ConnectionFailed(
            f"the cluster at {self._connection.name_server} could not be reached ({last or 'no answer'}). Check the "
            "option nameServer, and that name servers and brokers run. To wait longer raise connectTimeoutMs (now "
            f"{self.fetching.connect_timeout_ms}) and fetchRetries (now {self.fetching.retries})"
        )

    async def _again_and_again(self, ask: Callable[[], Awaitable[T]], final: FinalErrors = ()) -> T:
        fetching, pause_s = self.fetching, self.fetching.retry_interval_ms / 1000
        for attempt in range(fetching.retries + 1):
            try:
                return await ask()
            except FireArrowError as error:
                self._last_failure = error
                if attempt == fetching.retries or isinstance(error, final) or not _may_pass(error):
                    raise
                log.warning("a request is tried again", extra={"reason": str(error), "attempt": attempt + 1})
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        raise AssertionError("the last attempt returns or raises")


def _may_pass(error: FireArrowError) -> bool:
    return error.retryable or (isinstance(error, RequestRefused) and error.code in BUSY)


def _without_sql(broker: str, refusal: RequestRefused) -> Unsupported:
    return Unsupported(
        f"option sql is given, but broker {broker} does not filter by SQL92 ({refusal.remark}). Set "
        "enablePropertyFilter=true in its broker.conf, use the option tags, or filter rows by where() in Spark"
    )


def _is_plain(name: str, pattern: str) -> bool:
    """Whether a pattern may match a topic: system and group topics only if the pattern names their prefix."""
    if is_system_topic(name):
        return False
    return pattern.startswith("%") or not (is_retry_topic(name) or is_dlq_topic(name))


def _consumer_options(connection: ConnectionOptions) -> ConsumerOptions:
    return ConsumerOptions(
        auto_commit=False,
        tls=client_tls(connection),
        poll_name_server_ms=ROUTES_MS,
        access_key=connection.access_key,
        secret_key=connection.secret_key,
        security_token=connection.security_token,
        signature_method=connection.signature_method,
    )
