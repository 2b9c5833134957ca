"""The contestants: a name server and a broker each, started as in earnest, held still while others have their turn.

Apache's broker gets the flags of its own start script (runbroker.sh), full compilation and G1 with its settings; only
the heap is lowered to fit. Ours is started as users start it. Both keep their files on the same disk, and both have
their own defaults but for the flush mode and the disk usage at which they refuse messages. A replicated pair is a name
server, a master and a slave; the CPU of both brokers counts.

A `Standing` says where a started pair is, so that another process can measure it: warming up takes minutes, a row
seconds, and a quiet machine is dear.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.versus.clients import Client
from firearrow.cli.servers.workers import PORTS_APART
from firearrow.testing.ports import free_broker_port
from judges import ApacheBroker, ApacheNameServer, FireArrowBroker, FireArrowNameServer, Server
from judges.process import Child
from judges.server_process import answers, wait_for
from judges.servers import _QUICK_BROKER
from judges.wire import (
    GET_BROKER_SETTINGS,
    GET_CLUSTER,
    GET_MAX_OFFSET,
    GET_ROUTE,
    QUERY_CONSUMER_OFFSET,
    UPDATE_TOPIC,
    ask,
)

OURS = "FireArrow"
WORKER_COUNT = 2
WORKERS = f"FireArrow, {WORKER_COUNT} workers"
"""``firearrow broker --workers 2``."""
BEFORE = "before"
"""Our broker as an older checkout of this repository has it."""
FLOOR = "floor"
APACHE = "Apache "
TOPIC = "arena"
QUEUES = 8
ASYNC, SYNC = "ASYNC_FLUSH", "SYNC_FLUSH"
REPLICATED = "SYNC_MASTER"
"""A master that acknowledges what its one slave has too."""
MODES = {
    ASYNC: {"flushDiskType": ASYNC},
    SYNC: {"flushDiskType": SYNC},
    REPLICATED: {"flushDiskType": ASYNC, "brokerRole": REPLICATED, "inSyncReplicas": "2"},
}
SLAVE = {"flushDiskType": ASYNC, "brokerRole": "SLAVE"}
RUNBROKER_FLAGS = (
    "-server",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+AlwaysPreTouch",
    "-XX:-UseLargePages",
    "-XX:-UseBiasedLocking",
    "-XX:+IgnoreUnrecognizedVMOptions",
)
GET_HA_STATUS = 907
WARM_UP = (("Producer", ("-w", "64", "-s", "128"), 0.5), ("BatchProducer", ("-w", "4", "-s", "128", "-b", "32"), 0.2))
WARM_CONSUMING = 0.3
"""The part of the warm-up in which a backlog is read."""


class Standing(msgspec.Struct, frozen=True):
    """A pair of servers that runs."""

    name: str
    flush: str
    name_server: str
    broker: str
    """The first of them; `brokers` has all masters."""
    pids: tuple[int, ...]
    """The broker's first, the name server's last, those of a slave, other workers and their supervisor between."""
    workers: tuple[str, ...] = ()
    """Addresses of the workers besides the first."""

    def signal(self, number: signal.Signals) -> None:
        """Signal every process of the pair."""
        for pid in self.pids:
            os.killpg(pid, number)

    def pause(self) -> None:
        """Hold it still: not a bit of CPU while another has its turn."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, and wait until clients would find the topic."""
        self.signal(signal.SIGCONT)
        wait_for(self._answers, f"{self.name} at {self.broker}", 30.0)
        wait_for(self._routes, f"a route of {TOPIC} to {self.broker}", 45.0)

    def _answers(self) -> bool:
        return self.name == FLOOR or answers(self.broker, GET_BROKER_SETTINGS) is not None

    def _routes(self) -> bool:
        route = answers(self.name_server, GET_ROUTE, {"topic": TOPIC})
        return route is not None and self.broker.encode() in route

    # ---- figures

    @property
    def brokers(self) -> tuple[str, ...]:
        """Every master."""
        return (self.broker, *self.workers)

    def ends(self, topic: str = TOPIC) -> int:
        """Return the number of messages that the queues of a topic have been given."""
        asked = [{"topic": topic, "queueId": str(queue)} for queue in range(QUEUES)]
        return sum(int(ask(at, GET_MAX_OFFSET, one).fields["offset"]) for at in self.brokers for one in asked)

    def committed(self, group: str, topic: str) -> int:
        """The number of messages that a group has committed."""
        total = 0
        for at in self.brokers:
            for queue in range(QUEUES):
                fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue)}
                answer = ask(at, QUERY_CONSUMER_OFFSET, fields)
                total += int(answer.fields["offset"]) if answer.code == 0 else 0
        return total

    def cpu_s(self) -> float:
        """CPU seconds of the broker, of its slave and of the processes they have started."""
        brokers = self.pids[:-1] or self.pids
        return sum(group_cpu_s(pid) for pid in brokers)

    def memory_mib(self, what: str) -> float:
        """A line of /proc/PID/status, VmRSS or RssAnon, of the broker and its other workers."""
        return sum(memory_mib(pid, what) for pid in self.pids[: len(self.brokers)])


