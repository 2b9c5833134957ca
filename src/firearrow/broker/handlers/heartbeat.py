"""Clients joining, leaving and finding each other. Java: ``ClientManageProcessor``, ``ConsumerManageProcessor``,
``DefaultConsumerIdsChangeListener``.

A heartbeat of a consumer makes the group's retry topic, so that a message that fails has somewhere to go. Whoever
changes a group has its members told (`notices`). Silent clients are looked for every ten seconds and dropped, and their
groups told, as on a closed one.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol, cast

from firearrow import fastjson
from firearrow.broker.clients import Client, ClientTable
from firearrow.broker.disagreement import Disagreements, between
from firearrow.broker.grouping import Groups
from firearrow.broker.notices import Notices
from firearrow.errors import BadBody
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.heartbeat import CheckClientBody, ConsumerData, ConsumerIdList, HeartbeatData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.heartbeat import (
    CheckClientConfig,
    GetConsumerListByGroup,
    HeartBeat,
    HeartbeatAnswer,
    UnregisterClient,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Peer

CLIENT_TIMEOUT_MS: Final = 120_000
SCAN_INTERVAL_MS: Final = 10_000

log = logging.getLogger(__name__)


class RetryTopics(Protocol):
    """Where the retry topic of a group is made."""

    def ensure_retry(self, group: str, queues: int) -> bool:
        """Make it if it is not there; whether it was made."""
        ...


class HeartbeatHandlers:
    """Signs of life, and who else is there."""

    def __init__(
        self,
        clients: ClientTable,
        groups: Groups,
        topics: RetryTopics,
        elapsed_ms: Callable[[], int],
        *,
        refuses_disagreement: bool = False,
    ) -> None:
        self._clients = clients
        self._groups = groups
        self._topics = topics
        self._elapsed_ms = elapsed_ms
        self._refuses_disagreement = refuses_disagreement
        self._fingerprints: dict[str, int] = {}
        self._notices = Notices(clients)
        self.disagreements: Final = Disagreements()

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        handlers.on(HeartBeat, self.heartbeat, urgent=True)
        handlers.on(UnregisterClient, self.unregister, urgent=True)
        handlers.on(GetConsumerListByGroup, self.list_consumers, urgent=True)
        handlers.on(CheckClientConfig, self.check_client, urgent=True)

    def heartbeat(self, _request: HeartBeat, call: Call) -> Answer:
        """A client is alive, with these groups."""
        data = _decoded(call.body)
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
        group = self._groups.get(name)
        if group is None:
            return
        if self._topics.ensure_retry(name, group.retry_queue_nums):
            log.info("retry topic made", extra={"group": name})
        changed = self._clients.consume(self._client(data, call), consumer, without_sub=data.without_sub)
        if changed is not None and group.notify_consumer_ids_changed_enable:
            self._notices.add(changed)

    def _check_agreement(self, data: HeartbeatData, call: Call) -> None:
        """Refuse a client that wants something else than the other members of its group."""
        for consumer in data.consumer_data_set:
            group = self._clients.group(consumer.group_name or "")
            me = self._client(data, call)
            me.subscriptions = {one.topic: one for one in consumer.subscription_data_set if one.topic}
            for member in [] if group is None else group.members.values():
                differs = between(consumer.group_name or "", member, me) if member.client_id != me.client_id else None
                if differs is not None:
                    raise Refused(ResponseCode.INVALID_PARAMETER, str(differs))

    def _client(self, data: HeartbeatData, call: Call) -> Client:
        return Client(call.peer, data.client_id or "", call.language, call.version, self._elapsed_ms())

    def _sub_changed(self, data: HeartbeatData) -> bool:
        """Whether a client that would leave out its subscriptions must say them: another member said others since."""
        fingerprint = data.heartbeat_fingerprint
        names = [one.group_name for one in data.consumer_data_set if one.group_name]
        changed = fingerprint == 0 or any(self._fingerprints.get(name, fingerprint) != fingerprint for name in names)
        self._fingerprints.update(dict.fromkeys(names, fingerprint))
        return changed

    def unregister(self, request: UnregisterClient, call: Call) -> None:
        """A client leaves a group."""
        if request.producer_group is not None:
            self._clients.stop_producing(call.peer, request.producer_group)
        if request.consumer_group is None:
            return
        changed = self._clients.stop_consuming(call.peer, request.consumer_group)
        group = self._groups.get(request.consumer_group)
        if changed is not None and (group is None or group.notify_consumer_ids_changed_enable):
            self._notices.add(changed)

    def list_consumers(self, request: GetConsumerListByGroup, _call: Call) -> Answer:
        """Who is in a group."""
        group = self._clients.group(request.consumer_group)
        if group is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {request.consumer_group}")
        if group.listing is None:
            ids = [client.client_id for client in group.members.values()]
            group.listing = encode_body(ConsumerIdList(consumer_id_list=ids))
        return Answer(body=group.listing)

    def check_client(self, _request: CheckClientConfig, call: Call) -> None:
        """Whether a subscription can be filtered by. Tags can; expressions are not offered yet."""
        try:
            wanted = fastjson.decode(call.body, CheckClientBody).subscription_data
        except BadBody as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if wanted is not None and wanted.expression_type not in ("", "TAG"):
            remark = f"The broker does not support consumer to filter message by {wanted.expression_type}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

    # ---- leaving without a word

    def disconnected(self, peer: Peer) -> None:
        """A connection ended."""
        for group in self._clients.disconnected(peer):
            self._notices.add(group)

    async def run(self) -> None:
        """Tell who has to be told and look for silent clients, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._notices.run())
            group.create_task(self._look())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(SCAN_INTERVAL_MS / 1000)
            self.expire()
            for found in self.disagreements.look(self._clients, self._elapsed_ms()):
                log.error("subscriptions disagree", extra={"group": found.group, "reason": str(found)})

    def expire(self) -> None:
        """Drop whoever was silent for too long."""
        expired = self._clients.expire(self._elapsed_ms() - CLIENT_TIMEOUT_MS)
        for connection in expired.connections:
            peer = cast("Peer", connection)
            log.warning("client is gone", extra={"peer": str(peer.address), "why": "it was silent for too long"})
            peer.close()
        for group in expired.changed:
            self._notices.add(group)
        self._drop_fingerprints()

    def _drop_fingerprints(self) -> None:
        for name in [name for name in self._fingerprints if self._clients.group(name) is None]:
            del self._fingerprints[name]


def _decoded(body: bytes) -> HeartbeatData:
    try:
        return fastjson.decode(body, HeartbeatData)
    except BadBody as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
