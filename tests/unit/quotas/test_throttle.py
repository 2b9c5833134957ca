"""Requests at a broker with quotas: what is counted for whom, what is refused, and how the refusal reads."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.access.settings import STATEFUL
from firearrow.errors import ConnectionLost, RequestRefused, Throttled
from firearrow.model.versions import LanguageCode
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import HeartbeatData, ProducerData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.config import GetBrokerConfig, UpdateBrokerConfig
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.group.offset import GetMaxOffset
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack
from firearrow.quotas import throttle
from firearrow.quotas.held import HOLD_S, HeldRequests
from firearrow.quotas.settings import QuotaConfig
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Handlers
from firearrow.remoting.operation_port import MetricsExporter, OperationConfig
from firearrow.testing.sim.world import World
from tests.unit.access.servers import ALICE, CONFIG, ROOT, Names, Place, refusal
from tests.unit.access.test_bulk_sends import counted
from tests.unit.broker.test_send_bulk import said
from tests.unit.broker.whole import PULL_CODES, SUBSCRIPTION_FLAG, Client, Simulated, at, settings_of, simulate

Scenario = Callable[[World, Simulated, Client], Coroutine[Any, Any, None]]


def limited(scenario: Scenario, **quotas: Any) -> None:
    operation = OperationConfig(metrics_exporter_type=MetricsExporter.PROM)
    simulate(scenario, replace(settings_of(), quotas=QuotaConfig(**quotas), operation=operation))


async def throttled(client: Client, topic: str = "T", body: bytes = b"hello") -> Throttled | None:
    """The refusal of a send; None when it is stored."""
    try:
        await client.send(topic, body)
    except Throttled as refusal:
        return refusal
    return None


async def passed(client: Client, count: int, topic: str = "T") -> int:
    """The number of stored sends of many in a row."""
    return sum([await throttled(client, topic) is None for _ in range(count)])


def a_pull(group: str = "g", *, suspend_ms: int = 0) -> PullMessage:
    return PullMessage(
        consumer_group=group,
        topic="T",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=SUBSCRIPTION_FLAG | (2 if suspend_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=suspend_ms,
        sub_version=0,
        subscription="*",
    )


async def pull(client: Client, group: str = "g") -> int:
    """The bytes of messages that a pull is given."""
    return len((await client.ask(a_pull(group), accept=PULL_CODES)).body)


def shown(broker: Simulated) -> str:
    assert broker.broker.metrics is not None
    return "".join(broker.broker.metrics.registry.text())


def test_requests_beyond_the_quota_are_told_when_to_come_again() -> None:
    async def main(_world: World, broker: Simulated, client: Client) -> None:
        assert await passed(client, 20) in (10, 11)
        refusal = await throttled(client)
        assert refusal is not None
        assert (refusal.code, refusal.retryable) == (ResponseCode.SYSTEM_BUSY, True)
        for words in ("[QUOTA]", "flow control", "topic T", "quotaTopicRequests=10", "try again in"):
            assert words in refusal.remark
        assert f"in {refusal.retry_after_ms} ms" in refusal.remark
        assert await throttled(client, "another") is None
        await asyncio.sleep(refusal.retry_after_ms / 1000)
        assert await throttled(client) is None
        assert "firearrow_quota_throttled_total{" in shown(broker)
        lines = [
            line for line in shown(broker).splitlines() if 'quota="topic"' in line and 'measure="requests"' in line
        ]
        assert [line.rpartition(" ")[2] for line in lines] in (["10.0", "10.0"], ["11.0", "10.0"])

    limited(main, quota_topic_requests=10)


def test_bytes_count_and_a_message_above_the_quota_passes_and_leaves_a_debt() -> None:
    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        assert await throttled(client, body=bytes(50_000)) is None
        refusal = await throttled(client)
        assert refusal is not None
        assert 3_900 <= refusal.retry_after_ms <= 4_200  # 10,000 were there, 40,000 and the header are owed
        await asyncio.sleep(refusal.retry_after_ms / 1000)
        assert await throttled(client) is None

    limited(main, quota_topic_bytes=10_000)


def test_what_a_pull_is_given_counts_for_its_group_and_other_groups_are_not_slowed() -> None:
    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send("T", bytes(30_000))
        assert await pull(client) > 30_000
        with pytest.raises(Throttled, match="group g has used up its quota") as refused:
            await pull(client)
        assert refused.value.code == ResponseCode.FLOW_CONTROL
        assert refused.value.retry_after_ms > 1_900
        assert await pull(client, "another") > 30_000
        assert await throttled(client) is None  # sends have no consumer group
        await asyncio.sleep(refused.value.retry_after_ms / 1000)
        assert await pull(client) > 30_000

    limited(main, quota_group_bytes=10_000)


def test_what_a_parked_pull_is_given_counts_when_it_is_given() -> None:
    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send("other")
        await client.send("T")
        parked = replace(a_pull(suspend_ms=10_000), queue_offset=1)
        waiting = asyncio.create_task(client.ask(parked, accept=PULL_CODES, timeout_ms=20_000))
        await asyncio.sleep(0.1)
        await client.send("T", bytes(30_000))
        assert len((await waiting).body) > 30_000
        with pytest.raises(Throttled, match="group g"):
            await pull(client)

    limited(main, quota_group_bytes=10_000)


def test_clients_are_known_by_their_id_or_else_by_their_connection() -> None:
    async def main(world: World, _broker: Simulated, client: Client) -> None:
        node = world.node("more clients")
        first, second, nobody = (Client(node, client.broker) for _ in range(3))
        beat = HeartbeatData(client_id="me", producer_data_set=[ProducerData(group_name="P")])
        for one in (first, second):
            await one.ask(HeartBeat(), encode_body(beat))
        assert await passed(first, 4) + await passed(second, 4) in (5, 6)
        assert await passed(nobody, 8) in (5, 6)
        with pytest.raises(Throttled, match="client me"):
            await second.send()
        with pytest.raises(Throttled, match=f"client {node.host}:"):
            await nobody.send()

    limited(main, quota_client_requests=5)


def test_users_have_a_quota_whatever_their_connections() -> None:
    async def run(world: World) -> None:
        names = await Names(world.node("names"), CONFIG).start()
        settings = replace(at(settings_of(), names), access=CONFIG, quotas=QuotaConfig(quota_user_requests=5))
        broker = Simulated(world.node("broker"), settings)
        await broker.start()
        place = Place(world, broker, names)
        alice = await place.make(ALICE, ("Topic:*", "Pub", "Allow"))
        assert await passed(alice, 4) + await passed(place.client(ALICE), 4) in (5, 6)
        with pytest.raises(Throttled, match="user alice"):
            await alice.send()
        assert await passed(place.client(ROOT), 4) == 4
        await broker.node.stop()

    World(1).run(run)


async def heaps(client: Client, count: int) -> int:
    """The number of stored sends of those that come in heaps of twenty."""
    stored = 0
    for start in range(0, count * 20, 20):
        answers = await asyncio.gather(
            *(refusal(client, *said(number, topic="T")) for number in range(start, start + 20))
        )
        stored += [code for code, _ in answers].count(0)
    return stored


def test_many_sends_at_once_are_counted_like_as_many_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        began = asyncio.get_running_loop().time()
        stored = await heaps(client, 60)
        assert max(taken) > 0, "none was taken at once"
        most = 600 * (1 + asyncio.get_running_loop().time() - began) + 20  # the last heap that may pass is taken whole
        assert 600 <= stored <= most < 1100

    with counted(monkeypatch) as taken:
        limited(main, quota_topic_requests=600)


def test_many_sends_of_a_remembered_user_count_for_that_user(monkeypatch: pytest.MonkeyPatch) -> None:
    access = replace(CONFIG, authentication_strategy=STATEFUL)

    async def run(world: World) -> None:
        names = await Names(world.node("names"), access).start()
        quotas = QuotaConfig(quota_overrides="userRequests:alice=600")
        broker = Simulated(world.node("broker"), replace(at(settings_of(), names), access=access, quotas=quotas))
        await broker.start()
        place = Place(world, broker, names)
        alice, root = await place.make(ALICE, ("Topic:*", "Pub", "Allow")), place.client(ROOT)
        began, stored = asyncio.get_running_loop().time(), 0
        for _ in range(60):
            stored += await heaps(alice, 1)
            assert await heaps(root, 1) == 20
        assert max(taken) > 0, "none was taken at once"
        assert 600 <= stored <= 600 * (1 + asyncio.get_running_loop().time() - began) + 20 < 1150
        await broker.node.stop()

    with counted(monkeypatch) as taken:
        World(1).run(run)


def test_a_refused_request_counts_for_nobody() -> None:
    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        assert await passed(client, 30, "small") in (2, 3)
        assert await passed(client, 30, "large") in (8, 9)

    limited(main, quota_client_requests=10, quota_overrides="topicRequests:small=2")


def test_heartbeats_offsets_and_settings_always_pass() -> None:
    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        assert await passed(client, 3) in (1, 2)
        for _ in range(3):
            await client.ask(HeartBeat(), encode_body(HeartbeatData(client_id="me")))
            await client.ask(GetMaxOffset(topic="T", queue_id=0))
            await client.ask(GetBrokerConfig())

    limited(main, quota_client_requests=1)


def test_limits_change_while_the_broker_runs() -> None:
    async def main(_world: World, broker: Simulated, client: Client) -> None:
        assert await passed(client, 30) == 30
        await client.ask(UpdateBrokerConfig(), b"quotaTopicRequests=5\n")
        assert await passed(client, 30) in (5, 6)
        await client.ask(UpdateBrokerConfig(), b"quotaOverrides=topicRequests\\:T=7\n")
        assert await passed(client, 30) in (7, 8)
        await client.ask(UpdateBrokerConfig(), b"quotaTopicRequests=0\nquotaOverrides=\n")
        assert await passed(client, 30) == 30
        with pytest.raises(RequestRefused, match="quotaTopicRequests"):
            await client.ask(UpdateBrokerConfig(), b"quotaTopicRequests=-1\n")
        lines = [
            line for line in shown(broker).splitlines() if 'measure="requests"' in line and 'quota="topic"' in line
        ]
        refused, limit = (float(line.rpartition(" ")[2]) for line in lines)
        assert (45 < refused <= 48, limit) == (True, 0)

    limited(main)


# ---- clients that do not read how long to wait


@pytest.fixture
def stock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take this client for a stock one."""
    monkeypatch.setattr(throttle, "OUR_LANGUAGE", LanguageCode.JAVA)


