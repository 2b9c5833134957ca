"""``firearrow broker``: run a broker until SIGINT or SIGTERM."""

import asyncio
import logging
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.servers.level import LogFile, LogForm, LogLevel, Verbosity, start_logging, tell
from firearrow.cli.servers.operation import MetricsPort, metrics_flags, metrics_line
from firearrow.errors import DiskError, FireArrowError, SettingsError
from firearrow.telemetry.logs import LineForm

if TYPE_CHECKING:  # a server is imported when it runs: help needs none
    from firearrow.broker.broker import Broker
    from firearrow.broker.group_broker import GroupBroker
    from firearrow.broker.identity import Identity
    from firearrow.broker.settings.config import BrokerSettings
    from firearrow.runtime.disk.real_disk import RealDisk
    from firearrow.runtime.machine import Machine

Says = Callable[["Identity"], str]
log = logging.getLogger(__name__)


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
            help="At a stop signal, let producers move to other brokers first; a second signal ends that wait."
        ),
    ] = False,
    metrics_port: MetricsPort = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Run so many brokers on this host, each with a store and a port of its own.")
    ] = 1,
    log_level: LogLevel = Verbosity.INFO,
    log_format: LogForm = LineForm.TEXT,
    log_file: LogFile = None,
) -> None:
    """Run a broker: stores messages and delivers them to consumers."""
    flags = {
        "namesrv_addr": name_servers,
        "store_path_root_dir": None if store is None else str(store),
        "listen_port": port,
        "bind_address": bind,
        "broker_ip1": advertise,
        **metrics_flags(metrics_port),
    }
    directory = store
    try:
        start_logging(log_level, log_format, None if workers > 1 else log_file)
        settings = read_settings(config, flags)
        directory = store_directory(settings)
        if workers > 1:
            given = {"-n": name_servers, "-c": config, "--bind": bind, "--advertise": advertise}
            given |= {"--log-level": log_level.value, "--log-format": log_format.value}
            shared = _shared_arguments(given, drain=drain)
            _supervise(settings, directory, shared, workers, metrics_port, log_file, drains=drain)
            return
        serve(settings, drains=drain)
    except* FireArrowError as group:
        for error in leaves(group):
            where = f" (the store is {directory})" if isinstance(error, DiskError) else ""
            tell(f"firearrow broker: {error}{where}", Verbosity.ERROR)
        raise typer.Exit(1) from None


def store_directory(settings: "BrokerSettings") -> Path:
    """Return the directory of the store."""
    return Path(settings.broker.store_path_root_dir or Path.home() / "store").expanduser()


def serve(settings: "BrokerSettings", *, drains: bool = False, says: Says | None = None) -> None:
    """Run a broker in this process until SIGINT or SIGTERM. ``says`` makes the line that tells that it serves."""
    from firearrow.runtime.loops import run
    from firearrow.runtime.machine import this_machine

    run(lambda: _serve(settings, this_machine(), store_directory(settings), drains=drains, says=says), waits=drains)


def _shared_arguments(given: Mapping[str, object], *, drain: bool) -> tuple[str, ...]:
    """Return the arguments that every worker gets as they were given."""
    words = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    return (*words, "--drain") if drain else tuple(words)


def _supervise(
    settings: "BrokerSettings",
    directory: Path,
    shared: tuple[str, ...],
    count: int,
    metrics_port: int | None,
    log_file: Path | None,
    *,
    drains: bool,
) -> None:
    """Run many brokers, each in a process of its own."""
    from firearrow.cli.servers.workers import Supervisor, Workers
    from firearrow.remoting.operation_port import MetricsExporter
    from firearrow.runtime.machine import this_machine

    broker = settings.broker
    if not broker.listen_port:
        raise SettingsError("--workers needs a port: worker K listens on it plus 10 times K; give --port")
    if broker.store_path_consume_queue:
        raise SettingsError(
            "--workers and storePathConsumeQueue exclude each other: every worker has queues of its own"
        )
    name = broker.broker_name or this_machine().name
    log = None if log_file is None else str(log_file)
    if metrics_port is None and settings.operation.metrics_exporter_type is MetricsExporter.PROM:
        metrics_port = settings.operation.metrics_prom_exporter_port
    workers = Workers(count, name, str(directory), broker.listen_port, metrics_port, shared, log)
    drain_s = broker.drain_wait_seconds if drains else 0
    asyncio.run(Supervisor(workers.plan(), drain_s).run())


