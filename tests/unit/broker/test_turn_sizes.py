"""Work of one turn does not grow with what the broker holds: lines executed in the longest turn, at N and at 4 N."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable
from itertools import pairwise
from operator import attrgetter
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest

from firearrow.broker.handlers.group.consumer import ConsumerHandlers
from firearrow.broker.handlers.group.offset import OffsetHandlers
from firearrow.broker.handlers.group.offset_bounds import OffsetBounds
from firearrow.broker.handlers.group.reset import ResetHandlers
from firearrow.broker.handlers.message.pull import TAKEN_AT_ONCE, PullHandlers
from firearrow.broker.lanes import Lane, _Job
from firearrow.broker.metrics.table_sizes import TableMetrics
from firearrow.broker.pull.long_poll import ParkedPulls
from firearrow.broker.replication.topic_copies import TopicCopies
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.changed_rows import BLOCK_ROWS, FORGOTTEN_AT, ChangedRows, Key
from firearrow.broker.tables.clients import Client, ClientTable, ConsumerGroup, ExpiredClients
from firearrow.broker.tables.disagreement import Disagreements, between, disagreement_with
from firearrow.broker.tables.offset_parts import OffsetPart
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, SubscriptionData
from firearrow.protocol.bodies.group.offset import QueryCorrectionOffsetBody, ResetOffsetBody
from firearrow.protocol.requests.group.reset import InvokeBrokerToResetOffset, QueryCorrectionOffset
from firearrow.remoting.endpoint import CHECKED_AT_ONCE, Endpoint
from firearrow.remoting.handlers import Answer, Handlers
from firearrow.remoting.limits import Limits
from firearrow.runtime.network import Address

SMALL = 3_000
LARGE = 4 * SMALL
GROWTH = 1.5
"""The factor by which the longest turn may take more lines at the larger size."""
FEW_LINES = 100
SECONDS_A_LINE = 1e-9
"""A clock that work alone moves: where work yields after a time, it yields after its number of steps here, on a slow
machine as on a fast one."""

Work = Callable[[], Awaitable[None]]


class Lines:
    """Counts the lines of Python that run, and the most of one turn of a loop."""

    def __init__(self) -> None:
        self.count = 0
        self.most = 0

    def measure(self, work: Work) -> int:
        run = asyncio.Handle._run

        def counted(handle: asyncio.Handle) -> Any:
            before = self.count
            try:
                return run(handle)
            finally:
                self.most = max(self.most, self.count - before)

        loop = asyncio.new_event_loop()
        loop.time = lambda: self.count * SECONDS_A_LINE  # type: ignore[method-assign]
        handle: Any = asyncio.Handle
        handle._run = counted
        sys.settrace(self._called)
        try:
            loop.run_until_complete(work())
        finally:
            sys.settrace(None)
            handle._run = run
            loop.close()
        return self.most

    def _called(self, _frame: FrameType, _event: str, _arg: object) -> Any:
        return self._ran

    def _ran(self, _frame: FrameType, event: str, _arg: object) -> Any:
        self.count += event == "line"
        return self._ran


class Connection:
    address = Address("10.0.0.1", 1)


def _client(number: int) -> Client:
    return Client(Connection(), f"client {number}", "JAVA", 503, 1000 + number)


def _wants(group: str, expression: str = "*", version: int = 1) -> ConsumerData:
    wanted = SubscriptionData(topic="T", sub_string=expression, sub_version=version)
    return ConsumerData(group_name=group, consume_type="CONSUME_PASSIVELY", subscription_data_set=[wanted])


def _clients(count: int) -> ClientTable:
    """A table with one large group of consumers, many that disagree, and as many producers."""
    table = ClientTable()
    for number in range(count):
        client = _client(number)
        table.consume(client, _wants("large"))
        table.consume(_client(number), _wants(f"small {number // 2}", f"tag{number % 2}"))
        table.produce(client, f"producers {number % 3}")
    return table


async def _each(steps: Iterable[object]) -> None:
    """Take a turn of the loop for every step, as callers that pause do."""
    for _ in steps:
        await asyncio.sleep(0)


def look_at_subscriptions(count: int) -> Work:
    table, watch = _clients(count), Disagreements()

    async def work() -> None:
        await _each(watch.look(table, 1))

    return work


def check_a_heartbeat(count: int) -> Work:
    table, client = _clients(count), _client(-1)

    async def work() -> None:
        group = table.group("large")
        assert group is not None
        client.subscriptions = {"T": SubscriptionData(topic="T", sub_string="*")}
        assert disagreement_with(group, client) is None

    return work


def expire_nobody(count: int) -> Work:
    table = _clients(count)

    async def work() -> None:
        assert not table.expire(5).connections

    return work


def expire_some(count: int) -> Work:
    table = _clients(count)

    async def work() -> None:
        assert len(table.expire(1 << 60, 100).connections) == 100

    return work


def count_members(count: int) -> Work:
    metrics = cast("TableMetrics", SimpleNamespace(_clients=_clients(count)))

    async def work() -> None:
        await _each(TableMetrics._producers(metrics))
        await _each(TableMetrics._consumers(metrics))

    return work


def list_producers(count: int) -> Work:
    handlers = ConsumerHandlers.__new__(ConsumerHandlers)
    handlers._clients = _clients(count)
    handlers._clock = cast("Any", SimpleNamespace(now_ms=lambda: 1 << 40))

    async def work() -> None:
        await handlers._all_producers()

    return work


def forget_a_topic(count: int) -> Work:
    stats = BrokerStats("c", 0)
    for number in range(count):
        stats.pulled(f"group {number % 3}", f"topic {number // 3}", 1, 1)
        stats.stored(f"topic {number // 3}", 1, 1)

    async def work() -> None:
        await stats.forget_topics(["topic 1"])

    return work


def _parked(count: int, group: str) -> PullHandlers:
    handlers = PullHandlers.__new__(PullHandlers)
    parked: ParkedPulls[Any] = ParkedPulls(1 << 40, 1 << 40)
    for number in range(count):
        parked.park(("T", 0), 0, None, 1000, None, owner=number % 9, subscribed=(group, "T"))
    handlers.__dict__.update(parked=parked, _woken=SimpleNamespace(add=lambda _pulls: None))
    return handlers


def resubscribe_beside_parked_pulls(count: int) -> Work:
    handlers = _parked(count, "other")

    async def work() -> None:
        handlers.resubscribed(ConsumerGroup("own", members={number: _client(number) for number in range(9)}), ["T"])

    return work


def resubscribe_many_pulls(count: int) -> Work:
    handlers = _parked(count, "own")

    async def work() -> None:
        handlers.resubscribed(ConsumerGroup("own"), ["T"])
        for _ in range(count // TAKEN_AT_ONCE + 1):
            await asyncio.sleep(0)
        assert not handlers.parked.queues

    return work


def recall_all_pulls(count: int) -> Work:
    handlers = _parked(count, "own")

    async def work() -> None:
        handlers.recall_all()
        later = handlers.parked.next_number
        handlers.parked.park(("U", 0), 0, None, 1000, cast("Any", None), owner=1)
        for _ in range(count // TAKEN_AT_ONCE + 1):
            await asyncio.sleep(0)
        (left,) = handlers.parked.queues["U", 0]
        assert left.number > later, "who asked after the change is not woken"
        assert len(handlers.parked) == 1

    return work


def correct_offsets(count: int) -> Work:
    """Half of the offsets are those of many groups in one queue, half those of one group in many queues."""
    handlers = OffsetHandlers.__new__(OffsetHandlers)
    handlers._offsets = offsets = OffsetTable()
    queues = SimpleNamespace(find=lambda _topic, _queue_id: None)
    handlers._store = cast("Any", SimpleNamespace(queues=queues))
    for number in range(count // 2):
        offsets.adopt(f"group {number}", "T", 0, 5 + number)
        offsets.adopt("large", "T", number, 7)

    async def work() -> None:
        answer = await handlers._correction(QueryCorrectionOffset(topic="T", compare_group="large", filter_groups=""))
        found = json.loads(bytes(answer.body))["correctionOffsets"]
        assert (found["0"], found["1"], len(found)) == (5, 7, count // 2)

    return work


def move_a_group(count: int) -> Work:
    """A group is moved to the end of all queues of a topic; nothing is stored in them."""
    handlers = ResetHandlers.__new__(ResetHandlers)
    offsets = OffsetTable(lambda: count)
    store = SimpleNamespace(queues=SimpleNamespace(find=lambda _topic, _queue_id: None))
    topic = TopicConfig(topic_name="T", read_queue_nums=count, write_queue_nums=count)
    handlers.__dict__.update(
        _store=store,
        _topics=SimpleNamespace(get=lambda _name: topic, kept=lambda _name: asyncio.sleep(0)),
        _groups=SimpleNamespace(table={"own"}),
        _offsets=offsets,
        _bounds=OffsetBounds(cast("Any", store), offsets),
        _offset_file=SimpleNamespace(changed=lambda on_saved: on_saved(None)),
        _broker_name="b",
        _gate=SimpleNamespace(changed=lambda _call, answer: answer),
        _recall=lambda _group, _topic, _queue_id: None,
    )

    async def work() -> None:
        request = InvokeBrokerToResetOffset(topic="T", group="own", timestamp=-1, is_force=True)
        answer = cast("Answer", await handlers._reset(request, cast("Any", None)))
        assert bytes(answer.body).count(b'"queueId"') == len(offsets) == count

    return work


def tell_offsets(count: int) -> Work:
    """A replica asks for the offsets that changed after the first ones."""
    handlers = OffsetHandlers.__new__(OffsetHandlers)
    handlers._offsets = offsets = OffsetTable(name="run")
    for number in range(count):
        offsets.adopt(f"group {number}", "T", 0, 5)

    async def work() -> None:
        answer = await handlers._part_of_offsets("run.0:9")
        assert len(json.loads(bytes(answer.body))["offsetTable"]) == count - 9

    return work


def pass_deleted_offsets(count: int) -> Work:
    """A replica asks for all offsets, and most of the rows that are remembered are deleted."""
    handlers = OffsetHandlers.__new__(OffsetHandlers)
    handlers._offsets = offsets = OffsetTable(name="run")
    for number in range(count // 4):
        offsets.adopt(f"left {number}", "T", 0, 5)
    for number in range(count):
        offsets.forget_row("T", f"group {number}")

    async def work() -> None:
        answer = await handlers._part_of_offsets(None)
        assert len(json.loads(bytes(answer.body))["offsetTable"]) == count // 4

    return work


def forget_deleted_offsets(count: int) -> Work:
    """Deleted rows are more than are remembered."""
    rows = ChangedRows("run")
    keys = {("T", f"group {number}"): None for number in range(FORGOTTEN_AT + count)}
    for key in keys:
        rows.note(key, keys)

    async def work() -> None:
        for number in range(len(keys) // BLOCK_ROWS + 2):
            rows.note(("T", f"other {number}"), [])
            await asyncio.sleep(0)
        assert len(rows._rows) < FORGOTTEN_AT

    return work


class Quiet:
    """A connection that counts how often its silence is checked."""

    checked = 0

    def check_silence(self, _now: float) -> None:
        self.checked += 1


def check_silence(count: int) -> Work:
    quiet = [Quiet() for _ in range(count)]
    connections = cast("dict[Any, None]", dict.fromkeys(quiet))

    async def work() -> None:
        endpoint = Endpoint(Limits(), Handlers(), is_server=True)
        endpoint.connections.update(connections)
        endpoint._sweep_silence()
        for _ in range(count // CHECKED_AT_ONCE):
            await asyncio.sleep(0)
        assert set(map(attrgetter("checked"), quiet)) == {1}
        assert isinstance(endpoint._silence_timer, asyncio.TimerHandle), "the next sweep comes later"
        endpoint._silence_timer.cancel()

    return work


def take_a_job(count: int) -> Work:
    lane = Lane(2)
    for number in range(count):
        peer = cast("Any", Connection())
        lane.add(_Job(cast("Any", None), cast("Any", None), peer, f"owner {number % 1000}"))
    first = lane.take()
    assert first is not None

    async def work() -> None:
        lane.leave(first)
        assert lane.take() is not None

    return work


def find_strays(count: int) -> Work:
    """Look for queues whose topics the master has no more: there are none."""
    names = [f"topic {number}" for number in range(count)]
    queues = SimpleNamespace(topics=lambda: names)
    table = SimpleNamespace(topics=set(names), system=set())
    store, topics = SimpleNamespace(queues=queues), SimpleNamespace(table=table)
    copies = TopicCopies(cast("Any", store), OffsetTable(), cast("Any", topics))

    async def work() -> None:
        await copies.delete_strays(1)
        assert not copies._may_be_strays

    return work


WORKS = (
    look_at_subscriptions,
    check_a_heartbeat,
    expire_nobody,
    expire_some,
    count_members,
    list_producers,
    forget_a_topic,
    resubscribe_beside_parked_pulls,
    resubscribe_many_pulls,
    recall_all_pulls,
    correct_offsets,
    move_a_group,
    tell_offsets,
    pass_deleted_offsets,
    forget_deleted_offsets,
    check_silence,
    take_a_job,
    find_strays,
)


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_a_turn_does_not_grow(work: Callable[[int], Work]) -> None:
    small, large = (Lines().measure(work(size)) for size in (SMALL, LARGE))
    assert large <= max(GROWTH * small, FEW_LINES), f"{small} lines, and {large} lines in a large broker"


async def forget_by_scan(self: BrokerStats, topics: list[str]) -> None:
    """F8: a deletion looks at the counters of all topics in one turn."""
    for family in self._families.values():
        for _ in family.forget(topics):
            pass


def expire_by_scan(self: ClientTable, before_ms: int) -> ExpiredClients:
    """F8: the search for silent clients looks at all members."""
    silent = [one.connection for group in self.groups() for one in group.members.values() if one.heard_ms < before_ms]
    return ExpiredClients(tuple(silent), ())


def look_by_scan(_self: Disagreements, clients: ClientTable, _now_ms: int) -> Iterable[None]:
    """F8: the search for disagreements compares all members of all groups in one turn."""
    for group in clients.groups():
        for one, other in pairwise(group.members.values()):
            between(group.name, one, other)
    return [None]


def resubscribe_by_scan(self: PullHandlers, group: ConsumerGroup, topics: Iterable[str]) -> None:
    """F8: a new expression looks at every parked pull of every member."""
    for holder in self.parked._owners.values():
        for parked in holder.waiting:
            assert parked.subscribed not in {(group.name, topic) for topic in topics}


def recall_at_once(self: PullHandlers) -> None:
    """A change of the rules wakes all parked pulls in one turn."""
    self._woken.add(self.parked.expired(sys.maxsize))


async def list_at_once(self: ConsumerHandlers) -> bytes:
    """F8: all producers are listed in one turn."""
    return b"".join(self._producer_pieces())


async def correct_at_once(self: OffsetHandlers, request: QueryCorrectionOffset) -> Answer:
    """The offsets of all groups in a topic are compared in one turn."""
    lowest: dict[int, int] = {}
    for group in self._offsets.groups_of(request.topic):
        for queue_id, offset in self._offsets.of(group, request.topic).items():
            lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
    return Answer(body=encode_body(QueryCorrectionOffsetBody(correction_offsets=lowest)))


async def look_up_at_once(
    self: ResetHandlers, request: InvokeBrokerToResetOffset, topic: TopicConfig
) -> dict[int, int]:
    """The offsets that a group is moved to are looked up in one turn."""
    return {one: await self._at_time(request.topic, one, request.timestamp) for one in range(topic.read_queue_nums)}


async def carry_out_at_once(_self: ResetHandlers, steps: Iterable[int], count: int, _what: str) -> None:
    """A group is moved in all queues of a topic in one turn."""
    assert sum(steps) == count


async def answer_at_once(self: ResetHandlers, topic: str, places: dict[int, int]) -> bytes:
    """The answer about all queues that a group was moved in is put together in one turn."""
    table = {MessageQueue(topic, self._broker_name, one): offset for one, offset in places.items()}
    return encode_body(ResetOffsetBody(offset_table=table))


def look_for_rows_from_the_end(self: ChangedRows, number: int, most: int) -> list[tuple[Key, int]]:
    """The rows that are told in one part are looked for among all, in one turn."""
    found = []
    for key, own in self._rows.items():
        if own > number:
            found.append((key, own))
    return found[:most]


def pass_deleted_at_once(self: OffsetPart) -> list[bytes]:
    """Rows are taken until there is one that is told."""
    texts: list[bytes] = []
    for key, number in self._changed.after(self._number, len(self._changed._rows)):
        self._number = number
        if self._offsets.queues_of(*key) is not None:
            texts.append(self._offsets.row_text(*key))
            break
    return texts


def forget_at_once(self: ChangedRows, rows: Collection[Key]) -> None:
    """All deleted rows are forgotten in one turn."""
    if len(self._rows) >= 2 * len(rows) + FORGOTTEN_AT:
        for key, number in self.after(0, len(self._rows)):
            if key not in rows:
                del self._rows[key]
                self._remove(number)


def check_all_at_once(self: Endpoint, left: Iterable[Any]) -> None:
    """The silence of all connections is checked in one turn."""
    for connection in left:
        connection.check_silence(0.0)
    self._silence_timer = self.loop.call_later(1.0, lambda: None)


async def find_strays_at_once(self: TopicCopies, _below: int, names: list[str]) -> bool:
    """A replica looks for queues without a topic in one turn."""
    return not [name for name in names if self._is_stray(name)]


PLANTED: tuple[tuple[type, str, Any, Callable[[int], Work]], ...] = (
    (BrokerStats, "forget_topics", forget_by_scan, forget_a_topic),
    (ClientTable, "expire", expire_by_scan, expire_nobody),
    (Disagreements, "look", look_by_scan, look_at_subscriptions),
    (PullHandlers, "resubscribed", resubscribe_by_scan, resubscribe_beside_parked_pulls),
    (PullHandlers, "recall_all", recall_at_once, recall_all_pulls),
    (OffsetHandlers, "_correction", correct_at_once, correct_offsets),
    (ResetHandlers, "_places", look_up_at_once, move_a_group),
    (ResetHandlers, "_carry_out", carry_out_at_once, move_a_group),
    (ResetHandlers, "_body", answer_at_once, move_a_group),
    (ChangedRows, "after", look_for_rows_from_the_end, tell_offsets),
    (OffsetPart, "_next_texts", pass_deleted_at_once, pass_deleted_offsets),
    (ChangedRows, "_check_room", forget_at_once, forget_deleted_offsets),
    (Endpoint, "_check_silence", check_all_at_once, check_silence),
    (ConsumerHandlers, "_all_producers", list_at_once, list_producers),
    (TopicCopies, "_delete_strays", find_strays_at_once, find_strays),
)


@pytest.mark.parametrize(("owner", "name", "fault", "work"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_scan_is_seen(
    owner: type, name: str, fault: Any, work: Callable[[int], Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(AssertionError, match="large"):
        test_a_turn_does_not_grow(work)
