"""A flood of idle connections beside a producer: files keep their descriptors, and the broker goes on."""

import asyncio
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from firearrow.client import Producer
from firearrow.errors import FireArrowError
from firearrow.model import Message
from firearrow.testing import Cluster
from tests.integration.broker.conftest import Scenario

pytestmark = pytest.mark.real

DESCRIPTORS = 512
FLOOD = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4000, hard), hard))
kept = []
for _ in range(900):
    try:
        kept.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1))
    except OSError:
        break
print("flooded", flush=True)
sys.stdin.read()
"""


@contextmanager
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def send_beside_a_flood() -> None:
    async with Cluster(settings={"dispatchFlushInterval": "500"}) as cluster:
        await cluster.create_topic("t", queues=1)
        async with Producer(cluster.address, retries=0) as producer:
            await producer.send(Message.of("t", b"before"))
            pipe = asyncio.subprocess.PIPE
            words = [sys.executable, "-c", FLOOD, cluster.broker_address().rpartition(":")[2]]
            flood = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
            assert flood.stdout is not None
            assert await flood.stdout.readline() == b"flooded\n"
            for number in range(150):  # several flushes of the store's queues and index
                try:
                    await producer.send(Message.of("t", b"beside %d" % number, keys=[f"k{number}"]))
                except FireArrowError as error:
                    pytest.fail(f"send {number} beside the flood: {error}")
                await asyncio.sleep(0.01)
            await flood.communicate(b"")
            await producer.send(Message.of("t", b"after"))


def test_sends_go_on_beside_a_flood_of_connections_and_after_it(run: Callable[[Scenario], None]) -> None:
    with few_descriptors():
        run(send_beside_a_flood)
