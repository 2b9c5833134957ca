"""The two brokers, each with a name server of its make, started as in earnest; one is held still while one works."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.versus.contestants import RUNBROKER_FLAGS, FireArrowInEarnest
from firearrow.testing.complaints import Complained
from judges import ApacheBroker, ApacheNameServer, FireArrowNameServer, Server
from judges.server_process import wait_for

OURS = "FireArrow"
APACHE = "Apache 5.5.0"
ROUTED_S = 60.0
ROUTED = "soak-routed"
"""A topic that shows by its route that the broker is known."""


class Side:
    """A name server and a broker."""

    def __init__(self, name: str, names: Server, broker: ApacheBroker) -> None:
        self.name = name
        self.broker = broker
        self._names = names

    def pause(self) -> None:
        """Hold both still."""
        self.broker.pause()
        self._names.pause()

    def resume(self) -> None:
        """Let both go on, and wait until clients would find the broker."""
        self._names.resume()
        self.broker.resume()
        wait_for(self._is_routed, f"a route to {self.name} at {self.broker.address}", ROUTED_S)

    def _is_routed(self) -> bool:
        return self.broker._ready() and self.broker._routed_by(self._names.address, ROUTED)

    def logs(self) -> dict[str, Path]:
        """The log files of the servers, by server."""
        return {"broker": self.broker.log, "name server": self._names.log}

    def descriptors(self) -> int:
        """The number of descriptors that the broker has open."""
        return len(list(Path(f"/proc/{self.broker.pid}/fd").iterdir()))

    def check_loop(self) -> None:
        """Raise unless the broker runs on uvloop."""
        if "/uvloop/" not in Path(f"/proc/{self.broker.pid}/maps").read_text():
            raise RuntimeError("the broker does not run on uvloop: install the extra `server`")


@contextmanager
def started(name: str) -> Iterator[Side]:
    """A side that runs."""
    names: Server
    broker: ApacheBroker
    if name == OURS:
        names = FireArrowNameServer()
        broker = FireArrowInEarnest(name_servers=[names.address], settings={})
    else:
        version = name.rpartition(" ")[2]
        names = ApacheNameServer(version, measured=True)
        broker = ApacheBroker(version, name_servers=[names.address], measured=True, flags=RUNBROKER_FLAGS)
    with suppress(Complained), names, broker:  # exceptions are counted from the logs
        broker.create_topic(ROUTED, 1)
        yield Side(name, names, broker)
