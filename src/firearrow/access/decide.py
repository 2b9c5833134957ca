"""Whether a user may do something, and which rule says so. Pure.

Java: ``AclAuthorizationHandler``, ``UserAuthorizationHandler``. A super user may do everything. Of the rules that match
the resource, an action and the source, the most particular one decides: a rule about a kind before one about
everything, a literal name before a prefix, a longer prefix before a shorter one, a prefix before all names. Custom
rules come before default ones. Where no rule matches, the answer is no. Of two rules about the same resource the one
that denies wins (in Apache's code the one that allows does, against its own comment).
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from firearrow.access.rules import (
    Action,
    Decision,
    ResourceKind,
    ResourcePattern,
    Rule,
    Rules,
    User,
    UserStatus,
    UserType,
)

NO_RULES: Final = Rules()
_ORDER: Final = {ResourcePattern.LITERAL: 0, ResourcePattern.PREFIXED: 1, ResourcePattern.ANY: 2}


class Need(Struct, frozen=True):
    """An effect of a request: one of these actions on one thing."""

    kind: ResourceKind
    name: str
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        """The thing, as Apache writes it."""
        return f"{self.kind.value}:{self.name}"


class AccessVerdict(Struct, frozen=True):
    """Whether something is allowed, and why: the rule, or a reason without one."""

    allowed: bool
    reason: str
    rule: Rule | None = None


SUPER: Final = AccessVerdict(allowed=True, reason="a super user may do everything")
UNMATCHED: Final = AccessVerdict(allowed=False, reason="no matched policies.")


def decide(user: User, rules: Rules, need: Need, source: str) -> AccessVerdict:
    """Return whether a user may do what a request needs from an address."""
    if user.status is UserStatus.DISABLE:
        return AccessVerdict(allowed=False, reason=f"User:{user.name} is disabled.")
    if user.kind is UserType.SUPER:
        return SUPER
    for some in (rules.custom, rules.default):
        rule = _first(_matching(some, need, source))
        if rule is not None:
            allowed = rule.decision is Decision.ALLOW
            return AccessVerdict(allowed, "the decision is allow." if allowed else "the decision is deny.", rule)
    return UNMATCHED


def refusal_text(user: User, need: Need, source: str, verdict: AccessVerdict) -> str:
    """Return the words in which a request is refused: Apache's, because operators search for them."""
    return f"{user.subject} has no permission to access {need} from {source}, {verdict.reason}"


def _matching(rules: Iterable[Rule], need: Need, source: str) -> list[Rule]:
    return [
        rule
        for rule in rules
        if rule.resource.matches(need.kind, need.name)
        and (Action.ALL in rule.actions or any(action in rule.actions for action in need.actions))
        and rule.matches_source(source)
    ]


def _first(rules: list[Rule]) -> Rule | None:
    return min(rules, key=_particularity, default=None)


def _particularity(rule: Rule) -> tuple[bool, int, int, bool]:
    """A value that is smaller for a rule that decides before another."""
    resource = rule.resource
    return (
        resource.kind is ResourceKind.ANY,
        _ORDER[resource.pattern],
        -len(resource.name),
        rule.decision is Decision.ALLOW,
    )
