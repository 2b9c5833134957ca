"""A group's subscription of a topic: everything, some tags, or an SQL expression. Pure.

``*`` is everything; ``A || B`` means messages tagged A or B. Brokers filter by the hash of the tag only, so a consumer
compares the tag itself again. Java: ``FilterAPI.buildSubscriptionData``.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.errors import SettingsError
from firearrow.model.java_hash import java_hash
from firearrow.model.names import topic_fault
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData

EVERYTHING: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"

Topics = str | Iterable[str] | Mapping[str, str]
"""A topic, several, or topics with their expressions."""


class Subscription(Struct, frozen=True):
    """One topic of a group. ``version`` grows with every change, so that brokers know which is newest."""

    topic: str
    expression: str = EVERYTHING
    kind: str = TAG
    tags: frozenset[str] = frozenset()
    version: int = 0

    @property
    def is_by_tag(self) -> bool:
        """Whether the subscription filters by tag."""
        return self.kind == TAG

    def wants(self, tag: str) -> bool:
        """Whether a message with this tag passes the tag filter."""
        return not self.tags or tag in self.tags

    def at(self, version: int) -> "Subscription":
        """Return a copy with a newer version."""
        return replace(self, version=version)

    def data(self) -> SubscriptionData:
        """Return the wire form of the subscription."""
        tags = sorted(self.tags)
        return SubscriptionData(
            topic=self.topic,
            sub_string=self.expression,
            expression_type=self.kind,
            tags_set=tags,
            code_set=[java_hash(tag) for tag in tags],
            sub_version=self.version,
        )


def doubt(wanted: Subscription) -> str:
    """Return a warning if a tag expression is probably a mistake; else an empty text.

    A tag may contain a comma or ``&&``, so that is not an error.
    """
    for tag in sorted(wanted.tags):
        for mark in (",", "&&"):
            if mark in tag:
                return f"{tag!r} is one tag, {mark} included; write || between tags, as in 'A || B'"
    return ""


def subscription(topic: str, expression: str = EVERYTHING, *, version: int, kind: str = TAG) -> Subscription:
    """Return the subscription for a topic and an expression; raise ``SettingsError`` if they are not valid."""
    fault = topic_fault(topic)
    if fault:
        raise SettingsError(fault)
    if kind == SQL92:
        return Subscription(topic, expression, SQL92, frozenset(), version)
    if kind != TAG:
        raise SettingsError(f"{kind!r} is not a kind of filter; there are {TAG} and {SQL92}")
    if expression.strip() in ("", EVERYTHING):
        return Subscription(topic, EVERYTHING, TAG, frozenset(), version)
    tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
    if not tags:
        raise SettingsError(f"{expression!r} names no tag; write * for everything, or tags as A || B")
    return Subscription(topic, expression, TAG, tags, version)


def expressions(topics: Topics) -> dict[str, str]:
    """Return the expression of each topic; raise ``SettingsError`` for anything that names no topic."""
    if isinstance(topics, str):
        return {topics: EVERYTHING}
    if not isinstance(topics, Iterable):
        raise SettingsError(f"topics={topics!r}: write a topic, several, or a mapping of topics to their expressions")
    pairs = list(topics.items()) if isinstance(topics, Mapping) else [(topic, EVERYTHING) for topic in topics]
    for topic, expression in pairs:
        _check_topic(topic, expression, topics)
    return dict(pairs)


def _check_topic(topic: object, expression: object, topics: object) -> None:
    if not isinstance(topic, str):
        raise SettingsError(f"topics={topics!r}: {topic!r} is not a topic; a topic is a str")
    if not isinstance(expression, str):
        raise SettingsError(
            f"topics={topics!r}: {expression!r} is not an expression for {topic!r}; write * or tags as in 'A || B'"
        )
