"""The end of a message's time at a handler: it is acknowledged, released, or delivered again.

A finished message frees room and moves the offset. A failed message is sent back (`send_back`), and a broker delivers
it again later; if it cannot be sent back, it stays here and is tried again, so no message is skipped.
"""

import asyncio
from typing import Any, Final

from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.queue.delivery_meter import DeliveryMeter
from firearrow.client.consumer.queue.outlet import Outlet
from firearrow.client.consumer.queue.send_back import TO_DEAD_LETTERS, SendBack
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.instance import Instance
from firearrow.client.misuse import check_loop
from firearrow.serializers import Deserializer

AGAIN_S: Final = 5.0
"""Back-off before a message that could not be sent back is handled here again."""


class Settlement:
    """Settles the messages of one member; its messages know it as their ``Settler``."""

    def __init__(
        self,
        instance: Instance,
        settings: ConsumerSettings,
        outlet: Outlet,
        deserializer: Deserializer[Any] | None,
        meter: DeliveryMeter | None = None,
    ) -> None:
        self._meter = meter
        self._instance = instance
        self._settings = settings
        self._outlet = outlet
        self._send_backs = SendBack(instance, settings)
        self.deserializer: Final = deserializer
        self.failures = 0
        """Messages whose handler failed."""

    def ack(self, message: ReceivedMessage[Any]) -> None:
        """Settle a message that is handled."""
        if self._meter is not None:
            self._meter.settled(message, is_success=True)
        self._finish(message)

    def _finish(self, message: ReceivedMessage[Any]) -> None:
        flow = self._outlet.flow_of(message)
        if flow is None:
            self._settle_outdated(message)
        elif flow.finish(message, asyncio.get_running_loop().time()) and flow.ordered:
            self._outlet.offer(flow)

    def _settle_outdated(self, message: ReceivedMessage[Any]) -> None:
        """Note that a handler has ended with an outdated message: an ordered queue may have waited for it."""
        for flow in self._outlet.flows_of(message.queue):
            if message in flow.outdated:
                flow.take_back(message)
                self._outlet.offer(flow)

    def release(self, message: ReceivedMessage[Any]) -> None:
        """Put a message back, to wait for a handler."""
        flow = self._outlet.flow_of(message)
        if flow is None:
            self._settle_outdated(message)
        if flow is None or not flow.take_back(message):
            return
        again = ReceivedMessage(message.stored, message.queue, message._window, self)
        again._attempts = message._attempts
        if self._meter is not None:
            self._meter.arrived((again,))
        self._outlet.put_back(flow, again)

    async def retry(self, message: ReceivedMessage[Any], delay_level: int) -> None:
        """Settle a message that is to be delivered again.

        If the waiting task is cancelled (a handler's task), the message is settled nevertheless.
        """
        self.failures += 1
        if self._meter is not None:
            self._meter.settled(message, is_success=False)
        flow = self._outlet.flow_of(message)
        if flow is None or message._window.is_dropped:
            self._settle_outdated(message)
            return  # the present owner of the queue gets it
        if self._settings.broadcasting:
            self._finish(message)
        elif flow.ordered and delay_level >= 0 and not self._is_beyond_limit(message):
            message._attempts += 1
            self._again(message, self._settings.suspend_ms / 1000)
        else:
            level = TO_DEAD_LETTERS if flow.ordered else delay_level
            await asyncio.shield(self._instance.tasks.spawn(self._send_back(message, level), "send back"))

    def check_loop(self) -> None:
        """Raise ``ClientClosed`` in another event loop than the consumer's."""
        check_loop(self._instance.loop, "consumer", "settle its messages in the loop that opened it")

    def fate(self, message: ReceivedMessage[Any]) -> str:
        """Return what happens to a message that fails now, as part of a log line."""
        if self._settings.broadcasting:
            return "it is given up, as it is broadcast"
        return "it goes to the dead letters" if self._is_beyond_limit(message) else "it is delivered again"

    async def _send_back(self, message: ReceivedMessage[Any], delay_level: int) -> None:
        if await self._send_backs.send_back(message, delay_level):
            self._finish(message)
        else:
            message._attempts += 1
            self._again(message, AGAIN_S)

    def _is_beyond_limit(self, message: ReceivedMessage[Any]) -> bool:
        """Whether a message has had all its deliveries; ordered queues have no limit unless one is set."""
        limit = self._settings.max_reconsume_times if self._settings.ordered else self._settings.reconsume_limit
        return 0 <= limit <= message.reconsume_times

    def _again(self, message: ReceivedMessage[Any], after_s: float) -> None:
        self._instance.tasks.spawn(self._release_later(message, after_s), f"again {message.message_id}")

    async def _release_later(self, message: ReceivedMessage[Any], after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.release(message)
