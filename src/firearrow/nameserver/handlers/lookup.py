"""Answers about routes, clusters and topics. Java: ``ClientRequestProcessor`` and half of
``DefaultRequestProcessor``.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from firearrow.model.versions import version_number
from firearrow.nameserver import pictures
from firearrow.nameserver.routes import Routes
from firearrow.protocol.bodies.naming.route import TopicList
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.naming.registration import GetBrokerMemberGroup
from firearrow.protocol.requests.naming.route import (
    GetAllTopicListFromNameserver,
    GetBrokerClusterInfo,
    GetHasUnitSubTopicList,
    GetHasUnitSubUnunitTopicList,
    GetRouteInfoByTopic,
    GetSystemTopicListFromNs,
    GetTopicsByCluster,
    GetUnitTopicList,
)
from firearrow.remoting.handlers import Answer, Call, Handlers

STANDARD_JSON_SINCE: Final = version_number("4.9.4")
"""Peers from this version on get standard JSON; older peers get fastjson's form."""

NO_REMARK_SET: Final = "not set any response code"
"""The remark that Apache's name server sends with a member group, because it sets no other."""


class LookupHandlers:
    """Routes, clusters, members, lists of topics."""

    def __init__(self, routes: Routes, now_ms: Callable[[], int]) -> None:
        self._routes = routes
        self._now_ms = now_ms
        self._started_ms = now_ms()

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(GetRouteInfoByTopic, self.route)
        handlers.on(GetBrokerClusterInfo, self.cluster_info)
        handlers.on(GetBrokerMemberGroup, self.member_group)
        handlers.on(GetAllTopicListFromNameserver, self.all_topics)
        handlers.on(GetTopicsByCluster, self.topics_by_cluster)
        handlers.on(GetSystemTopicListFromNs, self.system_topics)
        handlers.on(GetUnitTopicList, lambda _, __: self._units(unit=True))
        handlers.on(GetHasUnitSubTopicList, lambda _, __: self._units(unit_sub=True))
        handlers.on(GetHasUnitSubUnunitTopicList, lambda _, __: self._units(unit=False, unit_sub=True))

    def route(self, request: GetRouteInfoByTopic, call: Call) -> Answer:
        """Answer the route of a topic."""
        routes = self._routes
        if routes.config.need_wait_for_service:
            self._refuse_while_young()
        bare = call.version < STANDARD_JSON_SINCE and not request.accept_standard_json_only
        if request.zone_mode and request.zone_name and request.zone_name.strip():
            found = pictures.route_in_zone(routes, request.topic, request.zone_name, bare=bare)
        else:
            found = pictures.route(routes, request.topic, bare=bare)
        if found is None:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {request.topic}"
            )
        return Answer(body=found)

    def cluster_info(self, _request: GetBrokerClusterInfo, _call: Call) -> Answer:
        """Answer every broker of every cluster."""
        return Answer(body=pictures.cluster_info(self._routes))

    def member_group(self, request: GetBrokerMemberGroup, _call: Call) -> Answer:
        """Answer the members of a broker name."""
        body = pictures.member_group(self._routes, request.cluster_name, request.broker_name)
        return Answer(body=body, remark=NO_REMARK_SET)

    def all_topics(self, _request: GetAllTopicListFromNameserver, _call: Call) -> Answer:
        """Answer the names of all topics."""
        if not self._routes.config.enable_all_topic_list:
            raise Refused(ResponseCode.SYSTEM_ERROR, "disable")
        return _topic_list(self._routes.topics.topics())

    def topics_by_cluster(self, request: GetTopicsByCluster, _call: Call) -> Answer:
        """Answer the names of the topics of a cluster."""
        self._refuse_lists()
        brokers = self._routes.clusters.get(request.cluster, ())
        return _topic_list(self._routes.topics.topics_at(brokers))

    def system_topics(self, _request: GetSystemTopicListFromNs, _call: Call) -> Answer:
        """Answer the names of clusters and brokers, and one broker's address."""
        address, topics = pictures.system_topics(self._routes)
        return _topic_list(topics, address)

    def _units(self, *, unit: bool | None = None, unit_sub: bool | None = None) -> Answer:
        self._refuse_lists()
        return _topic_list(self._routes.topics.units(unit=unit, unit_sub=unit_sub))

    def _refuse_lists(self) -> None:
        if not self._routes.config.enable_topic_list:
            raise Refused(ResponseCode.SYSTEM_ERROR, "disable")

    def _refuse_while_young(self) -> None:
        # A name server that has just started knows few brokers; clients would take them for the whole cluster.
        if self._now_ms() - self._started_ms < self._routes.config.wait_seconds_for_service * 1000:
            raise Refused(ResponseCode.SYSTEM_ERROR, "name server not ready")


def _topic_list(topics: list[str], address: str | None = None) -> Answer:
    return Answer(body=msgspec.json.encode(TopicList(broker_addr=address, topic_list=topics)))