@pytest.mark.usefixtures("stock")
def test_requests_of_stock_clients_are_held_back_until_they_may_pass() -> None:
    async def main(_world: World, broker: Simulated, client: Client) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await passed(client, 20) == 20
        assert 0.8 < loop.time() - began < 1.2  # 10 at once, then 10 a second
        assert (await client.ask(GetMaxOffset(topic="T", queue_id=0))).answer.offset == 20
        rows = [line for line in shown(broker).splitlines() if line.startswith("firearrow_quota_throttled_total{")]
        assert {line.rpartition(" ")[2] for line in rows} == {"0.0"}

    limited(main, quota_topic_requests=10)


@pytest.mark.usefixtures("stock")
def test_what_is_held_back_too_long_is_refused() -> None:
    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        loop = asyncio.get_running_loop()
        await client.send("T", bytes(60_000))
        began = loop.time()
        refusal = await throttled(client)
        assert refusal is not None
        assert HOLD_S <= loop.time() - began < HOLD_S * 1.1
        assert 10_000 < refusal.retry_after_ms < 12_000
        assert await throttled(client, "another") is None

    limited(main, quota_topic_bytes=5_000)


@pytest.mark.usefixtures("stock")
def test_sends_to_a_queue_pass_in_the_order_in_which_they_came() -> None:
    async def main(world: World, _broker: Simulated, client: Client) -> None:
        await passed(client, 10)
        gone = Client(world.node("gone"), client.broker)
        in_front = [asyncio.create_task(gone.send("T", b"lost", queue_id=queue)) for queue in (1, 2, 3)]
        await asyncio.sleep(0.01)
        first = asyncio.create_task(client.send("T", b"first"))
        await asyncio.sleep(0.01)
        await gone.caller.close()  # so there is room before the first one is told to come
        await asyncio.gather(*in_front, return_exceptions=True)
        await asyncio.sleep(0.2)
        second = asyncio.create_task(client.send("T", b"second"))
        await asyncio.gather(first, second)
        assert [message.body for message in await client.stored(offset=10)] == [b"first", b"second"]

    limited(main, quota_overrides="topicRequests:T=10")


