"""Dead letters: what failed too often, of which topic, since when; and messages made of them to be consumed again.

A dead letter lies in ``%DLQ%GROUP``. Its properties name the topic it came from and the id it had there, its record how
often it was tried. RocketMQ keeps no reason: whether its attempts were used up or its consumer gave it up is all that
can be told, from the number of attempts and the limit of the group.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final
from zlib import crc32

from msgspec import Struct

from firearrow.admin.admin import Admin
from firearrow.client.consumer.pull_consumer import PullConsumer
from firearrow.client.producer.selector import queue_of_key
from firearrow.errors import NoSuchName, NotNow
from firearrow.model import Message, MessageQueue, StoredMessage, keys
from firearrow.model.flags import PERM_READ
from firearrow.model.names import DLQ_PREFIX, dlq_topic, is_dlq_topic

EXHAUSTED: Final = "attempts used up"
GIVEN_UP: Final = "given up by its consumer"
REDRIVEN: Final = "FIREARROW_REDRIVEN"
"""The property of a message that was sent again: the place of its dead letter."""

LEFT_BEHIND: Final = frozenset(
    {
        keys.RETRY_TOPIC, keys.ORIGIN_MESSAGE_ID, keys.RECONSUME_TIME, keys.MAX_RECONSUME_TIMES, keys.DLQ_ORIGIN_TOPIC,
        keys.DLQ_ORIGIN_MESSAGE_ID, keys.DELAY, keys.REAL_TOPIC, keys.REAL_QID, keys.WAIT, keys.CONSUME_START_TIME,
        keys.MIN_OFFSET, keys.MAX_OFFSET, keys.CLUSTER, keys.MSG_REGION, keys.TRACE_ON, keys.TIMER_DELAY_SEC,
        keys.TIMER_DELAY_MS, keys.TIMER_DELIVER_MS, keys.TIMER_OUT_MS, keys.TIMER_ENQUEUE_MS, keys.TIMER_DEQUEUE_MS,
        keys.TIMER_ROLL_TIMES, keys.TIMER_ROLL_LABEL, keys.TIMER_DEL_UNIQKEY, keys.TIMER_DELAY_LEVEL, keys.TRAN_MSG,
        keys.PGROUP, keys.ROW_REPEATS, keys.POP_CK, keys.POP_CK_OFFSET, keys.FIRST_POP_TIME, keys.CRC32,
    }
)  # fmt: skip
"""Properties of the failed attempts, which a message that is sent again does not have."""


class DeadLetter(Struct, frozen=True):
    """One dead letter."""

    group: str
    queue: MessageQueue
    stored: StoredMessage
    max_attempts: int
    """The group's limit of retries, by its settings at the broker; -1 if they are not known."""

    @property
    def topic(self) -> str:
        """The topic that it came from; empty if its properties do not say."""
        found = self.stored.properties
        return found.get(keys.DLQ_ORIGIN_TOPIC) or found.get(keys.RETRY_TOPIC, "")

    @property
    def message_id(self) -> str:
        """The id that its producer gave it."""
        return self.stored.unique_key or self.stored.properties.get(keys.ORIGIN_MESSAGE_ID, "")

    @property
    def attempts(self) -> int:
        """The number of deliveries: the first, and every retry."""
        return self.stored.reconsume_times

    @property
    def why(self) -> str:
        """Whether its attempts were used up, or its consumer gave it up before."""
        return GIVEN_UP if 0 <= self.attempts <= self.max_attempts else EXHAUSTED

    @property
    def place(self) -> str:
        """A text that tells this dead letter from all others."""
        queue, stored = self.queue, self.stored
        return f"{self.group}/{queue.broker_name}/{queue.queue_id}/{stored.queue_offset}/{stored.store_timestamp}"

    def again(self, redrive: str) -> Message:
        """Return the message that is sent to the topic again, by a redrive of this name."""
        properties = {name: value for name, value in self.stored.properties.items() if name not in LEFT_BEHIND}
        properties[REDRIVEN] = self.place
        properties[keys.ROW_ID] = f"{redrive}/{self.place}"  # our brokers store a message of a redrive once
        return Message(self.topic, self.stored.body, properties, self.stored.flag)

    def queue_among(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        """Return the queue that it is sent to, the same whenever it is sent: brokers know repeats by queue."""
        sharding_key = self.stored.properties.get(keys.SHARDING_KEY)
        if sharding_key:
            return queue_of_key(queues, sharding_key)
        return sorted(queues)[crc32(self.place.encode()) % len(queues)]


class Summary(Struct, frozen=True):
    """The dead letters of a group that came from one topic with one tag, for one reason."""

    group: str
    topic: str
    tag: str
    why: str
    messages: int
    first_ms: int
    last_ms: int
    fewest_attempts: int
    most_attempts: int


class DeadLetterChoice(Struct, frozen=True):
    """A choice of dead letters; an empty field chooses all."""

    ids: frozenset[str] = frozenset()
    topic: str = ""
    tag: str = ""
    key: str = ""
    since_ms: int = 0
    until_ms: int = 0
    """Exclusive; 0: no end."""

    @property
    def is_everything(self) -> bool:
        """Whether it chooses all."""
        return self == DeadLetterChoice()

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a dead letter is chosen."""
        stored = letter.stored
        return (
            (not self.ids or bool(self.ids & {letter.message_id, stored.properties.get(keys.ORIGIN_MESSAGE_ID, "")}))
            and self.topic in ("", letter.topic)
            and self.tag in ("", stored.tag)
            and (not self.key or self.key in stored.keys)
            and stored.store_timestamp >= self.since_ms
            and (not self.until_ms or stored.store_timestamp < self.until_ms)
        )


def summaries(letters: Iterable[DeadLetter]) -> list[Summary]:
    """Sum dead letters up, by group, topic, tag and reason."""
    found: dict[tuple[str, str, str, str], list[DeadLetter]] = {}
    for letter in letters:
        found.setdefault((letter.group, letter.topic, letter.stored.tag, letter.why), []).append(letter)
    return [
        Summary(
            *key,
            len(each),
            min(letter.stored.store_timestamp for letter in each),
            max(letter.stored.store_timestamp for letter in each),
            min(letter.attempts for letter in each),
            max(letter.attempts for letter in each),
        )
        for key, each in sorted(found.items())
    ]


class DeadLetters:
    """The dead letters of a cluster."""

    def __init__(self, admin: Admin, reader: PullConsumer) -> None:
        self._admin = admin
        self._reader = reader

    async def groups(self) -> list[str]:
        """Return the groups that have a topic of dead letters."""
        return [topic.name[len(DLQ_PREFIX) :] for topic in await self._admin.topics.list() if is_dlq_topic(topic.name)]

    async def read(self, group: str) -> AsyncIterator[DeadLetter]:
        """Yield the dead letters of a group up to the present end, queue by queue."""
        topic = dlq_topic(group)
        await self._check(group, topic)
        most = await self._attempts(group)
        for queue, bounds in (await self._reader.bounds(topic)).items():
            offset = bounds.first
            while offset < bounds.end:
                pulled = await self._reader.pull_bytes(queue, offset)
                for stored in pulled.messages():
                    yield DeadLetter(group, queue, stored, most)
                if pulled.next_offset <= offset:
                    break
                offset = pulled.next_offset

    async def _check(self, group: str, topic: str) -> None:
        held = next((each for each in await self._admin.topics.list() if each.name == topic), None)
        if held is None:
            raise NoSuchName(f"group {group!r} has no dead letters; firearrow dlq list shows who has")
        if not all(each.perm & PERM_READ for each in held.brokers):
            raise NotNow(
                f"topic {topic} cannot be read, as brokers of old versions make it; "
                f"firearrow topic update '{topic}' --perm rw changes that"
            )

    async def _attempts(self, group: str) -> int:
        known: Mapping[str, object] = await self._admin.offsets.groups()
        return getattr(known.get(group), "retry_max_times", -1)
