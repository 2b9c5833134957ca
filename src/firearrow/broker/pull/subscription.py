"""The tags that a consumer wants, as hash codes, by which the broker filters. Pure. Java: ``FilterAPI``.

The broker computes the codes itself, because some clients send none. A tag expression is ``*`` or tags joined by
``||``. Two tags may share a code; the client compares the tags themselves again.

Parsing an expression takes time, caching it takes memory, and every pull may bring a new expression. So an expression
has at most `MOST_CHARACTERS` and `MOST_TAGS`, and the total length of the cached expressions is bounded.
"""

from typing import Final

from firearrow.model.java_hash import tag_code
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData

TAG: Final = "TAG"
ALL: Final = "*"
SEPARATOR: Final = "||"
MOST_CHARACTERS: Final = 65_536
MOST_TAGS: Final = 4096
_CHARACTERS_REMEMBERED: Final = 4 * MOST_CHARACTERS


def is_tag_type(expression_type: str | None) -> bool:
    """Whether an expression is a tag expression; None and an empty text mean tags too."""
    return expression_type in (None, "", TAG)


def tags_of(expression: str | None) -> tuple[str, ...] | None:
    """Return the tags of an expression; None means all tags."""
    if not expression or expression == ALL:
        return None
    return tuple(tag for part in expression.split(SEPARATOR) if (tag := part.strip()))


def is_too_long(expression: str | None) -> bool:
    """Whether an expression is longer than allowed."""
    return (
        expression is not None
        and len(expression) > MOST_TAGS
        and (len(expression) > MOST_CHARACTERS or expression.count(SEPARATOR) >= MOST_TAGS)
    )


class _ExpressionCache:
    """A cache of expressions and their codes; a full cache is emptied."""

    def __init__(self) -> None:
        self.codes: dict[str, frozenset[int]] = {}
        self._characters = 0

    def add(self, expression: str, codes: frozenset[int]) -> None:
        if self._characters + len(expression) > _CHARACTERS_REMEMBERED:
            self.codes.clear()
            self._characters = 0
        self._characters += len(expression)
        self.codes[expression] = codes


_remembered: Final = _ExpressionCache()


def codes_of(expression: str | None) -> frozenset[int] | None:
    """Return the tag codes of an expression; None means all tags."""
    if not expression or expression == ALL:
        return None
    codes = _remembered.codes.get(expression)
    if codes is None:
        codes = frozenset(map(tag_code, tags_of(expression) or ()))
        if len(expression) <= MOST_CHARACTERS:
            _remembered.add(expression, codes)
    return codes


def wanted_codes(subscription: SubscriptionData) -> frozenset[int] | None:
    """Return the tag codes of a subscription; None means all tags."""
    if subscription.sub_string or not subscription.tags_set:
        return codes_of(subscription.sub_string)
    return frozenset(map(tag_code, subscription.tags_set))
