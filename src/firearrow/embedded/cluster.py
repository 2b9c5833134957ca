"""A name server and one broker in one process and on one loop; clients see no difference from two processes.

The two talk over the network. They use little memory: index files of a few megabytes, short queue files.
"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from msgspec.structs import replace

from firearrow.broker.broker import Broker
from firearrow.broker.identity import Identity
from firearrow.broker.settings.config import BrokerSettings
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.server import NameServer
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import Address, Network

NAME_SERVER_DIRECTORY: Final = "namesrv"
STORE_DIRECTORY: Final = "store"


class ServerDoors(NamedTuple):
    """The doors of the servers; ``disk`` returns the disk of a directory."""

    network: Network
    disk: Callable[[str], Disk]
    clock: Clock
    chance: random.Random


class ServerAddresses(NamedTuple):
    """The addresses of the running servers."""

    name_server: Address
    broker: Identity


def small(settings: BrokerSettings) -> BrokerSettings:
    """Return settings for development: small files, little memory."""
    return replace(
        settings,
        log=replace(settings.log, mapped_file_size_commit_log=settings.log.mapped_file_size_commit_log or 64 << 20),
        queues=replace(
            settings.queues,
            mapped_file_size_consume_queue=settings.queues.mapped_file_size_consume_queue or 600_000,
            max_pending_queue_bytes=min(settings.queues.max_pending_queue_bytes, 4 << 20),
        ),
        index=replace(settings.index, max_hash_slot_num=50_000, max_index_num=200_000),
    )


@asynccontextmanager
async def cluster(
    machine: Machine, doors: ServerDoors, *, names: NameServerConfig, broker: BrokerSettings
) -> AsyncIterator[ServerAddresses]:
    """Serve within the block. The broker registers at the name server beside it."""
    name_server = NameServer(names, network=doors.network, disk=doors.disk(NAME_SERVER_DIRECTORY))
    async with name_server.serving() as address:
        reachable = Address("127.0.0.1" if address.host == "0.0.0.0" else address.host, address.port)  # noqa: S104
        settings = replace(broker, broker=replace(broker.broker, namesrv_addr=str(reachable)))
        served = Broker(
            settings,
            machine,
            network=doors.network,
            disk=doors.disk(STORE_DIRECTORY),
            clock=doors.clock,
            chance=doors.chance,
        )
        async with served.serving() as identity:
            yield ServerAddresses(reachable, identity)