@pytest.mark.usefixtures("stock")
def test_what_a_held_pull_is_given_counts_too() -> None:
    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send("T", bytes(15_000))
        assert await pull(client) > 15_000
        assert await pull(client) > 15_000  # held back for half a second
        with pytest.raises(Throttled, match="group g"):
            await pull(client)  # for more than a second

    limited(main, quota_group_bytes=10_000)


@pytest.mark.usefixtures("stock")
def test_a_connection_that_ends_takes_its_held_requests_with_it() -> None:
    async def main(world: World, broker: Simulated, client: Client) -> None:
        await client.send("T", bytes(60_000))
        gone = Client(world.node("gone"), client.broker)
        waiting = asyncio.create_task(gone.send())
        await asyncio.sleep(0.1)
        assert held_now(broker) == 1
        await gone.caller.close()
        with pytest.raises(ConnectionLost):
            await waiting
        await asyncio.sleep(HOLD_S)
        assert held_now(broker) == 0

    limited(main, quota_topic_bytes=5_000)


@pytest.mark.usefixtures("stock")
def test_beyond_their_number_requests_are_refused_at_once_and_make_stock_consumers_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(throttle, "HeldRequests", lambda: HeldRequests(most_bytes=8_000))

    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        loop = asyncio.get_running_loop()
        await client.send("T", bytes(60_000))
        await pull(client)
        began = loop.time()
        waiting = [asyncio.create_task(client.ask(a_pull(), accept=PULL_CODES)) for _ in range(4)]
        outcomes: list[tuple[int, bool]] = []
        for task in asyncio.as_completed(waiting):
            with pytest.raises(Throttled) as refused:
                await task
            outcomes.append((refused.value.code, loop.time() - began > 0.5))
        at_once, held_back = (ResponseCode.SYSTEM_BUSY, False), (ResponseCode.FLOW_CONTROL, True)
        assert outcomes == [at_once, at_once, held_back, held_back]

    limited(main, quota_group_bytes=10_000)


