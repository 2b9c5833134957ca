"""What becomes of a message that a consumer could not handle. Pure. Java:
``AbstractSendMessageProcessor.consumerSendMsgBack``.

It is stored again, for the group alone: in ``%RETRY%group`` after a delay that grows with every attempt (levels 3 to
18), or, after the last attempt or at the consumer's wish, in ``%DLQ%group`` where nobody consumes it. RETRY_TOPIC
remembers where it came from, ORIGIN_MESSAGE_ID its first record.
"""

from typing import Final

from msgspec import Struct

from firearrow.broker.incoming import park
from firearrow.model import keys
from firearrow.model.names import dlq_topic, retry_topic
from firearrow.model.versions import version_number
from firearrow.protocol.requests.send import ConsumerSendMsgBack
from firearrow.record.decode import RecordHead
from firearrow.record.encode import Draft
from firearrow.record.hosts import HostBytes
from firearrow.record.message_id import offset_message_id
from firearrow.record.properties import decode_properties, encode_properties

FIRST_LEVEL: Final = 3
"""The delay level of the first attempt after the first delivery."""
SAYS_TIMES_SINCE: Final = version_number("3.4.9")
"""Consumers from this version on may say themselves how often a message is tried."""


class Retry(Struct, frozen=True):
    """Where a message that failed goes."""

    is_dead: bool
    came_from: str
    """The topic that it was first consumed from."""
    draft: Draft


def most_attempts(request: ConsumerSendMsgBack, version: int, group_limit: int) -> int:
    """How often a message is tried again: the consumer's word where it has one, else the group's."""
    said = request.max_reconsume_times
    return said if said is not None and version >= SAYS_TIMES_SINCE else group_limit


def retried(
    head: RecordHead,
    record: bytes,
    request: ConsumerSendMsgBack,
    *,
    most: int,
    queue_id: int,
    levels: int,
    store_host: HostBytes,
) -> Retry:
    """The record that a message sent back becomes. ``queue_id`` is the retry queue that chance chose."""
    properties = decode_properties(head.properties(record))
    properties.setdefault(keys.RETRY_TOPIC, head.topic)
    if not properties.get(keys.ORIGIN_MESSAGE_ID):
        properties[keys.ORIGIN_MESSAGE_ID] = offset_message_id(head.store_host, head.physical_offset)
    properties[keys.WAIT] = "false"
    is_dead = head.reconsume_times >= most or request.delay_level < 0
    level = 0 if is_dead else request.delay_level or FIRST_LEVEL + head.reconsume_times
    properties[keys.DELAY] = str(level)
    topic = dlq_topic(request.group) if is_dead else retry_topic(request.group)
    parked = park(topic, 0 if is_dead else queue_id, properties, head.sys_flag, levels)
    draft = Draft(
        parked.topic,
        parked.queue_id,
        head.body(record),
        encode_properties(parked.properties),
        head.born_timestamp,
        head.born_host,
        store_host,
        head.flag,
        head.sys_flag,
        head.reconsume_times + 1,
    )
    return Retry(is_dead, properties[keys.RETRY_TOPIC], draft)
