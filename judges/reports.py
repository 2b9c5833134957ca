"""The reports of a judge: the messages that it sent and received.

received.assert_exactly(sent)      every acknowledged body once, byte for byte, and nothing else
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from judges.payload import Payload, set_digest

SHOWN = 10


@dataclass(frozen=True)
class SendReport:
    """One send request and its outcome. Transactions count as sent whatever was decided about them."""

    payload: Payload
    indexes: tuple[int, ...]
    """The messages that the broker acknowledged, or that were handed over one-way."""
    failed: tuple[int, ...]
    statuses: Mapping[str, int]
    queues: Mapping[str, int]
    """Messages by `BROKER:QUEUE`, for the clients that tell."""
    errors: tuple[str, ...]
    tags: tuple[str, ...]
    elapsed_ms: int

    def where(self, chosen: Callable[[int], bool]) -> "SendReport":
        """The same report about some of the messages alone."""
        return replace(self, indexes=tuple(filter(chosen, self.indexes)))

    def joined(self, other: "SendReport") -> "SendReport":
        """This report and another about messages of the same payload."""
        assert self.payload == other.payload, "messages of two payloads are told apart, so report on them apart"
        return replace(self, indexes=self.indexes + other.indexes, failed=self.failed + other.failed)

    def tag(self, index: int) -> str:
        """The tag of one message; tags were given in turn."""
        return self.tags[index % len(self.tags)] if self.tags else ""

    @cached_property
    def by_digest(self) -> Mapping[str, int]:
        """Number of the message by the digest of its body."""
        return {self.payload.digest(index): index for index in self.indexes}

    @property
    def digest(self) -> str:
        """One digest of all bodies."""
        return set_digest(self.by_digest)

    def assert_all_sent(self) -> None:
        """Fail unless every message was taken."""
        assert not self.errors, f"{len(self.failed)} not sent: {self.errors}"
        told = sum(self.statuses.values())
        ok = self.statuses.get("SEND_OK", 0)
        assert ok == told, f"statuses other than SEND_OK: {dict(self.statuses)}"


class Delivery(msgspec.Struct, frozen=True):
    """One message as a listener saw it."""

    digest: str
    size: int
    queue: int
    offset: int
    times: int
    born_ms: int
    stored_ms: int
    seen_ms: int
    failed: bool
    broker: str | None = None
    tag: str | None = None
    keys: str | None = None
    properties: dict[str, str] | None = None

    @property
    def lag_ms(self) -> int:
        """From the producer's stamp to the listener."""
        return self.seen_ms - self.born_ms


@dataclass(frozen=True)
class ReceiveReport:
    """Every delivery to one consumer, in the order in which its listener saw them."""

    deliveries: tuple[Delivery, ...]

    @cached_property
    def messages(self) -> tuple[Delivery, ...]:
        """The deliveries that the listener accepted."""
        return tuple(delivery for delivery in self.deliveries if not delivery.failed)

    @property
    def digest(self) -> str:
        """One digest of all accepted bodies."""
        return set_digest(message.digest for message in self.messages)

    @property
    def queues(self) -> Mapping[str, int]:
        """Messages by `BROKER:QUEUE`."""
        return Counter(f"{message.broker}:{message.queue}" for message in self.messages)

    def indexes(self, sent: SendReport) -> list[int]:
        """The numbers of the messages of `sent`, in the order of arrival."""
        return [sent.by_digest[m.digest] for m in self.messages if m.digest in sent.by_digest]

    def assert_exactly(self, sent: SendReport) -> None:
        """Fail unless every body of `sent` arrived once, byte for byte, and nothing else did."""
        counts = Counter(message.digest for message in self.messages)
        missing = [index for digest, index in sent.by_digest.items() if digest not in counts]
        repeated = [sent.by_digest.get(digest, -1) for digest, times in counts.items() if times > 1]
        foreign = [m for m in self.messages if m.digest not in sent.by_digest]
        assert self.digest == sent.digest, (
            f"{len(missing)} missing {missing[:SHOWN]}, {len(repeated)} more than once {repeated[:SHOWN]}, "
            f"{len(foreign)} altered or foreign {foreign[:SHOWN]} (-1: foreign), of {len(sent.by_digest)} sent"
        )

    def assert_tags_and_keys(self, sent: SendReport) -> None:
        """Fail unless each message carries the tag and the key it was sent with."""
        for message in self.messages:
            index = sent.by_digest[message.digest]
            assert (message.tag or "") == sent.tag(index), f"message {index} came with tag {message.tag!r}"
            assert message.keys == sent.payload.key(index), f"message {index} came with keys {message.keys!r}"

    def assert_ordered(self, sent: SendReport, shards: int) -> None:
        """Fail unless each shard (number modulo `shards`) arrived in the order sent."""
        last: dict[int, int] = {}
        for index in self.indexes(sent):
            before = last.get(index % shards, -1)
            assert before < index, f"shard {index % shards}: message {index} came after {before}"
            last[index % shards] = index
