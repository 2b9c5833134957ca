"""A pull consumer for readers of logs: it also sees hidden queues, which a topic has lost by shrinking."""

import asyncio
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from firearrow.client.consumer.broker_queries import PulledBytes, PullOrder
from firearrow.client.consumer.hidden_queues import HiddenQueues, QueueExtent
from firearrow.client.consumer.pull_consumer import PullConsumer
from firearrow.errors import NoRoute, RequestRefused
from firearrow.model import MessageQueue
from firearrow.protocol.codes import ResponseCode


class LogConsumer(PullConsumer[bytes]):
    """Reads every queue of which a log has messages. ``queues`` and ``bounds`` are still those of the topic."""

    async def open(self) -> None:
        """Open the consumer."""
        await super().open()
        self._hidden = HiddenQueues(self._member.receiver.puller)

    async def held_queues(self, topic: str, known: Iterable[MessageQueue] = ()) -> dict[MessageQueue, QueueExtent]:
        """Return what the logs have of each queue of a topic, also on brokers where the topic has no queues now.

        ``known`` are queues that the caller has read before: those without messages are returned as empty ones, if
        their broker has the topic. A broker that has it no longer has no queues in the answer. Raise ``NoRoute`` if no
        broker has it.
        """
        route = await self._member.instance.route(topic)
        numbers: dict[str, list[int]] = {name: [] for name in route.brokers}
        for queue in known:
            if queue.topic == topic and queue.broker_name in numbers:
                numbers[queue.broker_name].append(queue.queue_id)
        answers = await asyncio.gather(*(self._held(name, topic, ids) for name, ids in numbers.items()))
        if not any(answer is not None for answer in answers):
            raise NoRoute(f"the brokers of the route of topic {topic} do not have the topic")
        return {
            queue: replace(each, is_readable=queue.broker_name not in route.closed)
            for answer in answers
            for queue, each in (answer or {}).items()
        }

    async def _held(self, broker: str, topic: str, known: Collection[int]) -> dict[MessageQueue, QueueExtent] | None:
        """Return what a broker has of a topic; None if it does not have the topic, as an old route may not show."""
        try:
            return await self._hidden.held(broker, topic, known)
        except RequestRefused as refusal:
            if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return None

    async def _pull(self, order: PullOrder) -> PulledBytes:
        return await self._hidden.pull(order, super()._pull)
