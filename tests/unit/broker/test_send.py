"""Sends against a whole broker on a simulated machine: what is stored, what is answered, what is refused."""

from typing import Any

import pytest

from firearrow.broker.settings.config import BrokerConfig
from firearrow.errors import RequestRefused
from firearrow.model import Message, keys
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.send import RecallMessage, SendBatchMessage, SendMessage, SendMessageV2
from firearrow.record.batch import encode_batch
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import UNIQUE, Client, Simulated, a_send, settings_of, simulate


def test_a_message_is_stored_and_answered_as_apache_does() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        properties = UNIQUE + "TAGS\x01A\x02KEYS\x01k1 k2\x02WAIT\x01true\x02"
        replies = [await client.send(properties=properties, queue_id=2, flag=7) for _ in range(3)]
        for number, reply in enumerate(replies):
            answer = reply.answer
            assert (answer.queue_id, answer.queue_offset, answer.transaction_id) == (2, number, "AC11000100002A")
            assert (answer.msg_region, answer.trace_on) == ("DefaultRegion", True)
            assert reply.version == 513
        stored = await client.stored(queue_id=2)
        assert [message.queue_offset for message in stored] == [0, 1, 2]
        first = stored[0]
        assert first.body == b"hello"
        assert first.flag == 7
        assert first.born_timestamp == 1_700_000_000_000
        assert first.born_host.ip == "10.0.0.2"
        assert (first.store_host.ip, first.store_host.port) == (broker.node.host, 10911)
        assert dict(first.properties) == {
            "UNIQ_KEY": "AC11000100002A",
            "TAGS": "A",
            "KEYS": "k1 k2",
            "WAIT": "true",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }
        assert replies[2].answer.msg_id == f"{broker.identity.store_host.hex()}{stored[2].physical_offset:016x}".upper()

    simulate(scenario)


@pytest.mark.parametrize(
    "properties", ["", "TAGS\x01A", "XUNIQ_KEY\x01no\x02", "TRACE_ON\x01false\x02CLUSTER\x01c\x02"]
)
def test_properties_that_lack_or_repeat_something(properties: str) -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send(properties=properties)
        reply = await client.send(properties=properties)
        stored = (await client.stored())[-1]
        assert len(stored.properties["UNIQ_KEY"]) == 32
        assert reply.answer.transaction_id == stored.properties["UNIQ_KEY"]
        assert stored.properties["CLUSTER"] == "DefaultCluster"
        assert stored.properties["TRACE_ON"] == "true"

    simulate(scenario)


def test_both_ways_store_the_same() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for kind in (SendMessage, SendMessageV2, SendMessage, SendMessageV2):
            await client.ask(a_send(kind=kind), b"x")
        stored = await client.stored()
        assert len({(tuple(sorted(m.properties.items())), m.body, m.sys_flag) for m in stored}) == 1
        assert len(stored) == 4

    simulate(scenario)


def test_a_first_message_makes_its_topic() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await client.send("fresh", queue_id=3, default_topic_queue_nums=16)
        await client.send("fresh", queue_id=7)
        await broker.node.stop()
        await broker.start()
        assert len(await client.stored("fresh", 3)) == 1
        with pytest.raises(RequestRefused, match=r"queueId\[8\] is illegal, TopicConfig \[topicName=fresh"):
            await client.send("fresh", queue_id=8)

    simulate(scenario)


def test_a_crash_right_after_the_answer_leaves_the_message_its_topic() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await client.send("fresh")
        await broker.node.crash()
        await broker.start()
        assert [message.body for message in await client.stored("fresh")] == [b"hello"]

    for seed in range(5):
        simulate(scenario, settings_of(sync=True), seed=seed)


def test_without_auto_create_a_topic_must_be_there() -> None:
    config = BrokerConfig(broker_name="broker-a", auto_create_topic_enable=False)

    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        with pytest.raises(RequestRefused) as refused:
            await client.send("fresh")
        assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST
        assert refused.value.remark.startswith("topic[fresh] not exist, apply first please!\nSee http")

    simulate(scenario, settings_of(config))


