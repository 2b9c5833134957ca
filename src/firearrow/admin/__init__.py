"""Administration as a library, by noun: topics, groups, brokers. Over the wire only, so it works on Apache's clusters.

async with Admin("127.0.0.1:9876") as admin:
    await admin.topics.create("orders", queues=8)
    for group in await admin.groups.list():
        print(group.name, group.lag)
"""

from firearrow.admin.admin import Admin
from firearrow.admin.brokers import BrokerMember, Brokers
from firearrow.admin.group_offsets import GroupOffsets
from firearrow.admin.groups import (
    FilterUse,
    GroupDescription,
    Groups,
    GroupSummary,
    MemberState,
    QueueMove,
    QueueProgress,
)
from firearrow.admin.topics import QueueState, TopicDescription, TopicOnBroker, Topics, TopicSummary

__all__ = [
    "Admin",
    "BrokerMember",
    "Brokers",
    "FilterUse",
    "GroupDescription",
    "GroupOffsets",
    "GroupSummary",
    "Groups",
    "MemberState",
    "QueueMove",
    "QueueProgress",
    "QueueState",
    "TopicDescription",
    "TopicOnBroker",
    "TopicSummary",
    "Topics",
]
