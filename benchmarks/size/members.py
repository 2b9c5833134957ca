"""Members of one group that come and leave together: how long everybody else waits."""

import asyncio
import resource
from collections.abc import Iterator

from benchmarks.size.brokers import broker_with, member_body, topic_name
from benchmarks.size.probe import Line, Probe, Seen, connect, run
from benchmarks.size.state import RATE
from benchmarks.size.table import Row, paced
from benchmarks.versus.contestants import FireArrowInEarnest
from firearrow.protocol.requests.group.heartbeat import HeartBeat

AT_ONCE = 100
LEAVE_AFTER_S = 2.0
WATCH_S = 6.0
SPARE_FILES = 1000
SMALL = 10


async def _members(port: int, count: int) -> list[Line]:
    lines: list[Line] = []
    for first in range(0, count, AT_ONCE):
        some = await asyncio.gather(*(connect(port) for _ in range(first, min(first + AT_ONCE, count))))
        bodies = [member_body(f"127.0.0.1@{first + number}", "many", topic_name(0)) for number in range(len(some))]
        await asyncio.gather(*(line.ask(HeartBeat(), body) for line, body in zip(some, bodies, strict=True)))
        lines += some
    return lines


async def _leave(broker: FireArrowInEarnest, count: int) -> Seen:
    """Half of them leave at once, then the other half, beside paced sends."""
    lines = await _members(broker.port, count)
    await asyncio.sleep(LEAVE_AFTER_S)
    watching = asyncio.create_task(
        Probe(broker.port, broker.pid).watch(WATCH_S, rate=RATE, topics=(topic_name(1), topic_name(2)))
    )
    for half in (lines[: count // 2], lines[count // 2 :]):
        await asyncio.sleep(LEAVE_AFTER_S)
        for line in half:
            line.transport.abort()
    return await watching


def of_members(members: int) -> Iterator[Row]:
    """A group of many beside a group of ten."""
    files = members + SPARE_FILES
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(files, 4096), hard), hard))
    found = []
    for count in (SMALL, members):
        with broker_with(SMALL) as (broker, _):
            found.append(run(_leave(broker, count)))
    small, large = found
    name = f"{members:,} members leave"
    yield from paced(name, small, large)