def test_negative_queues_are_chosen_by_chance() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        queues = {(await client.send(queue_id=-1)).answer.queue_id for _ in range(60)}
        assert queues == {0, 1, 2, 3}

    simulate(scenario)


LATE_RECALL = "TIMER_DELIVER_MS\x015\x02TIMER_DEL_UNIQKEY\x01x\x02"
REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    ("blank topic", {"topic": " "}, 29, "blank"),
    ("illegal topic", {"topic": "a b"}, 29, "illegal characters"),
    ("long topic", {"topic": "t" * 128}, 29, "max length: 127"),
    ("schedule topic", {"topic": "SCHEDULE_TOPIC_XXXX"}, 16, "is forbidden"),
    ("half topic", {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, 16, "is forbidden"),
    ("no such model", {"topic": "fresh", "default_topic": "nobody"}, 17, "not exist"),
    ("queue too high", {"queue_id": 4}, 29, "request queueId"),
    ("rollback bits", {"sys_flag": 12}, 16, "sending transaction message is forbidden"),
    ("timer too far", {"properties": UNIQUE + "TIMER_DELAY_SEC\x01259201\x02"}, 13, "timer message illegal"),
    ("timer no number", {"properties": UNIQUE + "TIMER_DELAY_MS\x01soon\x02"}, 13, "timer message illegal"),
    ("recall too late", {"properties": UNIQUE + LATE_RECALL}, 13, "timer message illegal"),
    ("batch with timer", {"properties": "TIMER_DELAY_SEC\x013\x02", "batch": True}, 13, "the message is illegal"),
    ("inner batch", {"sys_flag": 0x80}, 13, "the message is illegal"),
    ("inner number", {"properties": UNIQUE + "INNER_NUM\x015\x02"}, 13, "the message is illegal"),
    ("bad delay", {"properties": UNIQUE + "DELAY\x01soon\x02"}, 1, "NumberFormatException"),
    ("large body", {"body": b"x" * 4097}, 13, "body length limit 4096B"),
    ("large properties", {"properties": UNIQUE + "k\x01" + "v" * 32_700}, 13, "the message is illegal"),
    ("batch to retry", {"topic": "%RETRY%g", "batch": True}, 13, "does not support retry group"),
    ("batch with delay", {"properties": "DELAY\x013\x02", "batch": True}, 13, "the message is illegal"),
    ("batch in transaction", {"sys_flag": 4, "batch": True}, 13, "the message is illegal"),
    ("batch cut off", {"body": b"xyz", "batch": True}, 1, "cut off"),
    ("batch too large", {"body": b"x" * 4097, "batch": True}, 1, "body size exceeded"),
]


@pytest.mark.parametrize(("what", "said", "code", "remark"), REFUSED, ids=[case[0] for case in REFUSED])
@pytest.mark.parametrize("is_known", [False, True], ids=["first", "later"])
def test_refusals(what: str, said: dict[str, Any], code: int, remark: str, is_known: bool) -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send()
        if is_known:
            await client.send()
        before = len(await client.stored())
        with pytest.raises(RequestRefused, match=remark) as refused:
            await client.send(**said)
        assert refused.value.code == code, what
        assert len(await client.stored()) == before

    simulate(scenario, settings_of(max_message_size=4096))


@pytest.mark.parametrize("request_", [RecallMessage(topic="T", recall_handle="h")])
def test_what_is_not_offered_is_not_taken_for_something_else(request_: RecallMessage) -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        with pytest.raises(RequestRefused):
            await client.ask(request_)

    simulate(scenario)


