"""Apache's name server and broker, and our own with the same verbs.

    with ApacheNameServer() as names, ApacheBroker(name_servers=[names.address]) as broker:
        broker.create_topic("orders", queues=4)

Quick settings (the default) keep files small, delay levels short and the JVM's start cheap. `measured=True`
leaves Apache's own defaults in place and lets the JVM compile in full: use it, and nothing else, for figures.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from firearrow.testing.ports import free_broker_port, free_port
from judges.install.java import JavaProgram
from judges.process import Child
from judges.server_process import OwnServer, Server, answers, wait_for
from judges.wire import (
    GET_BROKER_SETTINGS,
    GET_CLUSTER,
    GET_ROUTE,
    SUCCESS,
    UPDATE_BROKER_SETTINGS,
    UPDATE_TOPIC,
    ask,
)

DEFAULT_VERSION = "5.5.0"
CLUSTER = "DefaultCluster"
READ_AND_WRITE = 6
TOPIC_SECONDS = 60
"""The longest time that a broker of a busy machine may take to make a topic."""
NUDGE_SECONDS = 0.5

# Retries start at level 3: from there on every level is a second.
FAST_DELAY_LEVELS = "1s 2s" + " 1s" * 16

MEASURED_NAME_SERVER_HEAP = ("-Xms1g", "-Xmx1g")
MEASURED_BROKER_HEAP = ("-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=4g")

# A disk that is rather full must not make a test broker refuse messages.
_FULL_DISK_ALLOWED = (
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.98",
)

_COMMAND = "import sys; from firearrow.cli import main; sys.exit(main())"

_LOGBACK = """<configuration>
  <statusListener class="ch.qos.logback.core.status.NopStatusListener"/>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file><encoder><pattern>%d %p %c - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""

_QUICK_BROKER = {
    "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
    "messageDelayLevel": FAST_DELAY_LEVELS,
    # 5.5.0 writes transaction results in batches of 3 s: a shorter timeout checks what is decided already.
    "transactionTimeOut": "6000",
    "transactionCheckInterval": "5000",
    # 5.5.0 spins through the first of these intervals.
    "transactionMetricFlushInterval": "200",
}

# A broker that shares two cores with its clients must not shed load: stock clients do not send again what is refused.
_NO_LOAD_SHEDDING = {"brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": "60000"}


def name_server_program(version: str) -> JavaProgram:
    """The command of Apache's name server."""
    main = "org.apache.rocketmq.namesrv.NamesrvStartup"
    return JavaProgram(version, "namesrv", main, ("-Xms32m", "-Xmx256m"))


def broker_program(version: str) -> JavaProgram:
    """The command of Apache's broker."""
    main = "org.apache.rocketmq.broker.BrokerStartup"
    heap = ("-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", *_FULL_DISK_ALLOWED)
    return JavaProgram(version, "broker", main, heap)


def controller_program(version: str) -> JavaProgram:
    """The command of Apache's controller of 5.x as a process of its own."""
    main = "org.apache.rocketmq.controller.ControllerStartup"
    return JavaProgram(version, "controller", main, ("-Xms32m", "-Xmx256m"))


def write_settings(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a file of properties; return its path."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def _write_logging(home: Path, role: str) -> None:
    (home / "conf").mkdir(exist_ok=True)
    (home / "conf" / f"logback_{role}.xml").write_text(_LOGBACK.format(log=home / f"{role}.log"))


class ApacheNameServer(Server):
    """Apache's name server."""

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        measured: bool = False,
        flags: Sequence[str] = (),
    ) -> None:
        super().__init__("namesrv", port or free_port())
        self.version = version
        self.settings = {"listenPort": str(self.port), **(settings or {})}
        self.measured = measured
        self.flags = tuple(flags)

    def _launch(self) -> Child:
        _write_logging(self.home, "namesrv")
        file = write_settings(self.home / "namesrv.conf", self.settings)
        heap = MEASURED_NAME_SERVER_HEAP if self.measured else None
        words = name_server_program(self.version).command(self.home, ["-c", str(file)], self.flags, heap)
        return Child(words, self.log, {"ROCKETMQ_HOME": str(self.home)})

    def _ready(self) -> bool:
        return answers(self.address, GET_CLUSTER) is not None


class FireArrowNameServer(OwnServer):
    """Our name server, started as its users start it."""

    def __init__(
        self, *, port: int | None = None, settings: Mapping[str, str] | None = None, arguments: Sequence[str] = ()
    ) -> None:
        super().__init__("nameserver", port or free_port())
        self.settings = dict(settings or {})
        self.arguments = tuple(arguments)

    def _launch(self) -> Child:
        words = [sys.executable, "-c", _COMMAND, "nameserver", "--port", str(self.port), "--directory", str(self.home)]
        if self.settings:
            words += ["-c", str(write_settings(self.home / "namesrv.conf", self.settings))]
        return Child([*words, *self.arguments], self.log)

    def _ready(self) -> bool:
        return answers(self.address, GET_CLUSTER) is not None


