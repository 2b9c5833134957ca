"""New names: the topics and groups that clients make a broker remember by using them. Pure; time is an argument.

Both are bounded in number, and in how many are made within a minute: by one connection and by all. The last part of the
common minute is kept for connections that have made few names, so that one that makes many leaves room for others. A
connection begins with what an earlier one from the same host has left, so that connecting again wins nothing.
"""

from collections.abc import Callable
from copy import copy
from typing import Final

from msgspec import Struct

from firearrow.broker.settings.bound_settings import BoundsConfig
from firearrow.remoting.handlers import Peer

MINUTE_MS: Final = 60_000
KEPT_PART: Final = 5
"""A fifth of the common minute is kept for connections that have made at most `FEW` names."""
FEW: Final = 20
HOSTS_MAX: Final = 10_000


class _Minute(Struct):
    """The number of names that may still be made; grows again within a minute."""

    left: float
    at_ms: int

    def refill(self, most: int, now_ms: int) -> None:
        self.left = min(most, self.left + (now_ms - self.at_ms) * most / MINUTE_MS)
        self.at_ms = now_ms


class NewNames:
    """Says whether one more topic or group may be made."""

    def __init__(self, config: Callable[[], BoundsConfig], now_ms: Callable[[], int]) -> None:
        self._config = config
        self._now_ms = now_ms
        self._all = _Minute(config().max_new_names, now_ms())
        self._of_peer: dict[Peer, _Minute] = {}
        self._of_gone: dict[str, _Minute] = {}
        """The numbers that connections that ended have left, by host."""
        self.refused = 0
        """The number of names that were not made because of one of the bounds."""

    def topic_fault(self, count: int, peer: Peer) -> str | None:
        """Say why no topic is made beside ``count`` others, or count one and return None."""
        most = self._config().max_auto_created_topics
        if count >= most:
            return self._full("topics", "maxAutoCreatedTopics", most, "updateTopic")
        return self._take(peer)

    def group_fault(self, count: int, peer: Peer) -> str | None:
        """Say why no group is made beside ``count`` others, or count one and return None."""
        most = self._config().max_auto_created_groups
        if count >= most:
            return self._full("consumer groups", "maxAutoCreatedGroups", most, "updateSubGroup")
        return self._take(peer)

    def disconnected(self, peer: Peer) -> None:
        """Forget a connection that ended, but not what it has made."""
        own = self._of_peer.pop(peer, None)
        if own is None:
            return
        host = peer.address.host
        before = self._of_gone.pop(host, own)
        self._of_gone[host] = min(own, before, key=lambda minute: minute.left)
        if len(self._of_gone) > HOSTS_MAX:
            del self._of_gone[next(iter(self._of_gone))]

    def _full(self, what: str, key: str, most: int, verb: str) -> str:
        self.refused += 1
        return (
            f"there are {most} {what} or more and no other is made by its first use: make it with mqadmin {verb}, "
            f"delete those that nobody uses, or raise {key}"
        )

    def _take(self, peer: Peer) -> str | None:
        config, now_ms = self._config(), self._now_ms()
        most = config.max_new_names_of_connection
        own = self._of_peer.get(peer)
        if own is None:
            gone = self._of_gone.get(peer.address.host)
            own = self._of_peer[peer] = _Minute(most, now_ms) if gone is None else copy(gone)
        own.refill(most, now_ms)
        self._all.refill(config.max_new_names, now_ms)
        kept = config.max_new_names / KEPT_PART if most - own.left >= FEW else 0.0
        if own.left < 1:
            return self._late("this connection has", "maxNewNamesOfConnection", most)
        if self._all.left < 1 + kept:
            return self._late("clients have", "maxNewNames", config.max_new_names)
        own.left -= 1
        self._all.left -= 1
        return None

    def _late(self, who: str, key: str, most: int) -> str:
        self.refused += 1
        return (
            f"{who} made {most} topics and groups by using them within a minute: wait some seconds and try again, make "
            f"them with mqadmin, or raise {key}"
        )
