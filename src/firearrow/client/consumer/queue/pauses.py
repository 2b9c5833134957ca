"""The paused parts of a consumer: everything, topics, or queues. Pure.

The narrower setting wins: queue before topic, topic before consumer. A wider call clears the narrower
settings below it, so that ``pause()`` and ``resume()`` without arguments cover everything.

A failed message is delivered again through the group's retry topic; it is paused with the topic that it was sent to.
"""

from collections.abc import Iterable
from typing import Any

from firearrow.client.consumer.message import ReceivedMessage
from firearrow.model import MessageQueue
from firearrow.model.names import is_retry_topic

Pausable = str | MessageQueue
"""A topic, or a queue."""


class Pauses:
    """The pauses of one consumer."""

    def __init__(self) -> None:
        self._whole = False
        self._topics: dict[str, bool] = {}
        self._queues: dict[MessageQueue, bool] = {}

    def __bool__(self) -> bool:
        return self._whole or True in self._topics.values() or True in self._queues.values()

    def say(self, what: Iterable[Pausable], *, paused: bool) -> None:
        """Pause or resume topics and queues, or everything when none is given."""
        named = list(what)
        if not named:
            self._whole = paused
            self._topics.clear()
            self._queues.clear()
        for each in named:
            if isinstance(each, MessageQueue):
                self._queues[each] = paused
            else:
                self._topics[each] = paused
                self._queues = {queue: word for queue, word in self._queues.items() if queue.topic != each}

    def forget(self, queue: MessageQueue) -> None:
        """Clear the pause of a queue that another member owns now."""
        self._queues.pop(queue, None)

    def covers(self, queue: MessageQueue) -> bool:
        """Whether a whole queue is paused. A retry queue is paused only if everything is."""
        if is_retry_topic(queue.topic) and (False in self._topics.values() or False in self._queues.values()):
            return self._queues.get(queue, self._topics.get(queue.topic, False))
        return self._queues.get(queue, self._topics.get(queue.topic, self._whole))

    def holds(self, message: ReceivedMessage[Any]) -> bool:
        """Whether a message is paused."""
        if self.covers(message.queue):
            return True
        return is_retry_topic(message.queue.topic) and self._topics.get(message.topic, self._whole)