def memory_mib(pid: int, what: str) -> float:
    """A line of a process's /proc/PID/status in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) / 1024
    raise KeyError(what)


def group_cpu_s(group: int) -> float:
    """CPU seconds of every process of a group, ended threads included."""
    total = 0
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group:
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


class FireArrowInEarnest(FireArrowBroker):
    """Our broker with its own defaults: without the small files that tests like."""

    def __init__(
        self,
        *,
        name_servers: list[str],
        settings: dict[str, str],
        broker_id: int = 0,
        arguments: Sequence[str] = (),
    ) -> None:
        super().__init__(name_servers=name_servers, settings=settings, broker_id=broker_id, arguments=arguments)
        for key in _QUICK_BROKER:
            self.settings.pop(key, None)

    @property
    def ports(self) -> list[int]:
        """Return the ports on which its processes listen."""
        return [self.port]

    @property
    def pids(self) -> list[int]:
        """The groups of its processes."""
        return [self.pid]


class WorkersInEarnest(FireArrowInEarnest):
    """``firearrow broker --workers N``, with the defaults otherwise."""

    def __init__(self, *, name_servers: list[str], settings: dict[str, str], count: int) -> None:
        super().__init__(name_servers=name_servers, settings=settings, arguments=["--workers", str(count)])
        self._count = count
        # The supervisor gives every worker a store and ports of its own.
        self.settings["storePathRootDir"] = str(self.store)

    @property
    def ports(self) -> list[int]:
        """Return the ports on which the workers listen."""
        return [self.port + PORTS_APART * number for number in range(self._count)]

    @property
    def pids(self) -> list[int]:
        """The workers, each in a group of its own, and their supervisor."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [*map(int, children), self.pid]

    def _ready(self) -> bool:
        cluster = answers(self.name_servers[0], GET_CLUSTER)
        return cluster is not None and all(f"127.0.0.1:{port}".encode() in cluster for port in self.ports)

    def create_topic(self, topic: str, queues: int = 4, *, order: bool = False) -> str:
        """Make a topic on every worker."""
        for port in self.ports:
            make_topic(f"127.0.0.1:{port}", topic, queues, order=order)
        wait_for(lambda: self._is_routed(topic), f"a route of {topic} to all workers", 40.0)
        return topic

    def _is_routed(self, topic: str) -> bool:
        route = answers(self.name_servers[0], GET_ROUTE, {"topic": topic})
        return route is not None and all(f"127.0.0.1:{port}".encode() in route for port in self.ports)

    def close(self) -> None:
        """End the workers in order, which a killed supervisor would not see and a held worker would not do."""
        if self.running:
            for pid in self.pids:
                os.killpg(pid, signal.SIGCONT)
            self.stop()
        super().close()


