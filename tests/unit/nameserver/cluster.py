"""Members and announcements in one line each, for the tests of the table."""

import json
from typing import Any

import msgspec

from firearrow.nameserver import pictures
from firearrow.nameserver.brokers import Member
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.effects import Announcement, RegistrationOutcome, RemovalOutcome
from firearrow.nameserver.routes import Routes
from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingInfo
from firearrow.protocol.bodies.version import DataVersion


def member(
    name: str = "a",
    address: str | None = None,
    broker_id: int = 0,
    cluster: str = "C",
    timeout_ms: int = 120_000,
    acting_master: bool | None = False,
    zone: str | None = None,
) -> Member:
    address = address or f"{name}{broker_id}:1"
    return Member(
        cluster=cluster,
        address=address,
        name=name,
        broker_id=broker_id,
        ha_address=address + "ha",
        zone=zone,
        timeout_ms=timeout_ms,
        acting_master=acting_master,
    )


class Table:
    """A table of routes with verbs short enough for a test."""

    def __init__(self, **settings: bool | int) -> None:
        self.routes = Routes(msgspec.structs.replace(NameServerConfig(), **settings))
        self.now_ms = 1_000_000

    def announce(
        self,
        *topics: str,
        counter: int = 1,
        state: int = 0,
        perm: int = 6,
        sys_flag: int = 0,
        read: int = 4,
        mappings: dict[str, TopicQueueMappingInfo] | None = None,
        filter_servers: list[str] | None = None,
    ) -> Announcement:
        queues = self.routes.topics.queues(read, 4, perm, sys_flag)
        return Announcement(
            version=DataVersion(counter=counter, state_version=state, timestamp=7),
            topics=[(topic, queues) for topic in topics],
            mappings=mappings or {},
            filter_servers=[] if filter_servers is None else filter_servers,
        )

    def join(
        self, who: Member, *topics: str, counter: int = 1, connection: object = None, digest: bytes = b""
    ) -> RegistrationOutcome | None:
        return self.register(who, self.announce(*topics, counter=counter), connection, digest)

    def register(
        self, who: Member, announced: Announcement, connection: object = None, digest: bytes = b""
    ) -> RegistrationOutcome | None:
        return self.routes.register(who, announced, connection, self.now_ms, digest)

    def leave(self, *members: Member) -> RemovalOutcome:
        return self.routes.unregister(members)

    def route(self, topic: str, zone: str | None = None) -> Any:
        if zone is None:
            encoded = pictures.route(self.routes, topic, bare=False)
        else:
            encoded = pictures.route_in_zone(self.routes, topic, zone, bare=False)
        return None if encoded is None else json.loads(encoded)

    def addresses(self, topic: str) -> dict[str, dict[str, str]]:
        """The brokers of a topic's route, by name."""
        shown = self.route(topic)
        return {} if shown is None else {b["brokerName"]: b["brokerAddrs"] for b in shown["brokerDatas"]}

    def perms(self, topic: str) -> dict[str, int]:
        """The permissions in a topic's route, by broker name."""
        shown = self.route(topic)
        return {} if shown is None else {q["brokerName"]: q["perm"] for q in shown["queueDatas"]}
