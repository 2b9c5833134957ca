"""Clusters of two name servers and two masters, ours alone or mixed with Apache's, and the servers that make them up.

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

Kind = Literal["ours", "beside", "at-5.5.0", "at-4.9.7"]
KINDS: tuple[Kind, ...] = ("ours", "beside", "at-5.5.0", "at-4.9.7")
CLIENTS = ("java-5.5.0", "go")
REGISTRATION_MS = 10_000
"""How often a broker registers; Apache's brokers take no less."""
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
    """Two name servers, two masters, stock clients and ``mqadmin``."""

    def __init__(
        self,
        kind: Kind = "ours",
        *,
        clients: Sequence[str] = CLIENTS,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self._stack = ExitStack()
        self._clients = clients
        self._arguments = arguments
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
        makes: list[Callable[..., ApacheBroker]] = [
            self._our_master,
            ApacheBroker if self.kind == "beside" else self._our_master,
        ]
        for name, make in zip(("broker-a", "broker-b"), makes, strict=True):
            self.masters.append(enter(make(name_servers=addresses, name=name, settings=self._settings)))
        self.judges += [enter(JudgeProcess(client)).at(self.names) for client in self._clients]

    def _name_server(self) -> Server:
        if self.kind.startswith("at-"):
            return ApacheNameServer(self.kind.removeprefix("at-"), settings=NAME_SERVER)
        return FireArrowNameServer(settings=NAME_SERVER)

    def _our_master(self, name_servers: Sequence[str], name: str, settings: Mapping[str, str]) -> FireArrowBroker:
        return FireArrowBroker(name_servers=name_servers, name=name, settings=settings, arguments=self._arguments)

    def admin(self, command: str) -> str:
        """Run a command of ``mqadmin`` at these name servers; returns what it printed."""
        return self.mqadmin.run(f"{command} -n '{self.names}'")

    def topic(self, label: str, queues: int, *, order: bool = False) -> str:
        """Make a topic on both masters, as an operator does, and wait until every name server knows."""
        topic = fresh(label)
        said = self.admin(f"updateTopic -c DefaultCluster -t {topic} -r {queues} -w {queues} -o {str(order).lower()}")
        assert said.count("success") >= len(self.masters), said
        self.wait_routed(topic)
        return topic

    def wait_routed(self, topic: str, seconds: float = ROUTE_SECONDS) -> None:
        """Wait until every running name server routes a topic to both masters."""
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
