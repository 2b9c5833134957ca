"""Clusters of two name servers and two or more masters, ours or mixed with Apache's, and the servers that make them up.

| kind | name servers | first master | second master |
|---|---|---|---|
| ``ours`` | ours | ours | ours |
| ``beside`` | ours | ours | Apache's 5.5.0 |
| ``at-5.5.0`` | Apache's 5.5.0 | ours | ours |
| ``at-4.9.7`` | Apache's 4.9.7 | ours | ours |

The first master is the one that things happen to.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Final, Literal, Self

from judges import (
    ApacheBroker,
    ApacheNameServer,
    FireArrowBroker,
    FireArrowNameServer,
    Judge,
    JudgeProcess,
    Mqadmin,
    Server,
    fresh,
)
from judges.server_process import answers, wait_for
from judges.wire import GET_ROUTE
from tests.interop.client.matrix import our_process

Make = Callable[..., ApacheBroker]
Kind = Literal["ours", "beside", "at-5.5.0", "at-4.9.7"]
KINDS: tuple[Kind, ...] = ("ours", "beside", "at-5.5.0", "at-4.9.7")
CLIENTS = ("java-5.5.0", "go")
OUR_CLIENT = "firearrow"
MASTERS = ("broker-a", "broker-b")
REGISTRATION_MS = 10_000
"""The interval of a broker's registrations; Apache's brokers take no less."""
SETTINGS: Final = {
    "registerNameServerPeriod": str(REGISTRATION_MS),
    # Masters that share two cores with their clients must not shed load: the Go client does not send again.
    "waitTimeMillsInSendQueue": "20000",
    "osPageCacheBusyTimeOutMills": "20000",
}
ROUTE_SECONDS = 30.0
NAME_SERVER = {"orderMessageEnable": "true"}
"""Without it a route says nothing of strict order, and clients move shards about."""


class Cluster:
    """Two name servers, two masters (or as many as are named), stock clients or ours, and ``mqadmin``."""

    def __init__(
        self,
        kind: Kind = "ours",
        *,
        clients: Sequence[str] = CLIENTS,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        masters: Sequence[str] = MASTERS,
        master: Make | None = None,
    ) -> None:
        self.kind = kind
        self._names = masters
        self._master = master or partial(FireArrowBroker, arguments=arguments)
        self._stack = ExitStack()
        self._clients = clients
        self._settings = {**SETTINGS, **(settings or {})}
        self.name_servers: list[Server] = []
        self.masters: list[ApacheBroker] = []
        self.judges: list[Judge] = []
        self.mqadmin = Mqadmin()

    @property
    def names(self) -> str:
        """The addresses of the name servers, for clients."""
        return ";".join(server.address for server in self.name_servers)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        enter = self._stack.enter_context
        enter(self.mqadmin)
        self.name_servers += [enter(self._name_server()) for _ in range(2)]
        addresses = [server.address for server in self.name_servers]
        for number, name in enumerate(self._names):
            make = ApacheBroker if self.kind == "beside" and number else self._master
            self.masters.append(enter(make(name_servers=addresses, name=name, settings=self._settings)))
        self.judges += [enter(_client(client)).at(self.names) for client in self._clients]

    def _name_server(self) -> Server:
        if self.kind.startswith("at-"):
            return ApacheNameServer(self.kind.removeprefix("at-"), settings=NAME_SERVER)
        return FireArrowNameServer(settings=NAME_SERVER)

    def replace(self, number: int, make: Make) -> ApacheBroker:
        """Start another broker in place of a stopped one: with its name, its port and its store."""
        old = self.masters[number]
        place = {"storePathRootDir": str(old.store)}
        if make is ApacheBroker:
            place["storePathCommitLog"] = str(old.store / "commitlog")
        new = make(name_servers=old.name_servers, name=old.name, port=old.port, settings={**self._settings, **place})
        new.store = old.store
        self.masters[number] = self._stack.enter_context(new)
        return new

    def admin(self, command: str) -> str:
        """Run a command of ``mqadmin`` at these name servers; returns what it printed."""
        return self.mqadmin.run(f"{command} -n '{self.names}'")

    def topic(self, label: str, queues: int, *, order: bool = False) -> str:
        """Make a topic on all masters, as an operator does, and wait until every name server knows."""
        topic = fresh(label)
        said = self.admin(f"updateTopic -c DefaultCluster -t {topic} -r {queues} -w {queues} -o {str(order).lower()}")
        assert said.count("success") >= len(self.masters), said
        self.wait_routed(topic)
        return topic

    def wait_routed(self, topic: str, seconds: float = ROUTE_SECONDS) -> None:
        """Wait until every running name server routes a topic to all masters."""
        for server in self.name_servers:
            if server.running:
                wait_for(lambda at=server.address: self._is_routed(at, topic), f"a route of {topic}", seconds)  # type: ignore[misc]

    def _is_routed(self, name_server: str, topic: str) -> bool:
        route = answers(name_server, GET_ROUTE, {"topic": topic})
        return route is not None and all(f'"{master.name}"'.encode() in route for master in self.masters)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def _client(name: str) -> JudgeProcess:
    return our_process() if name == OUR_CLIENT else JudgeProcess(name)
