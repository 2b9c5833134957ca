"""What a consumer wants, as the broker filters it: tags, by their hash codes. Pure. Java: ``FilterAPI``.

The codes that a client sends are not believed: some clients send none. A tag expression is ``*`` or tags joined by
``||``. Two tags may share a code; the client compares the tags themselves once more.
"""

from functools import lru_cache
from typing import Final

from firearrow.model.java_hash import tag_code
from firearrow.protocol.bodies.heartbeat import SubscriptionData

TAG: Final = "TAG"
ALL: Final = "*"
_EXPRESSIONS_REMEMBERED: Final = 4096


def is_tag_type(expression_type: str | None) -> bool:
    """Whether an expression is of tags, which is also meant when nothing is said."""
    return expression_type in (None, "", TAG)


def tags_of(expression: str | None) -> tuple[str, ...] | None:
    """The tags of an expression; None when it wants all."""
    if not expression or expression == ALL:
        return None
    return tuple(tag for part in expression.split("||") if (tag := part.strip()))


@lru_cache(_EXPRESSIONS_REMEMBERED)
def codes_of(expression: str | None) -> frozenset[int] | None:
    """The tag codes of an expression; None when it wants all."""
    tags = tags_of(expression)
    return None if tags is None else frozenset(map(tag_code, tags))


def wanted_codes(subscription: SubscriptionData) -> frozenset[int] | None:
    """The tag codes that a subscription wants; None when it wants all."""
    if subscription.sub_string or not subscription.tags_set:
        return codes_of(subscription.sub_string)
    return frozenset(map(tag_code, subscription.tags_set))
