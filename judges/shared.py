"""Servers and clients started once and shared by many tests, each when it is first asked for."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from judges.judge import JudgeProcess
from judges.mqadmin import Mqadmin
from judges.servers import ApacheBroker, ApacheNameServer


class SharedServers:
    """One name server, one broker and one mqadmin of each version, one process of each stock client."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._name_servers: dict[str, ApacheNameServer] = {}
        self._brokers: dict[str, ApacheBroker] = {}
        self._mqadmins: dict[str, Mqadmin] = {}
        self._clients: dict[str, JudgeProcess] = {}

    def name_server(self, version: str) -> ApacheNameServer:
        """Apache's name server of a version."""
        if version not in self._name_servers:
            self._name_servers[version] = self._stack.enter_context(ApacheNameServer(version))
        return self._name_servers[version]

    def broker(self, version: str) -> ApacheBroker:
        """Apache's broker of a version, at the name server of that version."""
        if version not in self._brokers:
            broker = ApacheBroker(version, name_servers=[self.name_server(version).address])
            self._brokers[version] = self._stack.enter_context(broker)
        return self._brokers[version]

    def mqadmin(self, version: str) -> Mqadmin:
        """Apache's tools beside servers of a version."""
        if version not in self._mqadmins:
            self._mqadmins[version] = self._stack.enter_context(Mqadmin(version))
        return self._mqadmins[version]

    def client(self, name: str) -> JudgeProcess:
        """The process of a stock client."""
        if name not in self._clients:
            self._clients[name] = self._stack.enter_context(JudgeProcess(name))
        return self._clients[name]

    def close(self) -> None:
        """End them all."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