def held_now(broker: Simulated) -> float:
    found = [line for line in shown(broker).splitlines() if line.startswith("firearrow_quota_held{")]
    return float(found[0].rpartition(" ")[2])


# ---- connections


def test_connections_of_an_address_are_limited_and_others_get_in() -> None:
    async def main(world: World, broker: Simulated, client: Client) -> None:
        crowd = world.node("crowd")
        inside = [Client(crowd, client.broker) for _ in range(3)]
        for one in inside:
            await one.send()
        late = Client(crowd, client.broker)
        with pytest.raises(ConnectionLost):
            await late.send()
        await client.send()
        await inside[0].caller.close()
        await asyncio.sleep(1)
        late.caller = Caller(crowd.network)
        await late.send()
        lines = [line for line in shown(broker).splitlines() if 'quota="address"' in line]
        assert [line.rpartition(" ")[2] for line in lines] == ["1.0", "3.0"]

    limited(main, quota_connections_per_address=3)


# ---- what a review found


def test_names_that_nothing_can_have_are_not_kept() -> None:
    async def main(_world: World, broker: Simulated, client: Client) -> None:
        for number in range(50):
            await refusal(client, said(number, topic=f"{number}" + "x" * 1000)[0])
        (line,) = [line for line in shown(broker).splitlines() if line.startswith("firearrow_quota_names{")]
        assert line.endswith(" 1.0")

    limited(main, quota_topic_bytes=1_000_000)


