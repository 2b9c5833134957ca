"""The cluster without ``await``: the same names, served by a thread of its own.

    with Cluster() as cluster:
        cluster.create_topic("orders")
        with Producer(cluster.address) as producer:
            ...

Also the right one for tests that are coroutines and keep their loop busy, and for fixtures that outlive one loop.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from firearrow.blocking.door import Door
from firearrow.model import StoredMessage
from firearrow.testing import cluster
from firearrow.testing.cluster import QUEUES, WAIT_SECONDS


class Cluster:
    """Name servers and brokers. Use it in a ``with`` block, from any thread."""

    def __init__(
        self,
        *,
        brokers: int | Sequence[str] = 1,
        name_servers: int = 1,
        settings: Mapping[str, str] | None = None,
        directory: str | Path | None = None,
    ) -> None:
        self._inner = cluster.Cluster(
            brokers=brokers, name_servers=name_servers, settings=settings, directory=directory
        )
        self._door = Door("firearrow cluster")

    def __enter__(self) -> Self:
        """Start everything."""
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything."""
        self.close()

    def open(self) -> None:
        """Start everything; every broker is registered when this returns."""
        self._door.open(self._inner.open)

    def close(self) -> None:
        """End everything, and throw the data away unless it has a directory of its own."""
        self._door.close(self._inner.close)

    @property
    def address(self) -> str:
        """The name servers: the first argument of every producer and consumer."""
        return self._inner.address

    @property
    def broker_names(self) -> list[str]:
        """The brokers, running or not."""
        return self._inner.broker_names

    @property
    def directory(self) -> Path:
        """Where the data is: a directory for each server."""
        return self._inner.directory

    def broker_address(self, name: str | None = None) -> str:
        """Where a broker is."""
        return self._inner.broker_address(name)

    def create_topic(self, topic: str, *, queues: int = QUEUES, order: bool = False) -> str:
        """Make a topic on every broker that runs, with ``queues`` queues each; return its name."""
        return self._door.call(self._inner.create_topic(topic, queues=queues, order=order))

    def messages(self, topic: str) -> list[StoredMessage]:
        """Everything that a topic holds now, in the order in which it was stored. Nothing is consumed by this."""
        return self._door.call(self._inner.messages(topic))

    def consumed(self, group: str, topic: str, *, timeout_s: float = WAIT_SECONDS) -> None:
        """Wait until a group has committed everything that a topic holds; ``TimeoutError`` says how far it is."""
        self._door.call(self._inner.consumed(group, topic, timeout_s=timeout_s))

    def start_broker(self, name: str | None = None) -> None:
        """Start a broker over the files that it has."""
        self._door.call(self._inner.start_broker(name))

    def stop_broker(self, name: str | None = None) -> None:
        """End a broker in order: what it took is safe, name servers and clients are told."""
        self._door.call(self._inner.stop_broker(name))

    def restart_broker(self, name: str | None = None) -> None:
        """End a broker in order, and start it again."""
        self._door.call(self._inner.restart_broker(name))

    def kill_broker(self, name: str | None = None) -> None:
        """Take a broker away as the death of its process does: nobody is told."""
        self._door.call(self._inner.kill_broker(name))

    def start_name_server(self, number: int = 0) -> None:
        """Start a name server; the brokers that run are registered there when this returns."""
        self._door.call(self._inner.start_name_server(number))

    def stop_name_server(self, number: int = 0) -> None:
        """End a name server; brokers register again when it is back."""
        self._door.call(self._inner.stop_name_server(number))
