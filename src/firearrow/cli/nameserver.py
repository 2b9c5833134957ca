"""``firearrow nameserver``: run a name server until SIGINT or SIGTERM."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct, field
from msgspec.structs import replace

from firearrow.access.settings import AccessConfig, check_access
from firearrow.cli.broker import leaves
from firearrow.cli.environment import server_environment
from firearrow.cli.servers.level import LogFile, LogForm, LogLevel, Verbosity, start_logging, tell
from firearrow.cli.servers.operation import MetricsPort, metrics_flags, metrics_line
from firearrow.errors import FireArrowError, SettingsError
from firearrow.nameserver.config import WITHOUT_EFFECT, NameServerConfig
from firearrow.remoting.limits import Limits
from firearrow.remoting.operation_port import OperationConfig
from firearrow.runtime.garbage_collector import settle
from firearrow.runtime.loops import run
from firearrow.runtime.network import Address
from firearrow.runtime.systemd import notify
from firearrow.runtime.tls_settings import ClientTls, ServerTls
from firearrow.runtime.turn import tell_holds
from firearrow.settings import Source, load
from firearrow.telemetry.logs import LineForm

Says = Callable[[Address], str]


class NameServerSettings(Struct, frozen=True):
    """All settings that a name server's settings file may contain."""

    nameserver: NameServerConfig = field(default_factory=NameServerConfig)
    operation: OperationConfig = field(default_factory=OperationConfig)
    access: AccessConfig = field(default_factory=AccessConfig)
    limits: Limits = field(default_factory=Limits)
    tls: ServerTls = field(default_factory=ServerTls)
    client_tls: ClientTls = field(default_factory=ClientTls)


def nameserver(
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 lets the system choose. [9876]")] = None,
    bind: Annotated[str | None, typer.Option(help="Address to listen on. [every address]")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Settings file: Java properties, or TOML if it ends in .toml.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Directory of kvConfig.json and changed settings. [~/namesrv]")
    ] = None,
    metrics_port: MetricsPort = None,
    log_level: LogLevel = Verbosity.INFO,
    log_format: LogForm = LineForm.TEXT,
    log_file: LogFile = None,
) -> None:
    """Run a name server: tells clients which broker holds which topic."""
    try:
        start_logging(log_level, log_format, log_file)
        settings = read_settings(config, {"listen_port": port, "bind_address": bind, **metrics_flags(metrics_port)})
        serve(settings, directory)
    except* FireArrowError as group:
        for error in leaves(group):
            tell(f"firearrow nameserver: {error}", Verbosity.ERROR)
        raise typer.Exit(1) from None


def serve(settings: NameServerSettings, directory: Path | None = None, *, says: Says | None = None) -> None:
    """Run a name server in this process until SIGINT or SIGTERM. ``says`` makes the line that tells that it serves."""
    run(lambda: _serve(settings, directory or Path.home() / "namesrv", says))


def read_settings(file: Path | None, flags: dict[str, object]) -> NameServerSettings:
    """Load settings from file, environment and flags; print warnings to standard error."""
    sources = [Source.from_environment(server_environment(os.environ)), Source.from_flags(flags)]
    if file is not None:
        sources.insert(0, Source.from_text(file.name, _text(file)))
    loaded = load(NameServerSettings, sources, ignored=WITHOUT_EFFECT)
    for warning in loaded.warnings:
        tell(f"warning: {warning}", Verbosity.WARNING)
    check_access(loaded.value.access)
    idle_s = loaded.value.nameserver.server_channel_max_idle_time_seconds
    return replace(loaded.value, limits=replace(loaded.value.limits, idle_s=idle_s))


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {file} cannot be read: {error}; check the path after -c") from error


async def _serve(settings: NameServerSettings, directory: Path, says: Says | None) -> None:
    from firearrow.nameserver.server import NameServer  # imported when a server runs: help needs none
    from firearrow.runtime.clock import SystemClock
    from firearrow.runtime.disk.real_disk import RealDisk
    from firearrow.runtime.network import SystemNetwork

    disk = RealDisk(str(directory))
    server = NameServer(
        settings.nameserver,
        network=SystemNetwork(),
        disk=disk,
        limits=settings.limits,
        tls=settings.tls,
        client_tls=settings.client_tls,
        operation=settings.operation,
        access=settings.access,
        clock=SystemClock(),
    )
    serves = False
    try:
        async with server.serving() as address:
            serves = True
            where = f"name server listens on {address}, keeps its files in {directory}"
            print(says(address) if says else f"{where}{metrics_line(server.operation_address)}", flush=True)
            settle()
            tell_holds()
            notify("READY=1")
            await asyncio.get_running_loop().create_future()
    finally:
        notify("STOPPING=1")
        await disk.close()
        if serves:
            tell("name server stopped")
