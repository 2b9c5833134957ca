"""Clients that join, leave and list their group. Java: ``ClientManageProcessor``, ``ConsumerManageProcessor``,
``DefaultConsumerIdsChangeListener``.

The heartbeat of a consumer creates, at a master, the group's retry topic, which messages that fail need. When a group
changes, its members get notices (`notices`). Every ten seconds clients without a recent heartbeat are dropped, and
their groups get notices, as after a closed connection.
"""

import asyncio
import logging
from typing import Final, cast

from firearrow.broker.delivery.notices import Notices
from firearrow.broker.pull.filter_checks import FilterChecks
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.clients import Client, ClientTable
from firearrow.broker.tables.disagreement import Disagreements, disagreement_with
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.model.names import retry_topic
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import CheckClientBody, ConsumerData, ConsumerIdList, HeartbeatData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused, request_body
from firearrow.protocol.requests.group.heartbeat import (
    CheckClientConfig,
    GetConsumerListByGroup,
    HeartBeat,
    HeartbeatAnswer,
    UnregisterClient,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Later, Peer
from firearrow.runtime.clock import elapsed_ms
from firearrow.runtime.turn import Pace
from firearrow.telemetry.damped import DampedEvents

CLIENT_TIMEOUT_MS: Final = 120_000
SCAN_INTERVAL_MS: Final = 10_000
LONGEST_NAME: Final = 1024
"""The longest client id and name of a producer group, in characters."""
EXPIRED_AT_ONCE: Final = 200
"""Clients that are dropped in one turn of the loop."""
GROUPS_AT_ONCE: Final = 200
"""Groups whose subscriptions are compared in one turn of the loop."""
ALWAYS_TAKEN: Final = 8 << 10
"""Memory for groups and subscriptions that a connection gets even when all others hold too much."""

log = logging.getLogger(__name__)


class HeartbeatHandlers:
    """Takes heartbeats and lists the members of groups."""

    def __init__(
        self,
        filter_checks: FilterChecks,
        *,
        clients: ClientTable,
        groups: GroupBook,
        settings: LiveSettings,
        topics: TopicBook,
    ) -> None:
        self._filter_checks = filter_checks
        self._clients = clients
        self._groups = groups
        self._settings = settings
        self._refusals = DampedEvents()
        self._topics = topics
        self._refuses_disagreement = settings.value.consuming.refuse_inconsistent_subscription
        self._fingerprints: dict[str, int] = {}
        self._notices = Notices(clients)
        self.disagreements: Final = Disagreements()

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(HeartBeat, self.heartbeat, urgent=True)
        handlers.on(UnregisterClient, self.unregister, urgent=True)
        handlers.on(GetConsumerListByGroup, self.list_consumers, urgent=True)
        handlers.on(CheckClientConfig, self.check_client, urgent=True)

    def heartbeat(self, _request: HeartBeat, call: Call) -> Answer:
        """Note a client with its groups."""
        data = request_body(call.body, HeartbeatData)
        self._check_room(data, call.peer)
        if self._refuses_disagreement and not data.without_sub:
            self._check_agreement(data, call)
        for consumer in data.consumer_data_set:
            if consumer.group_name:
                self._consumer(data, consumer, call)
        for producer in data.producer_data_set:
            if producer.group_name:
                self._clients.produce(self._client(data, call), producer.group_name)
        return Answer(HeartbeatAnswer(is_support_heart_beat_v2=True, is_sub_change=self._sub_changed(data)))

    def _consumer(self, data: HeartbeatData, consumer: ConsumerData, call: Call) -> None:
        name = consumer.group_name or ""
        group = self._groups.of_client(name, call.peer)
        if isinstance(group, str):
            self._refusals.warn(log, elapsed_ms() / 1000, "a consumer is not noted", {"group": name, "why": group})
            return
        if not self._groups.is_copy and self._topics.ensure(retry_topic(name), group.retry_queue_nums):
            log.info("retry topic made", extra={"group": name})
        changed = self._clients.consume(self._client(data, call), consumer, without_sub=data.without_sub)
        if changed is not None and group.notify_consumer_ids_changed_enable:
            self._notices.add(changed)

    def _check_room(self, data: HeartbeatData, peer: Peer) -> None:
        """Refuse a client that belongs to too many groups, or whose subscriptions take too much memory."""
        bounds = self._settings.value.bounds
        consumers = [one.group_name or "" for one in data.consumer_data_set]
        producers = [one.group_name or "" for one in data.producer_data_set]
        if max(map(len, (data.client_id or "", *consumers, *producers))) > LONGEST_NAME:
            remark = f"a client id or group name has more than {LONGEST_NAME} characters: use a shorter one"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        most = bounds.max_groups_of_connection
        if self._clients.memberships(peer, consumers, producers) > most:
            remark = f"the clients of one connection belong to at most {most} groups: use fewer groups in a process, "
            raise Refused(ResponseCode.INVALID_PARAMETER, remark + "or raise maxGroupsOfConnection")
        if data.without_sub:
            return
        more = sum(self._clients.added_weight(peer, one) for one in data.consumer_data_set)
        held = self._clients.held_by(peer) + more
        if held > bounds.max_subscription_bytes_of_connection:
            remark = f"subscriptions of one connection would take {held} bytes: subscribe to fewer topics and tags, "
            raise Refused(ResponseCode.INVALID_PARAMETER, remark + "or raise maxSubscriptionBytesOfConnection")
        if held > ALWAYS_TAKEN and more > 0 and self._clients.held + more > bounds.max_subscription_bytes:
            remark = "the subscriptions of all clients take too much memory: subscribe to fewer topics and tags, or "
            raise Refused(ResponseCode.SYSTEM_BUSY, remark + "raise maxSubscriptionBytes")

    def _check_agreement(self, data: HeartbeatData, call: Call) -> None:
        """Refuse a client whose subscriptions differ from those of another member of its group."""
        for consumer in data.consumer_data_set:
            group = self._clients.group(consumer.group_name or "")
            me = self._client(data, call)
            me.subscriptions = {one.topic: one for one in consumer.subscription_data_set if one.topic}
            differs = None if group is None else disagreement_with(group, me)
            if differs is not None:
                raise Refused(ResponseCode.INVALID_PARAMETER, str(differs))

    def _client(self, data: HeartbeatData, call: Call) -> Client:
        return Client(call.peer, data.client_id or "", call.language, call.version, elapsed_ms())

    def _sub_changed(self, data: HeartbeatData) -> bool:
        """Whether the client must send its subscriptions again: another member has sent different ones since."""
        fingerprint = data.heartbeat_fingerprint
        known = self._clients.group
        names = [one.group_name for one in data.consumer_data_set if one.group_name and known(one.group_name)]
        changed = fingerprint == 0 or any(self._fingerprints.get(name, fingerprint) != fingerprint for name in names)
        self._fingerprints.update(dict.fromkeys(names, fingerprint))
        return changed

    def unregister(self, request: UnregisterClient, call: Call) -> None:
        """Remove a client from a group."""
        if request.producer_group is not None:
            self._clients.stop_producing(call.peer, request.producer_group)
        if request.consumer_group is None:
            return
        changed = self._clients.stop_consuming(call.peer, request.consumer_group)
        group = self._groups.of_client(request.consumer_group, call.peer)
        if changed is not None and (isinstance(group, str) or group.notify_consumer_ids_changed_enable):
            self._notices.add(changed)

    def list_consumers(self, request: GetConsumerListByGroup, _call: Call) -> Answer:
        """Return the client ids of a group's members."""
        group = self._clients.group(request.consumer_group)
        if group is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {request.consumer_group}")
        if group.listing is None:
            ids = [client.client_id for client in group.members.values()]
            group.listing = encode_body(ConsumerIdList(consumer_id_list=ids))
        return Answer(body=group.listing)

    def check_client(self, _request: CheckClientConfig, call: Call) -> Later | None:
        """Refuse a subscription by which the broker cannot filter."""
        wanted = request_body(call.body, CheckClientBody).subscription_data
        return None if wanted is None else self._filter_checks.check(wanted, call)

    # ---- clients that leave without a request

    def disconnected(self, peer: Peer) -> None:
        """Remove a connection that ended from its groups."""
        for group in self._clients.disconnected(peer):
            self._notices.add(group)

    async def run(self) -> None:
        """Send notices and drop clients without heartbeats, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._notices.run())
            group.create_task(self._look())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(SCAN_INTERVAL_MS / 1000)
            pace = Pace(GROUPS_AT_ONCE)
            while self.expire():
                await pace.did(GROUPS_AT_ONCE)
            await self._drop_fingerprints()
            for found in self.disagreements.look(self._clients, elapsed_ms()):
                if found is not None:
                    log.error("subscriptions disagree", extra={"group": found.group, "reason": str(found)})
                await pace.did()

    def expire(self) -> bool:
        """Drop clients whose last heartbeat is too old, a bounded number; return whether there may be more of them."""
        expired = self._clients.expire(elapsed_ms() - CLIENT_TIMEOUT_MS, EXPIRED_AT_ONCE)
        for connection in expired.connections:
            peer = cast("Peer", connection)
            log.warning("client is gone", extra={"peer": str(peer.address), "why": "it was silent for too long"})
            peer.close()
        for group in expired.changed:
            self._notices.add(group)
        return len(expired.connections) >= EXPIRED_AT_ONCE

    async def _drop_fingerprints(self) -> None:
        pace = Pace(GROUPS_AT_ONCE)
        for name in list(self._fingerprints):
            if self._clients.group(name) is None:
                self._fingerprints.pop(name, None)
            await pace.did()
