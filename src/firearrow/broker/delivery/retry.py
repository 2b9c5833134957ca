"""Retry: where a message goes that a consumer could not handle. Pure. Java:
``AbstractSendMessageProcessor.consumerSendMsgBack``.

The message is stored again for this group alone: in ``%RETRY%group`` after a delay that grows with every attempt
(levels 3 to 18), or, after the last attempt or when the consumer asks for it, in the dead-letter topic ``%DLQ%group``.
Property RETRY_TOPIC keeps the original topic, ORIGIN_MESSAGE_ID the id of the first record.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.broker.send.incoming import destination_of
from firearrow.model import keys
from firearrow.model.names import dlq_topic, retry_topic
from firearrow.model.versions import version_number
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack
from firearrow.record.decode import RecordHead
from firearrow.record.encode import Draft
from firearrow.record.hosts import HostBytes
from firearrow.record.message_id import offset_message_id
from firearrow.record.properties import decode_properties, encode_properties

FIRST_LEVEL: Final = 3
"""The delay level of the first retry."""
SAYS_TIMES_SINCE: Final = version_number("3.4.9")
"""Consumers from this version on may set the number of retries themselves."""


class Retry(Struct, frozen=True):
    """The new record of a message that a consumer could not handle."""

    is_dead: bool
    came_from: str
    """The topic of the first delivery."""
    draft: Draft


def most_attempts(request: ConsumerSendMsgBack, version: int, group_limit: int) -> int:
    """Return the most retries of a message: the consumer's limit if the request has one, otherwise the group's."""
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
    """Return the new record of a message that was sent back. ``queue_id`` is a retry queue chosen at random."""
    properties = decode_properties(head.properties(record))
    properties.setdefault(keys.RETRY_TOPIC, head.topic)
    if not properties.get(keys.ORIGIN_MESSAGE_ID):
        properties[keys.ORIGIN_MESSAGE_ID] = offset_message_id(head.store_host, head.physical_offset)
    properties[keys.WAIT] = "false"
    is_dead = head.reconsume_times >= most or request.delay_level < 0
    level = 0 if is_dead else request.delay_level or FIRST_LEVEL + head.reconsume_times
    properties[keys.DELAY] = str(level)
    topic = dlq_topic(request.group) if is_dead else retry_topic(request.group)
    waits_at = destination_of(topic, 0 if is_dead else queue_id, properties, head.sys_flag, levels)
    draft = Draft.of(head, record, waits_at.topic, waits_at.queue_id, encode_properties(waits_at.properties))
    again = replace(draft, store_host=store_host, reconsume_times=head.reconsume_times + 1)
    return Retry(is_dead, properties[keys.RETRY_TOPIC], again)
