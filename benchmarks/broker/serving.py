"""A broker in this process, on a real disk and a free port, for as long as a block lasts."""

import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from benchmarks.broker.__main__ import LOOPBACK
from firearrow.broker.broker import Broker
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import SystemNetwork


@asynccontextmanager
async def serving(settings: BrokerSettings) -> AsyncIterator[tuple[Broker, int]]:
    """A broker with these settings, whatever they say of its name and address, and its port."""
    config = BrokerConfig(broker_name="b", listen_port=0, bind_address=LOOPBACK, broker_ip1=LOOPBACK)
    with tempfile.TemporaryDirectory() as directory:
        disk = RealDisk(directory)
        broker = Broker(
            replace(settings, broker=config),
            Machine("bench", LOOPBACK, 8 << 30, "boot"),
            network=SystemNetwork(),
            disk=disk,
            clock=SystemClock(),
            chance=random.Random(),
        )
        async with broker.serving() as identity:
            yield broker, identity.port
        await disk.close()