def read_settings(file: Path | None, flags: Mapping[str, object]) -> "BrokerSettings":
    """Load settings from file, environment and flags; print warnings to standard error."""
    from msgspec.structs import replace

    from firearrow.broker.settings.config import load_settings
    from firearrow.cli.environment import server_environment
    from firearrow.runtime.machine import numeric
    from firearrow.settings import Source

    sources = [Source.from_environment(server_environment(os.environ)), Source.from_flags(flags)]
    if file is not None:
        sources.insert(0, Source.from_text(file.name, _text(file)))
    loaded = load_settings(sources)
    for warning in loaded.warnings:
        tell(f"warning: {warning}", Verbosity.WARNING)
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


def _made(settings: "BrokerSettings", machine: "Machine", disk: "RealDisk") -> "Broker | GroupBroker":
    from firearrow.broker.broker import Broker
    from firearrow.broker.group_broker import GroupBroker
    from firearrow.runtime.clock import SystemClock
    from firearrow.runtime.coordinator.etcd import Etcd, endpoints_of
    from firearrow.runtime.network import SystemNetwork

    network, clock, chance = SystemNetwork(), SystemClock(), random.Random()
    failover, broker = settings.failover, settings.broker
    if not failover.coordinator_address:
        return Broker(settings, machine, network=network, disk=disk, clock=clock, chance=chance)
    coordinator = Etcd(
        endpoints_of(failover.coordinator_address),
        broker.broker_cluster_name,
        broker.broker_name or machine.name,
        lease_s=failover.coordinator_lease_seconds,
        tls=failover.tls,
    )
    return GroupBroker(settings, machine, coordinator, network=network, disk=disk, clock=clock, chance=chance)


def _tell_advice() -> None:
    """Log what this host should have set otherwise, in one line."""
    from firearrow.runtime.host import advice, this_host

    found = {each.name: each.what for each in advice(this_host())}
    if found:
        log.warning("this host is not set up for a broker; firearrow doctor --host says what to do", extra=found)


async def _serve(
    settings: "BrokerSettings", machine: "Machine", directory: Path, *, drains: bool, says: Says | None
) -> None:
    from firearrow.runtime.disk.linked_directory import link_directory
    from firearrow.runtime.disk.real_disk import RealDisk
    from firearrow.runtime.garbage_collector import settle
    from firearrow.runtime.systemd import notify
    from firearrow.runtime.turn import tell_holds
    from firearrow.store.paths import CONSUME_QUEUE

    queues = settings.broker.store_path_consume_queue
    if queues:
        link_directory(str(directory), CONSUME_QUEUE, queues, "storePathConsumeQueue")
    disk = RealDisk(str(directory))
    served = _made(settings, machine, disk)
    serves = False
    try:
        async with served.serving() as identity:
            serves = True
            names = settings.broker.namesrv_addr or "no name server: clients cannot find it, give one with -n"
            where = f"serves on {identity.address}, registers at {names}, keeps its files in {directory}"
            shown = metrics_line(None if served.metrics is None else served.metrics.address)
            print(says(identity) if says else f"broker {identity.name} {where}{shown}", flush=True)
            _tell_advice()
            settle()
            tell_holds()
            notify("READY=1")
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                notify("STOPPING=1")
                if drains:
                    tell("broker drains: producers move to other brokers, requests are still answered")
                    await served.drain()
                raise
    finally:
        await disk.close()
        if serves:
            tell("broker stopped")
