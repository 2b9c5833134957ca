"""The topic of a stored message, for requests that name the message by its place in the log.

A message that waits in a topic of the broker's own (for its time, or for the end of its transaction) belongs to the
topic that it waits for. Clients cannot send to those topics, so the property that names that topic is the broker's.
"""

from typing import Final

from firearrow.access.guard import GoOn
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.errors import IllegalMessage, OffsetNotStored
from firearrow.model import keys
from firearrow.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from firearrow.record.decode import peek
from firearrow.record.properties import decode_properties
from firearrow.remoting.handlers import Answer, Call, Later
from firearrow.store.read.lookup import Lookups

WAITING: Final = frozenset({HALF_TOPIC, CHECK_MAX_TIME_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC})


class StoredTopics:
    """Looks up topics of messages."""

    def __init__(self, lookups: Lookups, lanes: Lanes) -> None:
        self._lookups = lookups
        self._lanes = lanes

    def find(self, call: Call, place: int | str, go_on: GoOn, *, is_change: bool) -> Later:
        """Answer a call with what ``go_on`` makes of the topic of the message at a place; None: there is no message.

        A change goes on even if its connection ends meanwhile.
        """
        later = call.later()  # with header and body, which the handler needs that goes on
        self._lanes.add(later, WaitKind.NAMED if is_change else WaitKind.DEVICE, self._find(place, go_on))
        return later

    async def _find(self, place: int | str, go_on: GoOn) -> Answer | Later | None:
        lookups = self._lookups
        try:
            record = await (lookups.by_physical(place) if isinstance(place, int) else lookups.by_message_id(place))
        except (OffsetNotStored, IllegalMessage):
            return go_on(None)
        return go_on(topic_of(record))


def topic_of(record: bytes) -> str:
    """Return the topic that a record belongs to."""
    head = peek(record)
    if head.topic not in WAITING:
        return head.topic
    return decode_properties(head.properties(record)).get(keys.REAL_TOPIC, head.topic)
