"""``firearrow broker``: run a broker until SIGINT or SIGTERM."""

import asyncio
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from firearrow.broker.broker import Broker
from firearrow.broker.settings.config import BrokerSettings, load_settings
from firearrow.cli.environment import server_environment
from firearrow.cli.level import Level, LogLevel
from firearrow.errors import DiskError, FireArrowError, SettingsError
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.garbage_collector import settle
from firearrow.runtime.loops import run
from firearrow.runtime.machine import Machine, numeric, this_machine
from firearrow.runtime.network import SystemNetwork
from firearrow.settings import Source
from firearrow.telemetry.logs import log_to_stderr


def broker(
    name_servers: Annotated[
        str | None, typer.Option("--name-servers", "-n", help="Name servers as host:port, separated by semicolons.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Settings file: like Apache's broker.conf, or TOML if it ends in .toml."),
    ] = None,
    store: Annotated[Path | None, typer.Option(help="Directory of the store. [~/store]")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; the broker also listens on this port minus 2. [10911]")
    ] = None,
    bind: Annotated[str | None, typer.Option(help="Address to listen on. [every address]")] = None,
    advertise: Annotated[str | None, typer.Option(help="Address that clients connect to. [the machine's own]")] = None,
    drain: Annotated[
        bool,
        typer.Option(
            help="At a stop signal, let producers move to other brokers first; a second signal stops at once."
        ),
    ] = False,
    log_level: LogLevel = Level.INFO,
) -> None:
    """Run a broker: stores messages and delivers them to consumers."""
    log_to_stderr(log_level)
    flags = {
        "namesrv_addr": name_servers,
        "store_path_root_dir": None if store is None else str(store),
        "listen_port": port,
        "bind_address": bind,
        "broker_ip1": advertise,
    }
    directory = store
    try:
        settings = read_settings(config, flags)
        directory = Path(settings.broker.store_path_root_dir or Path.home() / "store").expanduser()
        run(lambda: _serve(settings, this_machine(), directory, drains=drain))
    except* FireArrowError as group:
        for error in leaves(group):
            where = f" (the store is {directory})" if isinstance(error, DiskError) else ""
            typer.echo(f"firearrow broker: {error}{where}", err=True)
        raise typer.Exit(1) from None


def read_settings(file: Path | None, flags: Mapping[str, object]) -> BrokerSettings:
    """Load settings from file, environment and flags; print warnings to standard error."""
    sources = [Source.from_environment(server_environment(os.environ)), Source.from_flags(flags)]
    if file is not None:
        sources.insert(0, Source.from_text(file.name, _text(file)))
    loaded = load_settings(sources)
    for warning in loaded.warnings:
        typer.echo(f"warning: {warning}", err=True)
    ip = loaded.value.broker.broker_ip1
    if not ip:
        return loaded.value
    return replace(loaded.value, broker=replace(loaded.value.broker, broker_ip1=numeric(ip)))


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {file} cannot be read: {error}; check the path after -c") from error


def leaves(group: BaseExceptionGroup[FireArrowError]) -> list[BaseException]:
    """Return the errors inside an exception group, at any depth."""
    found: list[BaseException] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


async def _serve(settings: BrokerSettings, machine: Machine, directory: Path, *, drains: bool) -> None:
    disk = RealDisk(str(directory))
    served = Broker(settings, machine, network=SystemNetwork(), disk=disk, clock=SystemClock(), chance=random.Random())
    serves = False
    try:
        async with served.serving() as identity:
            serves = True
            names = settings.broker.namesrv_addr or "no name server: clients cannot find it, give one with -n"
            where = f"serves on {identity.address}, registers at {names}, keeps its files in {directory}"
            print(f"broker {identity.name} {where}", flush=True)
            settle()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                if drains:
                    print(
                        "broker drains: producers move to other brokers, requests are still answered", file=sys.stderr
                    )
                    await served.drain()
                raise
    finally:
        await disk.close()
        if serves:
            print("broker stopped", file=sys.stderr)
