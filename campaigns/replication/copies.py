"""A master and its slave as processes, ours and Apache's: messages under load, ``kill -9`` of both, equal log files."""

import asyncio
import json
import random
from pathlib import Path
from typing import Final

from campaigns.faults.ledger import Figures
from firearrow import Message, Producer
from judges import ApacheBroker, FireArrowBroker, FireArrowNameServer
from judges.server_process import wait_for
from judges.wire import SUCCESS, ask

OURS: Final = "ours"
TOPIC: Final = "copied"
GET_RUNTIME: Final = 28
BODY_BYTES: Final = (1, 100, 1000, 1000, 20_000)
AT_ONCE: Final = 200
"""Messages that are on their way at a time."""
SLAVE_SETTINGS: Final = {"brokerRole": "SLAVE", "slaveReadEnable": "true"}


def broker_of(kind: str, names: str, broker_id: int, segment_bytes: int) -> ApacheBroker:
    """Return a broker of ours, or Apache's of a version; one with an id above 0 is a slave."""
    settings = {"mappedFileSizeCommitLog": str(segment_bytes), "maxMessageSize": "200000"}
    if broker_id:
        settings |= SLAVE_SETTINGS
    if kind == OURS:
        return FireArrowBroker(name_servers=[names], broker_id=broker_id, settings=settings)
    return ApacheBroker(kind, name_servers=[names], broker_id=broker_id, settings=settings)


async def send(names: str, count: int, seed: int) -> int:
    """Send messages of mixed sizes, many at a time; return how many were acknowledged."""
    chance = random.Random(seed)
    acknowledged = 0
    async with Producer(names) as producer:
        for start in range(0, count, AT_ONCE):
            bodies = [chance.randbytes(chance.choice(BODY_BYTES)) for _ in range(min(AT_ONCE, count - start))]
            done = await asyncio.gather(
                *(producer.send(Message.of(TOPIC, body)) for body in bodies), return_exceptions=True
            )
            acknowledged += sum(not isinstance(each, BaseException) for each in done)
    return acknowledged


async def send_through(names: str, count: int, seed: int, broker: ApacheBroker) -> int:
    """Send messages while a broker is killed and started again; return how many were acknowledged."""
    before = await send(names, count // 3, seed)
    sending = asyncio.create_task(send(names, count - count // 3, seed + 1))
    await asyncio.sleep(0.5)  # some messages are on their way
    await asyncio.to_thread(broker.kill)
    await asyncio.to_thread(broker.start)
    return before + await sending


def end_of(broker: ApacheBroker) -> int:
    """The end of a broker's log; -1 when it does not answer."""
    try:
        answer = ask(broker.address, GET_RUNTIME)
    except OSError:
        return -1
    return int(json.loads(answer.body)["table"]["commitLogMaxOffset"]) if answer.code == SUCCESS else -1


def wait_until_copied(master: ApacheBroker, slave: ApacheBroker, seconds: float) -> None:
    """Wait until a slave has the whole log of its master."""
    wait_for(lambda: end_of(slave) == end_of(master) > 0, "a slave with the whole log", seconds)


def assert_equal_logs(master: ApacheBroker, slave: ApacheBroker) -> int:
    """Check that every file from the first common one on is equal, byte for byte; return how many there are."""
    first, second = _files_of(master), _files_of(slave)
    common = sorted(name for name in first if name in second and not _is_empty(first[name]))
    assert common, (list(first), list(second))
    assert [name for name in sorted(second) if not _is_empty(second[name])] == common
    for name in common:
        assert first[name].read_bytes() == second[name].read_bytes(), f"file {name} differs"
    return len(common)


def _files_of(broker: ApacheBroker) -> dict[str, Path]:
    return {path.name: path for path in Path(broker.store, "commitlog").iterdir() if path.name.isdigit()}


def _is_empty(path: Path) -> bool:
    with path.open("rb") as file:
        return not file.read(8).strip(b"\0")


def copied_across_kills(
    master_kind: str, slave_kind: str, messages: int, seed: int, segment_bytes: int, wait_s: float
) -> Figures:
    """Send messages, kill slave and master under load, and compare the logs."""
    with FireArrowNameServer() as names, broker_of(master_kind, names.address, 0, segment_bytes) as master:
        master.create_topic(TOPIC)
        sent = asyncio.run(send(names.address, messages // 4, seed))
        with broker_of(slave_kind, names.address, 1, segment_bytes) as slave:
            wait_until_copied(master, slave, wait_s)
            sent += asyncio.run(send_through(names.address, messages // 4, seed + 10, slave))
            sent += asyncio.run(send_through(names.address, messages // 4, seed + 20, master))
            sent += asyncio.run(send(names.address, messages - 3 * (messages // 4), seed + 30))
            wait_until_copied(master, slave, wait_s)
            files = assert_equal_logs(master, slave)
            return {
                "pair": f"{master_kind}>{slave_kind}",
                "messages": messages,
                "acknowledged": sent,
                "kills": 2,
                "log_bytes": end_of(master),
                "equal_files": files,
                "is_whole": files == sum(not _is_empty(path) for path in _files_of(master).values()),
            }
