"""The number of connections of each address, over all ports that share a `PerAddress`."""

from typing import Final

from firearrow.telemetry.damped import Damped


class PerAddress:
    """Counts connections by the host they come from, and says whether one more may open."""

    def __init__(self) -> None:
        self.limit = 0
        """The most connections of one host; 0: no limit. Connections that are open stay when it is lowered."""
        self.refused: Final = Damped()
        self._hosts: dict[object, str] = {}
        self._counts: dict[str, int] = {}

    def enter(self, connection: object, host: str) -> bool:
        """Count a connection; return False, without counting it, when its host has enough."""
        count = self._counts.get(host, 0)
        if self.limit and count >= self.limit:
            return False
        self._counts[host] = count + 1
        self._hosts[connection] = host
        return True

    def leave(self, connection: object) -> None:
        """Count a connection no more; a no-op for one that was not counted."""
        host = self._hosts.pop(connection, None)
        if host is None:
            return
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]
