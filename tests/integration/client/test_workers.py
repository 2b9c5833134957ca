"""Plain synchronous workers, forked: what data pipelines and pre-forking servers do with the client."""

import json
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

import pytest

from firearrow.blocking import Consumer, Message, MessageQueue, Producer, PullConsumer, ReceivedMessage
from firearrow.errors import PortalClosed
from judges import FireArrowBroker, fresh
from judges.server_process import answers, wait_for

pytestmark = pytest.mark.real

WORKERS = 8
COUNT = 2000
GET_MEMBERS = 38
FORK = multiprocessing.get_context("fork")


@contextmanager
def forked(work: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """A child that runs ``work(pipe, ...)``; the block has the other end of the pipe."""
    mine, theirs = FORK.Pipe()
    child = FORK.Process(target=work, args=(theirs, *arguments))
    child.start()
    theirs.close()
    try:
        yield mine
        child.join(30)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()


def in_workers(work: Callable[..., None], arguments: Sequence[tuple[object, ...]]) -> list[Any]:
    """The output of each of the workers, which run at once."""
    with ExitStack() as stack:
        pipes = [stack.enter_context(forked(work, *each)) for each in arguments]
        return [pipe.recv() for pipe in pipes]


def test_importing_starts_nothing() -> None:
    code = """
import asyncio, sys, threading
import firearrow.client, firearrow.blocking
assert threading.active_count() == 1, threading.enumerate()
assert asyncio.get_event_loop_policy()._local._loop is None
heavy = {"uvloop", "typer", "rich", "lark", "lz4", "zstandard", "numpy", "multiprocessing"} & set(sys.modules)
assert not heavy, heavy
servers = [name for name in sys.modules if name.startswith(("firearrow.store", "firearrow.broker"))]
assert not servers, servers
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def read(pipe: Connection, names: str, queue: MessageQueue, begin: int, end: int) -> None:
    with PullConsumer(names, group="workers") as consumer:
        answers_ = consumer.pull_range(queue, begin, end, max_messages=32, in_flight=4)
        pipe.send([message.queue_offset for pulled in answers_ for message in pulled.messages()])


def test_forked_workers_read_their_stretches(broker: FireArrowBroker) -> None:
    topic, names = broker.create_topic(fresh("stretches"), 1), broker.name_servers[0]
    queue = MessageQueue(topic, broker.name, 0)
    with Producer(names, group=fresh("P")) as producer, PullConsumer(names, group="planner") as planner:
        producer.send_batch(Message.of(topic, b"%d" % number) for number in range(COUNT))
        wait_for(lambda: planner.bounds(topic)[queue].end == COUNT, "the whole queue")
        share = COUNT // WORKERS
        found = in_workers(read, [(names, queue, n * share, (n + 1) * share) for n in range(WORKERS)])
        assert [offset for some in found for offset in some] == list(range(COUNT))
        assert planner.offsets_at([queue], 0) == {queue: 0}


def send(pipe: Connection, names: str, topic: str) -> None:
    with Producer(names, group="forked") as producer:
        results = producer.send_batch(Message.of(topic, b"x") for _ in range(500))
        pipe.send((producer.client_id, [result.message_id for result in results]))


def test_forked_producers_share_no_id_and_no_unique_key(broker: FireArrowBroker) -> None:
    topic, names = broker.create_topic(fresh("forked")), broker.name_servers[0]
    with Producer(names, group="forked") as parent:
        keys = [parent.send(Message.of(topic, b"x")).message_id]
        reports = in_workers(send, [(names, topic)] * WORKERS)
        ids = {parent.client_id, *(identity for identity, _ in reports)}
    keys += [key for _, some in reports for key in some]
    assert len(ids) == WORKERS + 1
    assert len(set(keys)) == len(keys) == WORKERS * 500 + 1


def consume(pipe: Connection, names: str, topic: str, group: str) -> None:
    with Consumer(names, group=group, topics=topic, start="first", rebalance_ms=1000) as consumer:
        seen: list[bytes] = []

        def handle(message: ReceivedMessage) -> None:
            seen.append(message.body)

        running = threading.Thread(target=consumer.run, args=(handle,))
        running.start()
        while pipe.recv() != "stop":
            queues = [queue.queue_id for queue in consumer.assignment if queue.topic == topic]
            pipe.send((queues, len(seen)))
        consumer.stop()
        running.join()
        pipe.send(seen)


def test_forked_consumers_are_that_many_members(broker: FireArrowBroker) -> None:
    queues = 2 * WORKERS
    topic, names, group = broker.create_topic(fresh("members"), queues), broker.name_servers[0], fresh("G")
    with ExitStack() as stack:
        pipes = [stack.enter_context(forked(consume, names, topic, group)) for _ in range(WORKERS)]

        def asked() -> list[tuple[list[int], int]]:
            for pipe in pipes:
                pipe.send("how far")
            return [pipe.recv() for pipe in pipes]

        wait_for(lambda: len(members(broker, group)) == WORKERS, "eight members", 30)
        wait_for(lambda: [len(owned) for owned, _ in asked()] == [2] * WORKERS, "two queues each", 60)
        assert sorted(number for owned, _ in asked() for number in owned) == list(range(queues))
        with Producer(names, group=fresh("P")) as producer:
            for queue in producer.queues(topic):
                producer.send_batch((Message.of(topic, b"%d-%d" % (queue.queue_id, n)) for n in range(50)), queue=queue)
        wait_for(lambda: sum(count for _, count in asked()) >= 50 * queues, "all messages", 60)
        for pipe in pipes:
            pipe.send("stop")
        seen = [body for pipe in pipes for body in pipe.recv()]
    assert len(seen) == len(set(seen)) == 50 * queues


def members(broker: FireArrowBroker, group: str) -> list[str]:
    told = answers(broker.address, GET_MEMBERS, {"consumerGroup": group})
    return list(json.loads(told)["consumerIdList"]) if told else []


def test_a_client_says_that_it_does_not_survive_a_fork(broker: FireArrowBroker) -> None:
    topic = broker.create_topic(fresh("inherited"))
    with Producer(broker.name_servers[0], group=fresh("P")) as producer:
        producer.send(Message.of(topic, b"before"))

        def child(pipe: Connection) -> None:
            try:
                producer.send(Message.of(topic, b"in the child"))
            except PortalClosed as error:
                pipe.send(str(error))

        (said,) = in_workers(child, [()])
        assert "fork" in said
        assert producer.send(Message.of(topic, b"after")).is_ok
