"""A master and its slave as processes, ours and Apache's: the log is copied byte for byte, across ``kill -9`` of both.

A run takes our own pair and one pair with Apache's broker, the next run another pair.
"""

import asyncio
import json
import random
from pathlib import Path

import pytest

from campaigns.rotation import this_turn
from firearrow import Message, Producer
from judges import ApacheBroker, FireArrowBroker, FireArrowNameServer
from judges.server_process import wait_for
from judges.wire import SUCCESS, ask

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(300)]

OURS = "ours"
PAIRS = [("5.5.0", OURS), (OURS, "5.5.0"), ("4.9.7", OURS), (OURS, "4.9.7")]
GET_RUNTIME = 28
SEGMENT = 1 << 20
SETTINGS = {"mappedFileSizeCommitLog": str(SEGMENT), "maxMessageSize": "200000"}
SLAVE_SETTINGS = {**SETTINGS, "brokerRole": "SLAVE", "slaveReadEnable": "true"}
WAIT_SECONDS = 90.0


def broker_of(kind: str, names: str, broker_id: int) -> ApacheBroker:
    settings = SLAVE_SETTINGS if broker_id else SETTINGS
    if kind == OURS:
        return FireArrowBroker(name_servers=[names], broker_id=broker_id, settings=settings)
    # A slave that is told nothing of the master would learn of it by its second registration only.
    return ApacheBroker(kind, name_servers=[names], broker_id=broker_id, settings=settings)


async def send(names: str, count: int, seed: int) -> int:
    """Send messages of mixed sizes side by side; return how many were acknowledged."""
    chance = random.Random(seed)
    bodies = [chance.randbytes(chance.choice((1, 100, 1000, 20_000))) for _ in range(count)]
    async with Producer(names) as producer:
        done = await asyncio.gather(
            *(producer.send(Message.of("copied", body)) for body in bodies), return_exceptions=True
        )
    return sum(not isinstance(one, BaseException) for one in done)


def end_of(broker: ApacheBroker) -> int:
    """The end of a broker's log; -1 when it does not answer."""
    try:
        answer = ask(broker.address, GET_RUNTIME)
    except OSError:
        return -1
    return int(json.loads(answer.body)["table"]["commitLogMaxOffset"]) if answer.code == SUCCESS else -1


def wait_until_copied(master: ApacheBroker, slave: ApacheBroker) -> None:
    wait_for(lambda: end_of(slave) == end_of(master) > 0, "a slave with the whole log", WAIT_SECONDS)


def files_of(broker: ApacheBroker) -> dict[str, bytes]:
    found = sorted(Path(broker.store, "commitlog").iterdir())
    return {path.name: path.read_bytes() for path in found if path.name.isdigit()}


def assert_equal_logs(master: ApacheBroker, slave: ApacheBroker) -> None:
    """Every file from the first common one on is equal, byte for byte."""
    first, second = files_of(master), files_of(slave)
    common = sorted(name for name in first if name in second and first[name].strip(b"\0"))
    assert common, (list(first), list(second))
    assert [name for name in second if second[name].strip(b"\0")] == common
    for name in common:
        assert first[name] == second[name], f"file {name} differs"


@pytest.mark.parametrize(("master_kind", "slave_kind"), [(OURS, OURS), *this_turn(PAIRS, 1)])
def test_a_slave_copies_the_log_of_its_master(master_kind: str, slave_kind: str) -> None:
    with FireArrowNameServer() as names, broker_of(master_kind, names.address, 0) as master:
        master.create_topic("copied")
        assert asyncio.run(send(names.address, 800, 1)) > 0
        with broker_of(slave_kind, names.address, 1) as slave:
            wait_until_copied(master, slave)
            asyncio.run(send(names.address, 400, 2))
            slave.kill()
            asyncio.run(send(names.address, 400, 3))
            slave.start()
            wait_until_copied(master, slave)
            asyncio.run(send(names.address, 200, 4))
            master.kill()
            master.start()
            asyncio.run(send(names.address, 200, 5))
            wait_until_copied(master, slave)
            assert_equal_logs(master, slave)
            if (master_kind, slave_kind) == (OURS, OURS):
                assert len(files_of(slave)) == len(files_of(master))
