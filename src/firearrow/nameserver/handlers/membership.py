"""Answers to brokers: registrations, heartbeats, unregistrations. Java: ``DefaultRequestProcessor`` and
``BrokerHousekeepingService``.

A broker sends its whole table of topics every 30 seconds, nearly always unchanged. A digest of the bytes detects that,
so that a repeated table is neither parsed nor applied.
"""

import hashlib
import logging
import zlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from firearrow.errors import BadBody
from firearrow.model.versions import version_number
from firearrow.nameserver.brokers import Member
from firearrow.nameserver.effects import Announcement, Notice
from firearrow.nameserver.routes import Routes
from firearrow.protocol.bodies.admin.topic import TopicConfigAndMappingTable
from firearrow.protocol.bodies.naming.registration import RegisterBrokerBody, decode_registration
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused, server_body
from firearrow.protocol.requests.naming.registration import (
    BrokerHeartbeat,
    QueryDataVersion,
    QueryDataVersionAnswer,
    RegisterBroker,
    RegisterBrokerAnswer,
    UnregisterBroker,
)
from firearrow.remoting.handlers import Answer, Call, Handlers

DEFAULT_TIMEOUT_MS: Final = 120_000
"""The longest silence of a broker, unless it sends a timeout of its own."""

WHOLE_BODY_SINCE: Final = version_number("3.0.11")
"""Brokers before this version send their table of topics without a wrapper."""

log = logging.getLogger(__name__)


class MembershipHandlers:
    """Registrations and heartbeats."""

    def __init__(
        self,
        routes: Routes,
        now_ms: Callable[[], int],
        notify: Callable[[tuple[Notice, ...]], None],
        order_table: Callable[[], Mapping[str, str] | None],
    ) -> None:
        self._routes = routes
        self._now_ms = now_ms
        self._notify = notify
        self._order_table = order_table

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(RegisterBroker, self.register, urgent=True)
        handlers.on(UnregisterBroker, self.unregister, urgent=True)
        handlers.on(QueryDataVersion, self.query_data_version, urgent=True)
        handlers.on(BrokerHeartbeat, self.heartbeat, urgent=True)

    def register(self, request: RegisterBroker, call: Call) -> Answer:
        """Register a broker, or renew its lease."""
        if request.body_crc32 and zlib.crc32(call.body) & 0x7FFFFFFF != request.body_crc32:
            raise Refused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        member = _member(request)
        digest = _digest(call.body, call.version, compressed=request.compressed)
        if self._routes.repeats(member, digest):
            registered = self._routes.renew(member, call.peer, self._now_ms())
        else:
            announced = self._announcement(request, call)
            taken = self._routes.register(member, announced, call.peer, self._now_ms(), digest)
            if taken is None:
                raise Refused(ResponseCode.SYSTEM_ERROR, "register broker failed")
            registered = taken
        if registered.is_new:
            log.info("broker registered", extra={"broker": member.name, "id": member.broker_id, "at": member.address})
        self._notify(registered.notices)
        fields = RegisterBrokerAnswer(ha_server_addr=registered.ha_address, master_addr=registered.master_address)
        return Answer(fields, self._order_body())

    def unregister(self, request: UnregisterBroker, _call: Call) -> None:
        """Remove a broker."""
        leaving = Member(
            cluster=request.cluster_name,
            address=request.broker_addr,
            name=request.broker_name,
            broker_id=request.broker_id,
            timeout_ms=0,
        )
        departed = self._routes.unregister([leaving])
        for member in departed.members:
            log.info("broker left", extra={"broker": member.name, "id": member.broker_id, "at": member.address})
        self._notify(departed.notices)

    def query_data_version(self, request: QueryDataVersion, call: Call) -> Answer:
        """Answer whether a broker's table has changed since this edition. The request renews the lease."""
        asked = server_body(call.body, DataVersion) if call.body else None
        known = self._routes.version(request.cluster_name, request.broker_addr)
        self._routes.heard_from(request.cluster_name, request.broker_addr, self._now_ms())
        body = b"" if known is None else msgspec.json.encode(known)
        return Answer(QueryDataVersionAnswer(changed=known is None or known != asked), body)

    def heartbeat(self, request: BrokerHeartbeat, _call: Call) -> None:
        """Renew the lease of a broker."""
        self._routes.heard_from(request.cluster_name, request.broker_addr, self._now_ms())

    def _announcement(self, request: RegisterBroker, call: Call) -> Announcement:
        body = _registration(call, compressed=request.compressed)
        table = body.topic_config_serialize_wrapper
        make = self._routes.topics.queues
        topics = [
            (
                topic.topic_name or name,
                make(topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag),
            )
            for name, topic in table.topic_config_table.items()
        ]
        has_filters = call.version >= WHOLE_BODY_SINCE
        return Announcement(
            version=table.data_version,
            topics=topics,
            mappings=table.topic_queue_mapping_info_map,
            filter_servers=body.filter_server_list if has_filters else None,
        )

    def _order_body(self) -> bytes:
        table = self._order_table() if self._routes.config.return_order_topic_config_to_broker else None
        return b"" if table is None else msgspec.json.encode(KVTable(table=dict(table)))


def _member(request: RegisterBroker) -> Member:
    timeout_ms = request.heartbeat_timeout_millis
    return Member(
        cluster=request.cluster_name,
        address=request.broker_addr,
        name=request.broker_name,
        broker_id=request.broker_id,
        ha_address=request.ha_server_addr,
        zone=request.zone_name,
        timeout_ms=DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
        acting_master=request.enable_acting_master,
    )


def _digest(body: bytes, version: int, *, compressed: bool) -> bytes:
    # The version and the flag decide how the body is read, so they are part of the digest.
    return b"%d%d" % (compressed, version) + hashlib.blake2b(body, digest_size=16).digest()


def _registration(call: Call, *, compressed: bool) -> RegisterBrokerBody:
    if not call.body:
        return RegisterBrokerBody()
    if call.version < WHOLE_BODY_SINCE:
        return RegisterBrokerBody(topic_config_serialize_wrapper=server_body(call.body, TopicConfigAndMappingTable))
    try:
        return decode_registration(call.body, compressed=compressed, version=call.version)
    except BadBody as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"Failed to decode RegisterBrokerBody: {error}") from error
