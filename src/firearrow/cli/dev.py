"""``firearrow dev``: a name server and a broker in one process, for development."""

import asyncio
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.broker import leaves, read_settings
from firearrow.cli.servers.level import LogLevel, Verbosity, start_logging
from firearrow.errors import FireArrowError

if TYPE_CHECKING:  # servers are imported when they run: help needs none
    from firearrow.broker.settings.config import BrokerSettings
    from firearrow.nameserver.config import NameServerConfig

LOOPBACK = "127.0.0.1"


def dev(
    directory: Annotated[
        Path | None, typer.Option("--directory", "-d", help="Directory of the data, kept at the end. [a temporary one]")
    ] = None,
    name_server_port: Annotated[int, typer.Option(help="Port of the name server; 0 lets the system choose.")] = 9876,
    port: Annotated[int, typer.Option(help="Port of the broker; 0 lets the system choose.")] = 10911,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Settings of the broker, as for firearrow broker.")
    ] = None,
    log_level: LogLevel = Verbosity.WARNING,
) -> None:
    """Run a name server and a broker for development, reachable from this machine only."""
    from msgspec.structs import replace

    from firearrow.embedded.cluster import small
    from firearrow.nameserver.config import NameServerConfig
    from firearrow.runtime.loops import run

    start_logging(log_level)
    flags = {"listen_port": port, "bind_address": LOOPBACK, "broker_ip1": LOOPBACK}
    names = NameServerConfig(listen_port=name_server_port, bind_address=LOOPBACK)
    try:
        settings = small(read_settings(config, flags))
        if not settings.broker.broker_name:
            settings = replace(settings, broker=replace(settings.broker, broker_name="dev"))
        if directory is not None:
            run(lambda: _serve(directory, names, settings))
            return
        with tempfile.TemporaryDirectory(prefix="firearrow-dev-") as thrown_away:
            run(lambda: _serve(Path(thrown_away), names, settings))
    except* FireArrowError as group:
        for error in leaves(group):
            typer.echo(f"firearrow dev: {error}", err=True)
        raise typer.Exit(1) from None


async def _serve(directory: Path, names: "NameServerConfig", settings: "BrokerSettings") -> None:
    from firearrow.embedded.cluster import ServerDoors, cluster
    from firearrow.runtime.clock import SystemClock
    from firearrow.runtime.disk.real_disk import RealDisk
    from firearrow.runtime.garbage_collector import settle
    from firearrow.runtime.machine import this_machine
    from firearrow.runtime.network import SystemNetwork
    from firearrow.runtime.turn import tell_holds

    disks: list[RealDisk] = []

    def disk_of(name: str) -> RealDisk:
        disks.append(RealDisk(str(directory / name)))
        return disks[-1]

    doors = ServerDoors(SystemNetwork(), disk_of, SystemClock(), random.Random())
    serves = False
    try:
        async with cluster(this_machine(), doors, names=names, broker=settings) as running:
            serves = True
            print(f"name server {running.name_server}", flush=True)
            print(f"broker      {running.broker.address}", flush=True)
            print(f"data        {directory}", flush=True)
            settle()
            tell_holds()
            await asyncio.get_running_loop().create_future()
    finally:
        for disk in disks:
            await disk.close()
        if serves:
            print("stopped", file=sys.stderr)
