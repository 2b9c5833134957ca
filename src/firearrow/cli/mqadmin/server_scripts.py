"""``mqnamesrv``, ``mqbroker``, ``mqshutdown`` and ``mqfiltersrv``: Apache's scripts by their names.

They take Apache's options, read Apache's settings files, and print the lines that runbooks look for. ``firearrow
nameserver`` and ``firearrow broker`` are the same servers with more options.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Final, NoReturn

from msgspec import Struct

from firearrow.cli.mqadmin.command_line import WrongOptions, read_options, usage
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption

FAILED: Final = 1
SERVERS: Final = {"broker": "mqbroker", "namesrv": "mqnamesrv"}
"""The servers that ``mqshutdown`` stops, and the scripts that start them."""
ABSENT: Final = {
    "brokerContainer": "there is no broker container; mqshutdown broker stops every mqbroker",
    "controller": "there is no controller; groups fail over on etcd, see firearrow failover",
    "proxy": "there is no proxy here yet; clients of the remoting protocol connect to brokers",
}
IMPORTANT: Final = frozenset(
    {
        "namesrvAddr", "listenPort", "brokerIP1", "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
        "msgTraceTopicName", "traceTopicEnable", "rejectTransactionMessage", "fetchNamesrvAddrByAddressServer",
        "transactionTimeOut", "transactionCheckMax", "transactionCheckInterval", "storePathRootDir",
        "flushIntervalCommitLog", "deleteWhen", "fileReservedTime", "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInMemory", "maxTransferBytesOnMessageInDisk", "maxTransferCountOnMessageInDisk",
        "accessMessageInMemoryMaxRatio", "messageIndexEnable", "haMasterAddress", "brokerRole", "flushDiskType",
        "cleanFileForciblyEnable", "totalReplicas", "inSyncReplicas",
    }
)  # fmt: skip
"""The settings that Apache marks as important and that exist here."""

NAME_SERVER: Final = Verb(
    "mqnamesrv",
    "Run a name server.",
    (
        VerbOption("c", "configFile", "Name server config properties file"),
        VerbOption("p", "printConfigItem", "Print all config items", alone=True),
    ),
)
BROKER: Final = Verb(
    "mqbroker",
    "Run a broker.",
    (
        VerbOption("c", "configFile", "Broker config properties file"),
        VerbOption("p", "printConfigItem", "Print all config item", alone=True),
        VerbOption("m", "printImportantConfig", "Print important config item", alone=True),
    ),
)


def mqnamesrv() -> None:
    """Run a name server until SIGINT or SIGTERM."""
    given = _given(NAME_SERVER)
    _load_commands("mqnamesrv")
    from firearrow.cli.nameserver import read_settings, serve

    def run() -> None:
        settings = read_settings(_file(given), {})
        if given.has("p"):
            _print(_lines(settings))
            return
        bound = settings.nameserver.bind_address
        form = "The Name Server boot success. serializeType=JSON, address {}:{}"
        serve(settings, says=lambda address: form.format(bound or "0.0.0.0", address.port))  # noqa: S104 - shown only

    _ended("mqnamesrv", run)


def mqbroker() -> None:
    """Run a broker until SIGINT or SIGTERM."""
    given = _given(BROKER)
    _load_commands("mqbroker")
    from firearrow.cli.broker import read_settings, serve

    def run() -> None:
        settings = read_settings(_file(given), {"namesrv_addr": given.text("n") or None})
        if given.has("p") or given.has("m"):
            lines = _lines(settings)
            _print(lines if given.has("p") else (line for line in lines if line.partition("=")[0] in IMPORTANT))
            return
        names = settings.broker.namesrv_addr
        told = f" and name server is {names}" if names else ""
        form = "The broker[{}, {}] boot success. serializeType=JSON{}"
        serve(settings, says=lambda identity: form.format(identity.name, identity.address, told))

    _ended("mqbroker", run)


def mqshutdown() -> None:
    """Stop every server of this user that ``mqbroker`` or ``mqnamesrv`` has started, in order."""
    which = sys.argv[1] if len(sys.argv) > 1 else ""
    if which in ABSENT:
        _fail(f"mqshutdown {which}: {ABSENT[which]}")
    if which not in SERVERS:
        _print(["Useage: mqshutdown broker | namesrv"])
        sys.exit(0 if which in ("-h", "--help") else FAILED)
    script = SERVERS[which]
    processes = running(script)
    if not processes:
        _print([f"No {script} running."])
        sys.exit(FAILED)
    shown = " ".join(map(str, processes))
    _print([f"The {script}({shown}) is running..."])
    for process in processes:
        os.kill(process, signal.SIGTERM)
    _print([f"Send shutdown request to {script}({shown}) OK"])


def mqfiltersrv() -> None:
    """Say why there is no filter server."""
    _fail(
        "mqfiltersrv: there is no filter server, which ran uploaded Java classes; filter by tag or by SQL92 in the "
        "broker (set enablePropertyFilter=true), or in the consumer by accept="
    )


def running(script: str, processes: Path = Path("/proc")) -> list[int]:
    """Return the processes of this user that run a script, oldest number first."""
    if not (processes / "self").exists():
        _fail(f"mqshutdown: this system has no {processes}, so processes cannot be found; stop them with kill")
    found = []
    for entry in processes.iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            is_own = entry.stat().st_uid == os.getuid()
        except OSError:
            continue  # it has ended, or is no process
        # A script runs as itself, or as the first argument of its interpreter.
        if entry.name.isdigit() and is_own and script.encode() in [os.path.basename(word) for word in words[:2]]:
            found.append(int(entry.name))
    return sorted(found)


def _given(script: Verb) -> OptionValues:
    try:
        given = read_options(script, sys.argv[1:])
    except WrongOptions as wrong:
        _print([usage(script, script.name)], end="")
        _fail(str(wrong))
    if given.has("h"):
        _print([usage(script, script.name)], end="")
        sys.exit(0)
    return given


def _file(given: OptionValues) -> Path | None:
    return Path(given.text("c")) if given.has("c") else None


def _load_commands(script: str) -> None:
    """Fail in one line if the extra of the servers is not installed."""
    try:
        import typer  # noqa: F401 - the modules of the servers import it
    except ModuleNotFoundError:
        _fail(f"{script} needs typer: pip install 'firearrow[server]'")


def _lines(settings: Struct) -> list[str]:
    from firearrow.settings.schema import leaves

    shown = [leaf for leaf in leaves(type(settings)) if not leaf.name.endswith("password")]
    return sorted(f"{leaf.apache_name}={_text(reduce(getattr, leaf.path, settings))}" for leaf in shown)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print(lines: Iterable[str], end: str = "\n") -> None:
    for line in lines:
        print(line, end=end)
    sys.stdout.flush()


def _fail(told: str) -> NoReturn:
    print(told, file=sys.stderr)
    sys.exit(FAILED)


def _ended(script: str, run: Callable[[], None]) -> None:
    from firearrow.cli.broker import leaves
    from firearrow.errors import FireArrowError
    from firearrow.telemetry.logs import log_to_stderr

    log_to_stderr("INFO")
    failed = False
    try:
        run()
    except* FireArrowError as group:
        for error in leaves(group):
            print(f"{script}: {error}", file=sys.stderr)
        failed = True
    if failed:
        sys.exit(FAILED)
