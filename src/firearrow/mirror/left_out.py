"""Queues that a mirror does not copy now, why, and what their owner can do. Pure."""

from collections.abc import Callable, Mapping

from firearrow.errors import PartlyDone
from firearrow.model import MessageQueue


class LeftOutQueues:
    """The queues of all topics that are left out. ``say`` gets a line for each queue and reason that is new."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._reasons: dict[MessageQueue, str] = {}

    def note(self, queue: MessageQueue, reason: str) -> None:
        """Note a queue that is left out from now on."""
        if self._reasons.get(queue) != reason:
            self._say(f"queue {queue.broker_name}:{queue.queue_id} of {queue.topic} is not copied: {reason}")
        self._reasons[queue] = reason

    def replace(self, topic: str, reasons: Mapping[MessageQueue, str]) -> None:
        """Note the queues of a topic that are left out; those that were left out before are not any more."""
        for queue in [each for each in self._reasons if each.topic == topic and each not in reasons]:
            del self._reasons[queue]
        for queue in sorted(reasons):
            self.note(queue, reasons[queue])

    def require_none(self) -> None:
        """Raise ``PartlyDone`` with all queues that are left out, if there are some."""
        by_reason: dict[tuple[str, str], list[str]] = {}
        for queue, reason in sorted(self._reasons.items()):
            by_reason.setdefault((queue.topic, reason), []).append(f"{queue.broker_name}:{queue.queue_id}")
        if by_reason:
            told = "; ".join(
                f"{', '.join(queues)} of {topic}: {reason}" for (topic, reason), queues in by_reason.items()
            )
            raise PartlyDone(
                f"{len(self._reasons)} queues were left out, all others are copied; run the command again when this "
                f"is mended: {told}"
            )
