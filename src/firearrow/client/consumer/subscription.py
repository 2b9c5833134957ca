"""A group's subscription of a topic: everything, some tags, or a filter on properties or the body. Pure.

``*`` is everything; ``A || B`` means messages tagged A or B. Brokers filter by the hash of the tag only, so a consumer
compares the tag itself again. Java: ``FilterAPI.buildSubscriptionData``.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.errors import SettingsError
from firearrow.expression.cel.program import CEL, compile_cel
from firearrow.expression.errors import BadExpression
from firearrow.expression.sql import SQL92, compile_sql
from firearrow.model.java_hash import java_hash
from firearrow.model.names import topic_fault
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData

EVERYTHING: Final = "*"
TAG: Final = "TAG"
MOST_SAID: Final = 120
"""The most characters of an expression in an error."""


class Filter(Struct, frozen=True):
    """An expression by which brokers filter: on properties, made by `sql`, or on the body too, made by `cel`."""

    text: str
    kind: str = SQL92


def sql(text: str) -> Filter:
    """Return a filter by SQL92 for `topics` or `subscribe`: ``sql("amount > 100 AND city = 'Köln'")``.

    An expression that does not compile, or whose end would be ignored, raises ``SettingsError``. Without lark
    (``pip install 'firearrow[server]'``) only the broker checks the expression.
    """
    if not isinstance(text, str):
        raise SettingsError(f'{text!r} is not an expression; write a condition, as in sql("amount > 100")')
    try:
        program = compile_sql(text)
    except ImportError:
        return Filter(text)
    except BadExpression as bad:
        raise SettingsError(f"sql({_short(text)}): {bad}") from bad
    if program.ignored:
        raise SettingsError(
            f"sql({_short(text)}): brokers would ignore {_short(program.ignored)}, which SQL92 filters do not know; "
            "there is no LIKE and no arithmetic: use CONTAINS, STARTSWITH, ENDSWITH or comparisons"
        )
    return Filter(text)


def cel(text: str) -> Filter:
    """Return a filter by CEL for `topics` or `subscribe`: ``cel("body.amount > 100 && properties.city == 'Köln'")``.

    It looks at the properties and the JSON body of a message. FireArrow's brokers filter by it, Apache's do not: a
    consumer of a topic that one of Apache's brokers has raises ``Unsupported``. An expression that does not compile
    raises ``SettingsError``.
    """
    if not isinstance(text, str):
        raise SettingsError(f'{text!r} is not an expression; write a condition, as in cel("body.amount > 100")')
    try:
        compile_cel(text)
    except BadExpression as bad:
        raise SettingsError(f"cel({_short(text)}): {bad}") from bad
    return Filter(text, CEL)


def _short(text: str) -> str:
    return repr(text if len(text) <= MOST_SAID else text[:MOST_SAID] + "...")


Expression = str | Filter
"""The messages of a topic that a group wants: ``*``, tags as ``A || B``, or a filter on properties or the body."""
Topics = str | Iterable[str] | Mapping[str, Expression]
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


def subscription(topic: str, expression: Expression = EVERYTHING, *, version: int) -> Subscription:
    """Return the subscription for a topic and an expression; raise ``SettingsError`` if they are not valid."""
    fault = topic_fault(topic)
    if fault:
        raise SettingsError(fault)
    if isinstance(expression, Filter):
        return Subscription(topic, expression.text, expression.kind, frozenset(), version)
    if expression.strip() in ("", EVERYTHING):
        return Subscription(topic, EVERYTHING, TAG, frozenset(), version)
    tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
    if not tags:
        raise SettingsError(f"{expression!r} names no tag; write * for everything, or tags as A || B")
    return Subscription(topic, expression, TAG, tags, version)


def expressions(topics: Topics) -> dict[str, Expression]:
    """Return the expression of each topic; raise ``SettingsError`` for anything that names no topic."""
    if isinstance(topics, str):
        return {topics: EVERYTHING}
    if not isinstance(topics, Iterable):
        raise SettingsError(f"topics={topics!r}: write a topic, several, or a mapping of topics to their expressions")
    pairs: list[tuple[str, Expression]]
    pairs = list(topics.items()) if isinstance(topics, Mapping) else [(topic, EVERYTHING) for topic in topics]
    for topic, expression in pairs:
        _check_topic(topic, expression, topics)
    return dict(pairs)


def _check_topic(topic: object, expression: object, topics: object) -> None:
    if not isinstance(topic, str):
        raise SettingsError(f"topics={topics!r}: {topic!r} is not a topic; a topic is a str")
    if not isinstance(expression, (str, Filter)):
        raise SettingsError(
            f"topics={topics!r}: {expression!r} is not an expression for {topic!r}; write *, tags as in 'A || B', "
            "sql(...) or cel(...)"
        )