def test_a_batch_becomes_single_messages_in_a_row() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        messages = [Message("T", b"%d" % n, {"TAGS": f"t{n}", "UNIQ_KEY": f"{n:032X}"}, flag=n) for n in range(5)]
        wait = "WAIT\x01true\x02"
        await client.ask(a_send(kind=SendBatchMessage, properties=wait, batch=True), encode_batch(messages))
        reply = await client.ask(a_send(kind=SendMessageV2, properties=wait, batch=True), encode_batch(messages))
        stored = (await client.stored())[5:]
        assert [message.body for message in stored] == [b"0", b"1", b"2", b"3", b"4"]
        assert [message.flag for message in stored] == [0, 1, 2, 3, 4]
        assert [message.queue_offset for message in stored] == [5, 6, 7, 8, 9]
        assert dict(stored[3].properties) == {"TAGS": "t3", "UNIQ_KEY": f"{3:032X}"}
        assert reply.answer.queue_offset == 5
        prefix = broker.identity.store_host.hex().upper()
        assert reply.answer.msg_id == ",".join(f"{prefix}{message.physical_offset:016X}" for message in stored)
        assert reply.answer.transaction_id is None

    simulate(scenario)


def test_a_delayed_message_waits_in_the_queue_of_its_level() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        reply = await client.send(properties=UNIQUE + "DELAY\x0199\x02TIMER_DELAY_SEC\x015\x02", queue_id=1)
        assert (reply.answer.queue_id, reply.answer.queue_offset) == (1, 0)
        assert await client.stored(queue_id=1) == []
        (parked,) = await client.stored("SCHEDULE_TOPIC_XXXX", 17)
        assert (parked.properties["REAL_TOPIC"], parked.properties["REAL_QID"]) == ("T", "1")
        assert parked.properties["DELAY"] == "18"
        assert "TIMER_DELAY_SEC" not in parked.properties

    simulate(scenario)


def test_a_consumer_s_own_retry_goes_to_the_dead_letters_when_tried_often_enough() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send("%RETRY%g", reconsume_times=16, max_reconsume_times=16)
        assert len(await client.stored("%RETRY%g")) == 1
        await client.send("%RETRY%g", reconsume_times=17, max_reconsume_times=16)
        assert len(await client.stored("%RETRY%g")) == 1
        assert len(await client.stored("%DLQ%g")) == 1

    simulate(scenario)


def test_messages_become_dead_letters_when_given_up_alone() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        rows = [Message("%DLQ%g", b"x", {keys.ROW_ID: "r"}), Message("%DLQ%g", b"y", {})]
        for messages in (rows, rows[1:], rows[1:]):
            await client.ask(a_send("%DLQ%g", kind=SendBatchMessage, batch=True), encode_batch(messages))
            await client.send("%DLQ%g")
        assert broker.broker._assembly is not None
        counts = broker.broker._assembly.stats.counts
        assert [(of, one.messages) for of, one in counts("dead")] == []
        await client.send("%RETRY%g", reconsume_times=17, max_reconsume_times=16)
        await client.send("%RETRY%g", reconsume_times=17, max_reconsume_times=16, properties=UNIQUE + "DELAY\x012\x02")
        assert [(of, one.messages) for of, one in counts("dead")] == [("%RETRY%g@g", 2)]
        assert len(await client.stored("%DLQ%g")) == 9

    simulate(scenario)


def test_one_way_messages_are_stored_without_an_answer() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await client.send()
        for _ in range(3):
            await client.caller.tell(broker.address, a_send(), b"quiet")
        await client.send()
        assert [message.body for message in await client.stored()] == [b"hello", b"quiet", b"quiet", b"quiet", b"hello"]

    simulate(scenario)


def test_sends_are_refused_before_their_time() -> None:
    config = BrokerConfig(broker_name="broker-a", start_accept_send_request_time_stamp=9_999_999_999_999)

    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        with pytest.raises(RequestRefused, match="broker unable to service, until"):
            await client.send()

    simulate(scenario, settings_of(config))


def test_pulls_are_not_answered_two_ports_below() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        fast = Client.__new__(Client)
        fast.caller, fast.broker = client.caller, broker.address._replace(port=10909)
        assert (await fast.send()).answer.queue_offset == 0
        pull = PullMessage(
            consumer_group="g",
            topic="T",
            queue_id=0,
            queue_offset=0,
            max_msg_nums=1,
            sys_flag=0,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
        )
        with pytest.raises(RequestRefused, match="request type 11 not supported"):
            await fast.ask(pull)

    simulate(scenario)
