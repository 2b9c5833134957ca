"""Sends failed messages back to a broker, which delivers them again later.

First the broker that stores the message is asked to deliver it again: it has the record and needs only its position. If
that broker does not answer, or refuses, the message is sent as a new message to the group's retry topic, on any broker
that has the topic, with the same unique key and count of deliveries. If that fails too, the message stays here.

Java: ``DefaultMQPushConsumerImpl.sendMessageBack``, ``sendMessageBackAsNormalMessage``.
"""

import contextlib
import logging
from typing import Any, Final

from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.instance import Instance
from firearrow.errors import FireArrowError, NoRoute
from firearrow.model import MessageQueue, keys
from firearrow.model.flags import COMPRESSED, COMPRESSION_MASK
from firearrow.model.names import AUTO_CREATE_TOPIC, is_retry_topic, retry_topic
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack, SendMessageV2
from firearrow.record.properties import format_properties
from firearrow.runtime.network import Address

log: Final = logging.getLogger(__name__)

FIRST_LEVEL: Final = 3
"""The delay level of the first retry; every further retry has the next level."""
RETRY_QUEUES: Final = 1
STORED: Final = frozenset({0, 10, 11, 12})
TO_DEAD_LETTERS: Final = -1


class SendBack:
    """Sends messages back on behalf of one group."""

    def __init__(self, instance: Instance, settings: ConsumerSettings) -> None:
        self._instance = instance
        self._settings = settings

    async def send_back(self, message: ReceivedMessage[Any], delay_level: int) -> bool:
        """Have a message delivered again; return False if no broker took it."""
        extra = {"id": message.message_id, "queue": str(message.queue)}
        try:
            await self._ask_its_broker(message, delay_level)
        except FireArrowError as error:
            what = "%s (%s) is sent to the retry topic, its broker does not take it back: %s"
            log.info(what, message.message_id, message.place, error, extra={**extra, "reason": str(error)})
        else:
            return True
        try:
            await self._send_again(message, delay_level)
        except FireArrowError as error:
            reason = {**extra, "reason": str(error)}
            what = "%s (%s) could not be sent back, it is tried again here: %s"
            log.warning(what, message.message_id, message.place, error, extra=reason)
            return False
        return True

    async def _ask_its_broker(self, message: ReceivedMessage[Any], delay_level: int) -> None:
        stored = message.stored
        host = Address(stored.store_host.ip, stored.store_host.port)
        request = ConsumerSendMsgBack(
            offset=stored.physical_offset,
            group=self._settings.group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=stored.topic,
            max_reconsume_times=self._settings.reconsume_limit,
        )
        await self._instance.caller.call(self._instance.routes.master(message.queue.broker_name) or host, request)

    async def _send_again(self, message: ReceivedMessage[Any], delay_level: int) -> None:
        topic = retry_topic(self._settings.group)
        for queue in await self._places(topic, message.queue.broker_name):
            address = self._instance.routes.master(queue.broker_name)
            if address is not None:
                request = self._as_new(message, queue, delay_level)
                await self._instance.caller.call(address, request, message.stored.body, accept=STORED)
                return
        raise NoRoute(f"no broker takes messages of topic {topic!r} now")

    async def _places(self, topic: str, failed: str) -> list[MessageQueue]:
        """Return queues on other brokers than the one that just failed; if none has the topic, those of that broker."""
        route = await self._instance.route(topic)
        if all(queue.broker_name == failed for queue in route.write_queues):
            with contextlib.suppress(FireArrowError):  # no name server answers: the route stays as it is known
                route = await self._instance.refresh(topic) or route
        queues = list(route.write_queues)
        return [queue for queue in queues if queue.broker_name != failed] or queues

    def _as_new(self, message: ReceivedMessage[Any], queue: MessageQueue, delay_level: int) -> SendMessageV2:
        stored, limit = message.stored, self._settings.reconsume_limit
        properties = {name: value for name, value in stored.properties.items() if name not in _NOT_REPEATED}
        properties.setdefault(keys.ORIGIN_MESSAGE_ID, message.message_id)
        if not is_retry_topic(stored.topic):
            properties[keys.RETRY_TOPIC] = stored.topic
        properties[keys.DELAY] = str(delay_level if delay_level > 0 else FIRST_LEVEL + stored.reconsume_times)
        return SendMessageV2(
            producer_group=self._settings.group,
            topic=queue.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=RETRY_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=stored.sys_flag & _HOW_STORED if stored.body_fault else 0,
            born_timestamp=stored.born_timestamp,
            flag=stored.flag,
            properties=format_properties(properties),
            # A broker moves a message with more deliveries than this limit to the dead letters.
            reconsume_times=limit + 1 if delay_level == TO_DEAD_LETTERS else stored.reconsume_times + 1,
            unit_mode=False,
            max_reconsume_times=limit,
            batch=False,
            broker_name=queue.broker_name,
        )


_NOT_REPEATED: Final = frozenset({keys.DELAY, keys.TRAN_MSG, keys.REAL_TOPIC, keys.REAL_QID})
_HOW_STORED: Final = COMPRESSED | COMPRESSION_MASK
