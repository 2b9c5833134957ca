"""The checks of a pull, in Apache's order. Java: ``PullMessageProcessor``."""

from typing import Any, Final

from msgspec import Struct

from firearrow.broker.identity import Identity
from firearrow.broker.pull.filters import Filters
from firearrow.broker.pull.long_poll import ParkedPull, Wanted
from firearrow.broker.pull.message_filter import NOT_COMPILED
from firearrow.broker.pull.subscription import (
    MOST_CHARACTERS,
    MOST_TAGS,
    codes_of,
    is_tag_type,
    is_too_long,
    wanted_codes,
)
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.clients import ClientTable
from firearrow.broker.tables.group_book import GroupBook
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.model.flags import PERM_READ
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.pull import Pull
from firearrow.remoting.handlers import Peer
from firearrow.store.store import Store

SUBSCRIPTION_FLAG: Final = 0x4
"""The bit of a pull's sysFlag that says that the pull carries its subscription."""

SLAVE_DOES_NOT_READ: Final = (
    "[REJECTREQUEST]system busy, start flow control for a while: this broker is a slave that serves no pulls; "
    "set slaveReadEnable=true there, or pull from its master"
)


class AdmittedPull(Struct, gc=False):
    """A pull that passed every check."""

    request: Pull
    wanted: Wanted
    topic_flag: int
    group_flag: int
    usual_broker: int = 0
    """The broker id that readers near the end of the log are told to use."""
    slow_broker: int = 0
    """The broker id that readers far behind are told to use."""


class PullChecks:
    """Admits pulls, or refuses them."""

    def __init__(
        self,
        filters: Filters,
        *,
        topics: TopicBook,
        store: Store,
        groups: GroupBook,
        clients: ClientTable,
        settings: LiveSettings,
        identity: Identity,
    ) -> None:
        self.filters: Final = filters
        self._topics = topics
        self._queues = store.queues
        self._groups = groups
        self._clients = clients
        self._settings = settings
        self._broker_ip = identity.ip
        self._is_slave = settings.value.replication.is_slave
        self.allows_lite = True
        """Whether LITE_PULL_MESSAGE is served."""

    def admit(self, request: Pull, peer: Peer, parked: ParkedPull[Any] | None = None) -> AdmittedPull:
        """Check a pull, or check a ``parked`` pull again with the filter that it carried; raise ``Refused``.

        The filter is `NOT_COMPILED` when its expression must wait for another turn of the loop.
        """
        if not self._settings.broker.is_readable:
            raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] pulling message is forbidden")
        if self._is_slave and not self._settings.value.replication.slave_read_enable:
            raise Refused(ResponseCode.SYSTEM_BUSY, SLAVE_DOES_NOT_READ)
        if request.code == RequestCode.LITE_PULL_MESSAGE and not self.allows_lite:
            remark = f"the broker[{self._broker_ip}] for lite pull consumer is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        group = self._group(request.consumer_group, peer)
        topic = self._topic(request, peer)
        if not request.sys_flag & SUBSCRIPTION_FLAG:
            wanted = self._registered(request, group)
        else:
            known = None if parked is None or parked.wanted is NOT_COMPILED else parked
            wanted = self._carried(request) if known is None else known.wanted
        admitted = AdmittedPull(request, wanted, topic.topic_sys_flag, group.group_sys_flag)
        if self._settings.value.replication.slave_read_enable:
            admitted.usual_broker, admitted.slow_broker = group.broker_id, group.which_broker_when_consume_slowly
        return admitted

    def _group(self, name: str, peer: Peer) -> SubscriptionGroupConfig:
        group = self._groups.of_client(name, peer)
        if isinstance(group, str):
            remark = f"subscription group [{name}] does not exist; {group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not group.consume_enable:
            raise Refused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}")
        return group

    def _topic(self, request: Pull, peer: Peer) -> TopicConfig:
        topic = self._topics.get(request.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist, apply first please!")
        if not topic.perm & PERM_READ:
            raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{request.topic}] pulling message is forbidden")
        if not 0 <= request.queue_id < topic.read_queue_nums and not self._reads_hidden(request):
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{peer.address}]",
            )
        return topic

    def _reads_hidden(self, request: Pull) -> bool:
        """Whether a pull asks for a queue that the topic has lost by shrinking and the log still has."""
        return bool(request.hidden) and self._queues.find(request.topic, request.queue_id) is not None

    def _registered(self, request: Pull, config: SubscriptionGroupConfig) -> Wanted:
        name, topic = request.consumer_group, request.topic
        group = self._clients.group(name)
        if group is None:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        if group.is_broadcasting and not config.consume_broadcast_enable:
            remark = f"the consumer group[{name}] can not consume by broadcast way"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if not self._groups.table.may_read(name, topic):
            remark = f"the consumer group[{name}] is forbidden for topic[{topic}]"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        subscription = group.subscriptions.get(topic)
        if subscription is None:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        if subscription.sub_version < request.sub_version:
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        if not is_tag_type(subscription.expression_type):
            return self.filters.registered(group, subscription)
        _check_length(subscription.sub_string, len(subscription.tags_set))
        return wanted_codes(subscription)

    def _carried(self, request: Pull) -> Wanted:
        if not is_tag_type(request.expression_type):
            return self.filters.carried(request)
        _check_length(request.subscription)
        return codes_of(request.subscription)


def _check_length(expression: str | None, tags: int = 0) -> None:
    if is_too_long(expression) or tags > MOST_TAGS:
        remark = f"a subscription has at most {MOST_CHARACTERS} characters and {MOST_TAGS} tags: subscribe to fewer"
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