def test_messages_sent_back_count() -> None:
    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        sent = await client.send("T")
        request = ConsumerSendMsgBack(
            offset=int(sent.answer.msg_id[-16:], 16), group="g", delay_level=1, origin_topic="T"
        )
        outcomes = await asyncio.gather(*(client.ask(request) for _ in range(10)), return_exceptions=True)
        assert any(isinstance(outcome, Throttled) and "quotaGroupRequests" in outcome.remark for outcome in outcomes)

    limited(main, quota_group_requests=5)


def test_a_client_id_is_its_users_own() -> None:
    async def main(world: World) -> None:
        names = await Names(world.node("names"), CONFIG).start()
        quotas = QuotaConfig(quota_client_requests=5)
        broker = Simulated(world.node("broker"), replace(at(settings_of(), names), access=CONFIG, quotas=quotas))
        await broker.start()
        place = Place(world, broker, names)
        alice = await place.make(ALICE, ("Topic:T", "Pub", "Allow"))
        mallory = await place.make(("mallory", "marker"), ("Topic:M", "Pub", "Allow"))
        body = encode_body(HeartbeatData(client_id="of-alice", producer_data_set=[ProducerData(group_name="P")]))
        for client in (alice, mallory):
            await client.ask(HeartBeat(), body)
        assert await passed(mallory, 20, "M") < 20
        assert await throttled(alice) is None
        await broker.node.stop()

    World(1).run(main)


def test_a_limit_that_is_lifted_lets_held_requests_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "OUR_LANGUAGE", LanguageCode.JAVA)  # so our client counts as a stock one

    async def main(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send("T", bytes(60_000))
        held = asyncio.create_task(throttled(client))
        await asyncio.sleep(0.1)  # of simulated time
        assert not held.done()
        await client.ask(UpdateBrokerConfig(), b"quotaTopicBytes=0\n")
        assert await held is None

    limited(main, quota_topic_bytes=5_000)


def test_a_limit_counts_in_copies_of_the_handlers_and_behind_guards_too() -> None:
    code, limit = int(ConsumerSendMsgBack.code), QuotaConfig(quota_topic_requests=10)
    handlers, limits = Handlers(), throttle.Throttle(lambda: None, lambda _: None)
    handlers.on(ConsumerSendMsgBack, lambda _request, _call: None)
    front = limits.before(handlers)
    copy, refusing = front.without(()), front.without(())
    guarded = copy.guarded(lambda request, call, handler: handler(request, call))
    refusing.by_code[code] = refuse = lambda _request, _call: None
    places = (front, copy, guarded)
    free = [place.by_code[code] for place in places]
    assert free[0] is handlers.by_code[code], "without a limit nothing stands before a handler"
    limits.configure(limit)
    assert all(place.by_code[code] is not before for place, before in zip(places, free, strict=True))
    assert front.without(()).by_code[code] is front.by_code[code]
    limits.configure(QuotaConfig())
    assert [place.by_code[code] for place in places] == free
    assert refusing.by_code[code] is refuse
    assert handlers.by_code[code] is free[0], "the handlers that are not behind the throttle stay"
