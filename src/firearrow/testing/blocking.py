"""The cluster without ``await``: the same names, served by a thread of its own.

    with Cluster() as cluster:
        cluster.create_topic("orders")
        with Producer(cluster.address) as producer:
            ...

Use it also for coroutine tests that block their loop, and for fixtures that outlive one loop.
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
        """Stop everything, and delete the data unless a directory was given."""
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
        """The directory of the data, with a directory for each server."""
        return self._inner.directory

    def broker_address(self, name: str | None = None) -> str:
        """Return the address of a broker."""
        return self._inner.broker_address(name)

    def create_topic(self, topic: str, *, queues: int = QUEUES, order: bool = False) -> str:
        """Create a topic on every running broker, with ``queues`` queues each; return its name."""
        return self._door.call(self._inner.create_topic(topic, queues=queues, order=order))

    def messages(self, topic: str) -> list[StoredMessage]:
        """Return all messages of a topic, in the order in which they were stored, without consuming them."""
        return self._door.call(self._inner.messages(topic))

    def consumed(self, group: str, topic: str, *, timeout_s: float = WAIT_SECONDS) -> None:
        """Wait until a group has committed all messages of a topic; ``TimeoutError`` says how far it is."""
        self._door.call(self._inner.consumed(group, topic, timeout_s=timeout_s))

    def start_broker(self, name: str | None = None) -> None:
        """Start a broker with its existing files."""
        self._door.call(self._inner.start_broker(name))

    def stop_broker(self, name: str | None = None) -> None:
        """Shut a broker down in order: its messages are durable, name servers and clients are notified."""
        self._door.call(self._inner.stop_broker(name))

    def restart_broker(self, name: str | None = None) -> None:
        """Shut a broker down in order, and start it again."""
        self._door.call(self._inner.restart_broker(name))

    def kill_broker(self, name: str | None = None) -> None:
        """End a broker as a killed process would end: without notifying name servers or clients."""
        self._door.call(self._inner.kill_broker(name))

    def start_name_server(self, number: int = 0) -> None:
        """Start a name server; all running brokers are registered there when this returns."""
        self._door.call(self._inner.start_name_server(number))

    def stop_name_server(self, number: int = 0) -> None:
        """Stop a name server; brokers register again when it is back."""
        self._door.call(self._inner.stop_name_server(number))
