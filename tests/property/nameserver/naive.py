"""The rules of the table once more, as a few dicts that are searched from end to end. Slow, and obvious."""

from typing import NamedTuple

from firearrow.nameserver.brokers import Member
from firearrow.protocol.bodies.version import DataVersion

WRITE = 2


class Held(NamedTuple):
    """A lease."""

    who: Member
    version: DataVersion
    connection: object
    seen_ms: int
    counts: bool


class Naive:
    """Brokers by address, the living ones, and their topics with permissions."""

    def __init__(self, *, whole_tables: bool) -> None:
        self.whole_tables = whole_tables
        self.seats: dict[tuple[str, int], str] = {}
        self.leases: dict[tuple[str, str], Held] = {}
        self.acting: dict[str, bool] = {}
        self.listed: set[tuple[str, str]] = set()
        self.queues: dict[tuple[str, str], int] = {}

    def ids(self, name: str) -> list[int]:
        return sorted(i for n, i in self.seats if n == name)

    def topics_of(self, name: str) -> set[str]:
        return {topic for topic, n in self.queues if n == name}

    def register(self, who: Member, version: DataVersion, perms: dict[str, int], connection: object, now: int) -> bool:
        key = (who.cluster, who.address)
        holder = self.seats.get((who.name, who.broker_id))
        if holder not in (None, who.address):
            theirs = self.leases.get((who.cluster, str(holder)))
            if theirs and theirs.version.state_version > version.state_version:
                self.unregister(who)
                return True
        if holder is None and len(perms) == 1:
            return False
        mine = self.leases.get(key)
        if mine and mine.who.name != who.name:
            self.unregister(mine.who)
            mine = None
        if holder not in (None, who.address):
            self.drop_leases(who.name, str(holder))
        for name, broker_id in list(self.seats):
            if name == who.name and self.seats[name, broker_id] == who.address:
                del self.seats[name, broker_id]
        self.seats[who.name, who.broker_id] = who.address
        self.acting[who.name] = bool(who.acting_master)
        self.listed.add((who.cluster, who.name))
        for (cluster, address), held in list(self.leases.items()):
            if address == who.address and cluster != who.cluster and held.who.name == who.name:
                del self.leases[cluster, address]
        counts = self.announce(who, version, perms, mine, is_first=holder is None)
        self.leases[key] = Held(who, version, connection, now, counts)
        return True

    def announce(
        self, who: Member, version: DataVersion, perms: dict[str, int], mine: Held | None, *, is_first: bool
    ) -> bool:
        leads = who.broker_id != 0 and who.acting_master is not None and who.broker_id == self.ids(who.name)[0]
        if who.broker_id != 0 and not leads:
            return False
        if self.whole_tables:
            for topic in self.topics_of(who.name) - set(perms):
                del self.queues[topic, who.name]
        rewrite = is_first or mine is None or not mine.counts or mine.version != version
        for topic, perm in perms.items():
            if rewrite or (topic, who.name) not in self.queues:
                self.queues[topic, who.name] = perm & ~WRITE if leads and who.acting_master else perm
        return True

    def drop_leases(self, name: str, address: str) -> None:
        for key, held in list(self.leases.items()):
            if key[1] == address and held.who.name == name:
                del self.leases[key]

    def unregister(self, who: Member) -> None:
        seats = [seat for seat, address in self.seats.items() if seat[0] == who.name and address == who.address]
        if not seats:
            return
        for seat in seats:
            del self.seats[seat]
        self.drop_leases(who.name, who.address)
        if not self.ids(who.name):
            self.listed = {(cluster, name) for cluster, name in self.listed if name != who.name}
            for topic in self.topics_of(who.name):
                del self.queues[topic, who.name]
        elif self.acting[who.name] and 0 not in self.ids(who.name):
            self.set_perms(who.name, writable=False)

    def set_perms(self, name: str, *, writable: bool) -> None:
        for topic in self.topics_of(name):
            self.queues[topic, name] = 6 if writable else self.queues[topic, name] & ~WRITE

    def disconnect(self, connection: object) -> None:
        for held in [held for held in self.leases.values() if held.connection == connection]:
            self.unregister(held.who)

    def expire(self, now: int) -> None:
        for held in [held for held in self.leases.values() if held.seen_ms + held.who.timeout_ms < now]:
            self.unregister(held.who)

    def route(self, topic: str) -> dict[str, tuple[int, dict[int, str]]]:
        """Broker name to permission and members."""
        names = [name for t, name in self.queues if t == topic]
        return {
            name: (self.queues[topic, name], {i: self.seats[name, i] for i in self.ids(name)}) for name in sorted(names)
        }
