"""The client without await, at Apache's brokers and ours."""

import hashlib
import threading

import pytest

from firearrow.blocking import Consumer, Producer, PullConsumer, ReceivedMessage
from firearrow.errors import ClientClosed
from judges import ApacheBroker, Payload, fresh
from tests.interop.client.ours import bodies

pytestmark = pytest.mark.apache

COUNT = 40


def test_messages_go_there_and_back_without_a_loop_of_ones_own(broker: ApacheBroker) -> None:
    topic, payload, group = broker.create_topic(fresh("blocking")), Payload(fresh("ours")), fresh("G")
    at = broker.name_servers[0]
    with Producer(at, group=fresh("P")) as producer:
        results = [producer.send(message) for message in bodies(payload, COUNT, topic)]
        assert all(result.is_ok for result in results)
    with pytest.raises(ClientClosed):
        producer.send(bodies(payload, 1, topic)[0])

    expected = {payload.digest(index) for index in range(COUNT)}
    seen: set[str] = set()
    with Consumer(at, group=group, topics=topic, start="first") as consumer:
        for message in consumer:
            with message.process():
                seen.add(hashlib.sha256(message.body).hexdigest())
            if seen == expected:
                consumer.stop()
    assert seen == expected

    with PullConsumer(at, group=fresh("G"), start="first") as puller:
        puller.assign(puller.queues(topic))
        read = [next(puller) for _ in range(COUNT)]
        assert {hashlib.sha256(message.body).hexdigest() for message in read} == expected


def test_handlers_run_in_threads_and_side_by_side(broker: ApacheBroker) -> None:
    topic, payload = broker.create_topic(fresh("threads")), Payload(fresh("ours"))
    at = broker.name_servers[0]
    with Producer(at, group=fresh("P")) as producer:
        producer.send_batch(bodies(payload, 8, topic))
    together, names = threading.Barrier(8, timeout=30), set()

    with Consumer(at, group=fresh("G"), topics=topic, start="first", workers=8) as consumer:

        def handle(_message: ReceivedMessage) -> None:
            names.add(threading.current_thread().name)
            if together.wait() == 0:
                consumer.stop()

        consumer.run(handle)
    assert len(names) == 8