class ApacheBroker(Server):
    """Apache's broker; ready when it answers and every name server it was given lists it."""

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        *,
        name_servers: Sequence[str],
        name: str = "broker-a",
        broker_id: int = 0,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        measured: bool = False,
        flags: Sequence[str] = (),
    ) -> None:
        super().__init__("broker", port or free_broker_port())
        self.version = version
        self.name = name
        self.name_servers = tuple(name_servers)
        self.measured = measured
        self.flags = tuple(flags)
        self.store = self.home / "store"
        self._nudge_at = 0.0
        self.settings = {
            "brokerClusterName": CLUSTER,
            "brokerName": name,
            "brokerId": str(broker_id),
            "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
            "namesrvAddr": ";".join(self.name_servers),
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": str(self.port),
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            "autoCreateTopicEnable": "true",
            "autoCreateSubscriptionGroup": "true",
            "enablePropertyFilter": "true",
            "diskMaxUsedSpaceRatio": "95",
            **({} if measured else _QUICK_BROKER | _NO_LOAD_SHEDDING),
            **(settings or {}),
        }

    def _launch(self) -> Child:
        self._nudge_at = 0.0
        _write_logging(self.home, "broker")
        file = write_settings(self.home / "broker.conf", self.settings)
        heap = (*MEASURED_BROKER_HEAP, *_FULL_DISK_ALLOWED) if self.measured else None
        words = broker_program(self.version).command(self.home, ["-c", str(file)], self.flags, heap)
        return Child(words, self.log, {"ROCKETMQ_HOME": str(self.home)})

    def _ready(self) -> bool:
        # Not its runtime figures, which cost a broker of 5.5.0 half a second of CPU each time.
        if answers(self.address, GET_BROKER_SETTINGS) is None:
            return False
        if all(map(self._listed_by, self.name_servers)):
            return True
        if self.version.startswith("5.") and time.monotonic() > self._nudge_at:
            self._nudge_at = time.monotonic() + NUDGE_SECONDS
            self._register_now()
        return False

    def _register_now(self) -> None:
        """Let the broker register, which it does when its permission is set anew.

        A broker of 5.x registers as it starts, with the name servers it is connected to by then; when that is none,
        because it started too fast, it tries again after 10 s.
        """
        permission = self.settings.get("brokerPermission", str(READ_AND_WRITE))
        with suppress(OSError):
            ask(self.address, UPDATE_BROKER_SETTINGS, body=f"brokerPermission={permission}".encode())

    def _listed_by(self, name_server: str) -> bool:
        cluster = answers(name_server, GET_CLUSTER)
        return cluster is not None and self.address.encode() in cluster

    def create_topic(self, topic: str, queues: int = 4, *, order: bool = False) -> str:
        """Make a topic and wait until every name server routes it here; returns its name."""
        make_topic(self.address, topic, queues, order=order)
        wait_for(lambda: all(self._routed_by(names, topic) for names in self.name_servers), f"a route of {topic}")
        return topic

    def _routed_by(self, name_server: str, topic: str) -> bool:
        route = answers(name_server, GET_ROUTE, {"topic": topic})
        return route is not None and f'"{self.name}"'.encode() in route


def make_topic(address: str, topic: str, queues: int, *, order: bool = False) -> None:
    """Make a topic on the broker at an address."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": str(READ_AND_WRITE),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": str(order).lower(),
    }
    answer = ask(address, UPDATE_TOPIC, fields, timeout_seconds=TOPIC_SECONDS)
    if answer.code != SUCCESS:
        raise RuntimeError(f"{address} refused topic {topic}: code {answer.code}, {answer.remark}")


class FireArrowBroker(OwnServer, ApacheBroker):
    """Our broker, started as its users start it, with the settings of Apache's that it knows.

    ``program`` is what Python runs instead of the command, for brokers with a planted defect.
    """

    def __init__(
        self,
        *,
        name_servers: Sequence[str],
        name: str = "broker-a",
        broker_id: int = 0,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        program: str = _COMMAND,
    ) -> None:
        super().__init__(name_servers=name_servers, name=name, broker_id=broker_id, port=port)
        self.arguments = tuple(arguments)
        self.program = program
        not_offered = ("storePathCommitLog",)
        without_effect = ("transactionMetricFlushInterval",)
        for key in (*not_offered, *without_effect, *_NO_LOAD_SHEDDING):
            del self.settings[key]
        self.settings.update(settings or {})

    def _launch(self) -> Child:
        file = write_settings(self.home / "broker.conf", self.settings)
        words = [sys.executable, "-c", self.program, "broker", "-c", str(file), *self.arguments]
        return Child(words, self.log)
