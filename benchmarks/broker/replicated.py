"""What replication costs a send: ``python -m benchmarks.broker.replicated [rounds]``.

Three masters and a bare client share one process and one loop: one ASYNC_MASTER whose slave, a process of its own,
copies everything, and two without a slave. Rounds of 64 sends go to them in turns, with a pause after each in which the
log goes to the slave: a round shows what a send costs on its own turn. Printed are microseconds of CPU a message and
the differences; the second master without a slave shows how much chance there is.
"""

import asyncio
import gc
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import mean, median

from benchmarks.broker.__main__ import LOOPBACK, Client, frames
from firearrow.broker.broker import Broker
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.broker.settings.replication_settings import ReplicationConfig
from firearrow.protocol.command import Encoding
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.loops import new_loop
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import SystemNetwork
from firearrow.testing.ports import free_broker_port
from judges import FireArrowBroker

ROUNDS = 2000
DEPTH = 64
SIZE = 1024
PAUSE_S = 0.004
"""Longer than the time for which an ASYNC_MASTER gathers writes before it sends them."""
WARM_UP = 20


@asynccontextmanager
async def serving(ha_port: int) -> AsyncIterator[int]:
    """The port of a master on a real disk."""
    config = BrokerConfig(broker_name="b", listen_port=0, bind_address=LOOPBACK, broker_ip1=LOOPBACK)
    settings = BrokerSettings(broker=config, replication=ReplicationConfig(ha_listen_port=ha_port))
    with tempfile.TemporaryDirectory() as directory:
        disk = RealDisk(directory)
        machine = Machine("bench", LOOPBACK, 8 << 30, "boot")
        broker = Broker(
            settings, machine, network=SystemNetwork(), disk=disk, clock=SystemClock(), chance=random.Random()
        )
        async with broker.serving() as identity:
            yield identity.port
        await disk.close()


async def compare(rounds: int) -> None:
    """Print what a send costs with a slave and without."""
    ha_ports = [free_broker_port() for _ in range(3)]
    async with serving(ha_ports[0]) as alone, serving(ha_ports[1]) as with_slave, serving(ha_ports[2]) as again:
        slave = FireArrowBroker(
            name_servers=[],
            name="b",
            broker_id=1,
            settings={"brokerRole": "SLAVE", "haMasterAddress": f"{LOOPBACK}:{ha_ports[1]}"},
        )
        await asyncio.to_thread(slave.start)
        try:
            spent = await _spent(rounds, [alone, with_slave, again])
            assert _has_records(slave), "the slave has copied nothing"
        finally:
            await asyncio.to_thread(slave.close)
    for name, of in (("mean", mean), ("median", median)):
        without, copying, control = (of(times) for times in spent)
        more, chance = (copying / without - 1) * 100, (control / without - 1) * 100
        figures = f"alone {without:6.2f} us, with a slave {copying:6.2f} us, alone again {control:6.2f} us"
        print(f"{name:6}  {figures}: a slave costs {more:+5.2f} %, chance {chance:+5.2f} %")


def _has_records(slave: FireArrowBroker) -> bool:
    return any(file.open("rb").read(SIZE).strip(b"\0") for file in (slave.store / "commitlog").iterdir())


async def _spent(rounds: int, ports: list[int]) -> list[list[float]]:
    gc.freeze()
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(Client, LOOPBACK, port))[1] for port in ports]
    data = frames(Encoding.JSON, b"x" * SIZE, DEPTH)
    spent: list[list[float]] = [[], [], []]
    for number in range(rounds + WARM_UP):
        for step in range(3):
            place = (number + step) % 3
            before = time.process_time()
            await clients[place].exchange(data, DEPTH)
            if number >= WARM_UP:
                spent[place].append((time.process_time() - before) / DEPTH * 1e6)
            await asyncio.sleep(PAUSE_S)
    return spent


def main() -> None:
    """Run it on the loop that brokers run on."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(compare(rounds))


if __name__ == "__main__":
    main()
