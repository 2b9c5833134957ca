"""What a consumer wants, as the broker filters it: tags, by their hash codes. Pure. Java: ``FilterAPI``.

The codes that a client sends are not believed: some clients send none. A tag expression is ``*`` or tags joined by
``||``. Two tags may share a code; the client compares the tags themselves once more.

Reading an expression takes time and remembering it takes room, and every pull may bring another. So one of a pull has
at most `MOST_CHARACTERS` and `MOST_TAGS`, and what is remembered is bounded by the length of the expressions.
"""

from typing import Final

from firearrow.model.java_hash import tag_code
from firearrow.protocol.bodies.heartbeat import SubscriptionData

TAG: Final = "TAG"
ALL: Final = "*"
SEPARATOR: Final = "||"
MOST_CHARACTERS: Final = 65_536
MOST_TAGS: Final = 4096
_CHARACTERS_REMEMBERED: Final = 4 * MOST_CHARACTERS


def is_tag_type(expression_type: str | None) -> bool:
    """Whether an expression is of tags, which is also meant when nothing is said."""
    return expression_type in (None, "", TAG)


def tags_of(expression: str | None) -> tuple[str, ...] | None:
    """The tags of an expression; None when it wants all."""
    if not expression or expression == ALL:
        return None
    return tuple(tag for part in expression.split(SEPARATOR) if (tag := part.strip()))


def is_too_long(expression: str | None) -> bool:
    """Whether an expression is longer than a pull may bring."""
    return (
        expression is not None
        and len(expression) > MOST_TAGS
        and (len(expression) > MOST_CHARACTERS or expression.count(SEPARATOR) >= MOST_TAGS)
    )


class _Remembered:
    """Expressions and their codes. When they have become too many, all are forgotten."""

    def __init__(self) -> None:
        self.codes: dict[str, frozenset[int]] = {}
        self._characters = 0

    def add(self, expression: str, codes: frozenset[int]) -> None:
        if self._characters + len(expression) > _CHARACTERS_REMEMBERED:
            self.codes.clear()
            self._characters = 0
        self._characters += len(expression)
        self.codes[expression] = codes


_remembered: Final = _Remembered()


def codes_of(expression: str | None) -> frozenset[int] | None:
    """The tag codes of an expression; None when it wants all."""
    if not expression or expression == ALL:
        return None
    codes = _remembered.codes.get(expression)
    if codes is None:
        codes = frozenset(map(tag_code, tags_of(expression) or ()))
        if len(expression) <= MOST_CHARACTERS:
            _remembered.add(expression, codes)
    return codes


def wanted_codes(subscription: SubscriptionData) -> frozenset[int] | None:
    """The tag codes that a subscription wants; None when it wants all."""
    if subscription.sub_string or not subscription.tags_set:
        return codes_of(subscription.sub_string)
    return frozenset(map(tag_code, subscription.tags_set))
