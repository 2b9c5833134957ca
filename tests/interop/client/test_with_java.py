"""Our producer and consumer at Apache's brokers and ours, with Apache's client at the other end."""

import asyncio
from pathlib import Path

import pytest

from firearrow.client import Consumer, Message, Producer, SendStatus
from firearrow.client.consumer.settings import ConsumerOptions
from judges import ApacheBroker, Judge, Payload, ReceiveReport, fresh
from tests.interop.client.ours import Collector, bodies, receive, report, send, until

pytestmark = pytest.mark.apache

COUNT = 200


def at(broker: ApacheBroker) -> str:
    return broker.name_servers[0]


def test_what_we_send_java_receives(broker: ApacheBroker, java: Judge) -> None:
    topic, payload = broker.create_topic(fresh("sent")), Payload(fresh("ours"))
    asyncio.run(send(at(broker), bodies(payload, COUNT, topic, ["A", "B"])))
    sent = report(payload, COUNT, ["A", "B"])
    received = java.receive(topic, COUNT)
    received.assert_exactly(sent)
    received.assert_tags_and_keys(sent)
    java.receive(topic, COUNT // 2, expression="A").assert_exactly(sent.where(lambda i: i % 2 == 0))


def test_large_bodies_arrive_whole(broker: ApacheBroker, java: Judge) -> None:
    topic, payload = broker.create_topic(fresh("large")), Payload(fresh("ours"), 50_000)
    asyncio.run(send(at(broker), bodies(payload, 10, topic)))
    java.receive(topic, 10).assert_exactly(report(payload, 10))


def test_batches_arrive_whole_and_know_their_places(broker: ApacheBroker, java: Judge) -> None:
    topic, payload = broker.create_topic(fresh("batch")), Payload(fresh("ours"), 3000)

    async def send_batches() -> None:
        async with Producer(at(broker), group=fresh("P"), max_message_bytes=100_000) as producer:
            results = await producer.send_batch(bodies(payload, COUNT, topic))
            assert len({(result.queue, result.queue_offset) for result in results}) == COUNT
            assert len({result.message_id for result in results}) == COUNT
            assert len({result.offset_message_id for result in results}) == COUNT

    asyncio.run(send_batches())
    java.receive(topic, COUNT).assert_exactly(report(payload, COUNT))


def test_one_way_messages_arrive_too(broker: ApacheBroker, java: Judge) -> None:
    topic, payload = broker.create_topic(fresh("oneway")), Payload(fresh("ours"))

    async def send_all() -> None:
        async with Producer(at(broker), group=fresh("P")) as producer:
            for message in bodies(payload, 50, topic):
                await producer.send_oneway(message)

    asyncio.run(send_all())
    java.receive(topic, 50).assert_exactly(report(payload, 50))


def test_equal_sharding_keys_stay_in_order(broker: ApacheBroker, java: Judge) -> None:
    topic, payload = broker.create_topic(fresh("order")), Payload(fresh("ours"))

    async def send_all() -> None:
        async with Producer(at(broker), group=fresh("P")) as producer:
            for i in range(60):
                await producer.send(Message.of(topic, payload.body(i), sharding_key=f"key-{i % 5}"))

    asyncio.run(send_all())
    received = java.receive(topic, 60, ordered=True)
    received.assert_exactly(report(payload, 60))
    received.assert_ordered(report(payload, 60), 5)


def test_a_delayed_message_comes_later(broker: ApacheBroker) -> None:
    topic, payload = broker.create_topic(fresh("delay")), Payload(fresh("ours"))
    asyncio.run(send(at(broker), bodies(payload, 3, topic, delay_level=2)))
    received = asyncio.run(receive(at(broker), topic, 3))
    received.assert_exactly(report(payload, 3))
    assert all(message.lag_ms >= 1900 for message in received.messages)


def test_a_topic_is_made_by_its_first_message(broker: ApacheBroker) -> None:
    topic, payload = fresh("made"), Payload(fresh("ours"))

    async def send_one() -> None:
        async with Producer(at(broker), group=fresh("P")) as producer:
            result = await producer.send(bodies(payload, 1, topic)[0])
            assert result.status is SendStatus.OK

    asyncio.run(send_one())
    asyncio.run(receive(at(broker), topic, 1)).assert_exactly(report(payload, 1))


def test_what_java_sends_we_receive(broker: ApacheBroker, java: Judge) -> None:
    topic = broker.create_topic(fresh("received"))
    sent = java.send(topic, COUNT, tags=["A", "B"], keys=True)
    sent.assert_all_sent()
    received = asyncio.run(receive(at(broker), topic, COUNT))
    received.assert_exactly(sent)
    received.assert_tags_and_keys(sent)
    only_b = asyncio.run(receive(at(broker), topic, COUNT // 2, expression="B"))
    only_b.assert_exactly(sent.where(lambda i: i % 2 == 1))


def test_what_java_sends_in_order_we_receive_in_order(broker: ApacheBroker, java: Judge) -> None:
    topic = broker.create_topic(fresh("ordered"))
    sent = java.send(topic, 100, mode="ordered", shards=7)
    received = asyncio.run(receive(at(broker), topic, 100, ordered=True))
    received.assert_exactly(sent)
    received.assert_ordered(sent, 7)


def test_a_refused_message_comes_again_and_in_the_end_goes_to_the_dead_letters(
    broker: ApacheBroker,
) -> None:
    topic, payload, group = broker.create_topic(fresh("again")), Payload(fresh("ours")), fresh("G")
    asyncio.run(send(at(broker), bodies(payload, 5, topic)))
    received = asyncio.run(receive(at(broker), topic, 5, failures=2, group=group))
    received.assert_exactly(report(payload, 5))
    assert [message.times for message in received.messages] == [2] * 5
    assert len(received.deliveries) == 15

    async def never(letters: Collector) -> None:
        refusing = Collector(failures=1000)
        async with Consumer(at(broker), group=group, topics=topic, start="first", max_reconsume_times=1) as consumer:
            running = asyncio.create_task(consumer.run(refusing))
            await send(at(broker), bodies(payload, 1, topic))
            await until(lambda: len(refusing.deliveries) >= 2, "the second delivery")
            async with Consumer(at(broker), group=fresh("G"), topics=f"%DLQ%{group}", start="first") as dead:
                reading = asyncio.create_task(dead.run(letters))
                await until(lambda: letters.accepted >= 1, "the dead letter")
                dead.stop()
                await reading
            consumer.stop()
            await running

    letters = Collector()
    asyncio.run(never(letters))
    letters.report().assert_exactly(report(payload, 1))


def test_a_new_group_starts_at_the_end_of_an_empty_topic(broker: ApacheBroker) -> None:
    topic, payload = broker.create_topic(fresh("empty")), Payload(fresh("ours"))

    async def both() -> None:
        collector = Collector()
        async with Consumer(at(broker), group=fresh("G"), topics=topic) as consumer:
            running = asyncio.create_task(consumer.run(collector))
            await until(lambda: len(consumer.assignment) == 5, "four queues and the one for retries")
            await until(lambda: not consumer.stalls(), "queues that move")
            await send(at(broker), bodies(payload, 20, topic))
            await until(lambda: collector.accepted >= 20, "all messages")
            consumer.stop()
            await running
        collector.report().assert_exactly(report(payload, 20))

    asyncio.run(both())


def test_every_member_of_a_broadcast_gets_everything(
    broker: ApacheBroker, java: Judge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    topic, payload, group = broker.create_topic(fresh("broadcast")), Payload(fresh("ours")), fresh("G")
    asyncio.run(send(at(broker), bodies(payload, 20, topic)))
    theirs = java.receive(topic, 20, group=group, broadcast=True)
    mine = asyncio.run(receive(at(broker), topic, 20, group=group, broadcasting=True, instance_name="DEFAULT"))
    theirs.assert_exactly(report(payload, 20))
    mine.assert_exactly(report(payload, 20))
    (file,) = tmp_path.glob(f".rocketmq_offsets/*@DEFAULT/{group}/offsets.json")
    assert f'"topic":"{topic}"}}:' in file.read_text()


def test_ours_and_javas_members_share_a_group(broker: ApacheBroker, java: Judge) -> None:
    topic, group, payload = broker.create_topic(fresh("shared"), 8), fresh("G"), Payload(fresh("ours"))

    async def together() -> None:
        mine, other = Collector(), Collector()
        with java.subscribe(topic, group=group, start="first") as theirs:
            async with (
                Consumer(at(broker), group=group, topics=topic, start="first") as one,
                Consumer(at(broker), group=group, topics=topic, start="first") as two,
            ):
                work = [asyncio.create_task(one.run(mine)), asyncio.create_task(two.run(other))]

                def queues() -> list[int]:
                    return [sum(queue.topic == topic for queue in each.assignment) for each in (one, two)]

                await until(lambda: sum(queues()) in (5, 6) and min(queues()) >= 2, "a fair division")
                await send(at(broker), bodies(payload, COUNT, topic))
                java_got = await asyncio.to_thread(theirs.collect, COUNT // 8, timeout_seconds=30)
                await until(
                    lambda: mine.accepted + other.accepted + len(theirs.so_far().messages) >= COUNT, "all messages"
                )
                java_got = theirs.so_far()
                one.stop()
                two.stop()
                await asyncio.gather(*work)
        everything = mine.report().deliveries + other.report().deliveries + java_got.deliveries
        type(java_got)(everything).assert_exactly(report(payload, COUNT))
        owners = [set(each.queues) for each in (mine.report(), other.report(), java_got)]
        assert not owners[0] & owners[1]
        assert not owners[0] & owners[2]
        assert not owners[1] & owners[2]

    asyncio.run(together())


def test_members_of_both_kinds_come_and_go(broker: ApacheBroker, java: Judge) -> None:
    topic, group, payload = broker.create_topic(fresh("mixed"), 8), fresh("G"), Payload(fresh("ours"))
    options = ConsumerOptions(start="first", rebalance_ms=1000)

    async def story() -> None:
        mine, other = Collector(), Collector()
        sent, gone = 0, ReceiveReport(())

        async def send_more() -> None:
            nonlocal sent
            messages = bodies(payload, sent + 40, topic)[sent:]
            sent += 40
            await send(at(broker), messages)

        def handled(*theirs: ReceiveReport) -> set[str]:
            reports = (mine.report(), other.report(), gone, *theirs)
            return {message.digest for each in reports for message in each.messages}

        def owned(*consumers: Consumer) -> list[int]:
            return [sum(queue.topic == topic for queue in each.assignment) for each in consumers]

        async with Consumer(at(broker), group=group, topics=topic, **options) as one:
            work = [asyncio.create_task(one.run(mine))]
            await until(lambda: owned(one) == [8], "all queues")
            await send_more()
            with java.subscribe(topic, group=group, start="first") as theirs:
                await until(lambda: owned(one) == [4], "half of the queues")
                await send_more()
                await until(lambda: bool(theirs.so_far().messages), "Java's share")
                async with Consumer(at(broker), group=group, topics=topic, **options) as two:
                    work.append(asyncio.create_task(two.run(other)))
                    await until(lambda: sorted(owned(one, two)) in ([2, 3], [3, 3]), "a third each")
                    await send_more()
                    await until(lambda: len(handled(theirs.so_far())) == sent, "everything, from three members")
                    two.stop()
                    await work[1]
                await until(lambda: owned(one) == [4], "half of the queues again")
                await send_more()
                await until(lambda: len(handled(theirs.so_far())) == sent, "everything, from two members")
                gone = theirs.so_far()
            await until(lambda: owned(one) == [8], "all queues again")
            await send_more()
            await until(lambda: len(handled()) == sent, "everything, from one member")
            one.stop()
            await work[0]
        assert handled() == {payload.digest(index) for index in range(sent)}

    asyncio.run(story())
