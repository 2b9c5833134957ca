"""The cost of replication for a send: ``python -m benchmarks.broker.replicated [rounds]``.

Three masters and a bare client share one process and one loop: one ASYNC_MASTER whose slave, a process of its own,
copies everything, and two without a slave. Rounds of 64 sends go to them in turns, with a pause after each in which the
log goes to the slave: a round shows what a send costs on its own turn. Printed are microseconds of CPU a message and
the differences; the second master without a slave shows how much chance there is.
"""

import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.broker.__main__ import LOOPBACK
from benchmarks.broker.in_turns import SIZE, print_difference, rounds_in_turns
from firearrow.broker.broker import Broker
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.broker.settings.replication_settings import ReplicationConfig
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.loops import new_loop
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import SystemNetwork
from firearrow.testing.ports import free_broker_port
from judges import FireArrowBroker

ROUNDS = 2000
PAUSE_S = 0.004
"""Longer than the time for which an ASYNC_MASTER gathers writes before it sends them."""


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
            spent = await rounds_in_turns(rounds, [alone, with_slave, again], PAUSE_S)
            assert _has_records(slave), "the slave has copied nothing"
        finally:
            await asyncio.to_thread(slave.close)
    print_difference(spent, ("alone", "with a slave"), "a slave costs")


def _has_records(slave: FireArrowBroker) -> bool:
    return any(file.open("rb").read(SIZE).strip(b"\0") for file in (slave.store / "commitlog").iterdir())


def main() -> None:
    """Run it on the loop that brokers run on."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(compare(rounds))


if __name__ == "__main__":
    main()