def make_topic(broker: str, topic: str, queues: int, *, order: bool = False) -> None:
    """Ask one broker for a topic."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": str(order).lower(),
    }
    answer = ask(broker, UPDATE_TOPIC, fields)
    if answer.code != 0:
        raise RuntimeError(f"{broker} refused topic {topic}: code {answer.code}, {answer.remark}")


class Floor(Server):
    """The least that could take sends: `floor`."""

    def __init__(self) -> None:
        super().__init__("floor", free_broker_port())

    def _launch(self) -> Child:
        return Child([sys.executable, "-m", "benchmarks.versus.floor", str(self.port), str(self.home)], self.log)

    def _ready(self) -> bool:
        return answers(self.address, GET_ROUTE, {"topic": TOPIC}) is not None


class Contestant:
    """A pair of servers of this process; leaving the block ends it."""

    def __init__(self, name: str, flush: str, checkout: str | None = None) -> None:
        self.name = name
        self.flush = flush
        self._checkout = checkout
        self._servers: list[Server] = []

    def __enter__(self) -> Standing:
        try:
            with _source_of(self._checkout):
                return self._start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        for server in reversed(self._servers):
            server.close()

    def _started(self, server: Server) -> Server:
        self._servers.append(server)
        return server.start()

    def _start(self) -> Standing:
        if self.name == FLOOR:
            floor = self._started(Floor())
            return Standing(FLOOR, self.flush, floor.address, floor.address, (floor.pid,))
        names = self._started(self._name_server())
        if self.name == WORKERS:
            return self._start_workers(names)
        master = self._broker(names.address, MODES[self.flush], 0)
        self._started(master)
        master.create_topic(TOPIC, QUEUES)
        pids = [master.pid]
        if self.flush == REPLICATED:
            slave = self._started(self._broker(names.address, SLAVE, 1))
            wait_for(lambda: slaves_of(master.address) > 0, f"a slave of {master.address}", 60.0)
            pids.append(slave.pid)
        return Standing(self.name, self.flush, names.address, master.address, (*pids, names.pid))

    def _start_workers(self, names: Server) -> Standing:
        broker = WorkersInEarnest(name_servers=[names.address], settings=MODES[self.flush], count=WORKER_COUNT)
        self._started(broker)
        broker.create_topic(TOPIC, QUEUES)
        first, *others = (f"127.0.0.1:{port}" for port in broker.ports)
        return Standing(self.name, self.flush, names.address, first, (*broker.pids, names.pid), tuple(others))

    def _name_server(self) -> Server:
        if self.name in (OURS, BEFORE, WORKERS):
            return FireArrowNameServer(arguments=["--log-level", "ERROR"])
        return ApacheNameServer(self.name.removeprefix(APACHE), measured=True)

    def _broker(self, name_server: str, settings: dict[str, str], number: int) -> ApacheBroker:
        if self.name in (OURS, BEFORE):
            return FireArrowInEarnest(name_servers=[name_server], settings=settings, broker_id=number)
        return ApacheBroker(
            self.name.removeprefix(APACHE),
            name_servers=[name_server],
            settings=settings,
            broker_id=number,
            measured=True,
            flags=RUNBROKER_FLAGS,
        )


def slaves_of(master: str) -> int:
    """Return the number of slaves that have the whole log of a master, as the master reports it."""
    connections = json.loads(ask(master, GET_HA_STATUS).body)["haConnectionInfo"]
    return sum(bool(connection["inSync"]) for connection in connections)


@contextmanager
def _source_of(checkout: str | None) -> Iterator[None]:
    """Have servers that are started within the block run the code of a checkout."""
    here = os.environ.get("PYTHONPATH")
    if checkout is not None:
        os.environ["PYTHONPATH"] = f"{checkout}/src"
    try:
        yield
    finally:
        if here is not None:
            os.environ["PYTHONPATH"] = here
        else:
            os.environ.pop("PYTHONPATH", None)


def warm_up(standing: Standing, seconds: float) -> None:
    """Let the compilers see every path that the rows use."""
    if standing.name == FLOOR:
        return
    for program, arguments, part in WARM_UP:
        with Client(program, ("-n", standing.name_server, "-t", TOPIC, *arguments)) as client:
            _last(client, seconds * part)
    group = f"warm-{int(time.monotonic())}"
    with Client("Consumer", ("-n", standing.name_server, "-t", TOPIC, "-g", group)) as client:
        _last(client, seconds * WARM_CONSUMING)


def _last(client: Client, seconds: float) -> None:
    time.sleep(seconds)
    client.check()
