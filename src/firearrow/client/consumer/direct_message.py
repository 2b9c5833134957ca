"""A message that an operator sends directly to one consumer ("consume this message now"), past all queues.

The handler is called as usual; its result or error is reported to the operator and changes no offset. Java:
``ConsumeMessageConcurrentlyService.consumeMessageDirectly``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.window import Window
from firearrow.client.tasks import cancellations, is_cancellation
from firearrow.model import MessageQueue, StoredMessage
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.running_info import ConsumeMessageDirectlyResult, ConsumeResult
from firearrow.remoting.handlers import Answer, Later
from firearrow.serializers import Deserializer

Call = Callable[[ReceivedMessage[Any]], Awaitable[object]]


class DirectSettler:
    """Settles a message that belongs to no queue."""

    def __init__(self, deserializer: Deserializer[Any] | None) -> None:
        self.deserializer: Final = deserializer
        self.is_refused = False

    def ack(self, message: ReceivedMessage[Any]) -> None:
        """Do nothing: the message has no offset."""

    def release(self, message: ReceivedMessage[Any]) -> None:
        """Do nothing: the message has no queue to return to."""

    def check_loop(self) -> None:
        """Do nothing: the message is not bound to a loop."""

    def fate(self, _message: ReceivedMessage[Any]) -> str:
        """Return what happens to a message that fails here: nothing, its ordinary delivery is separate."""
        return "it was handed over by an operator"

    async def retry(self, _message: ReceivedMessage[Any], _delay_level: int) -> None:
        """Remember that the handler asked for a retry."""
        self.is_refused = True


async def consume_directly(
    call: Call, settler: DirectSettler, stored: StoredMessage, broker: str, later: Later, *, ordered: bool
) -> None:
    """Call the handler and return its outcome as an answer."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    window = Window(stored.queue_offset)
    window.is_dropped = True
    message = ReceivedMessage(stored, MessageQueue(stored.topic, broker, stored.queue_id), window, settler)
    result, remark, cancelled = ConsumeResult.CR_SUCCESS, None, cancellations()
    try:
        await call(message)
    except (Exception, asyncio.CancelledError) as error:
        if is_cancellation(error, cancelled):
            raise
        result, remark = ConsumeResult.CR_THROW_EXCEPTION, f"{type(error).__name__}: {error}"
    if settler.is_refused:
        result = ConsumeResult.CR_LATER
    body = ConsumeMessageDirectlyResult(
        consume_result=result.value,
        remark=remark,
        order=ordered,
        spent_time_mills=int((loop.time() - begun) * 1000),
    )
    later.answer(Answer(body=encode_body(body)))
