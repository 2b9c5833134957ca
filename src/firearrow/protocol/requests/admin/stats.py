"""The load of a broker and the progress of groups. Java: ``header.GetConsumeStatsRequestHeader`` and neighbours."""

from typing import ClassVar, Final

from firearrow.protocol.bodies.admin.stats import BrokerStatsData, ConsumeStats, ConsumeStatsList
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Request

REFUSAL_KEY: Final = "firearrowRefusal"
"""Under this name the answer to ``GetBrokerRuntimeInfo`` says why the store takes no messages; ours alone."""
LONGEST_STEP_KEY: Final = "firearrowLongestStep"
"""Under this name it says which step held the broker's loop the longest since the start; ours alone."""


class GetBrokerRuntimeInfo(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Everything about a running broker, by name."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_RUNTIME_INFO
    answer_body = KVTable


class GetConsumeStats(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The progress of a group. ``topicList`` is joined by ``;`` (5.x)."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUME_STATS
    answer_body = ConsumeStats
    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class ViewBrokerStatsData(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """One statistic."""

    code: ClassVar[RequestCode] = RequestCode.VIEW_BROKER_STATS_DATA
    answer_body = BrokerStatsData
    stats_name: str
    stats_key: str


class GetBrokerConsumeStats(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """The progress of every group."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_CONSUME_STATS
    answer_body = ConsumeStatsList
    is_order: bool
