"""Users and rules as their bodies on the wire, and back. Pure. Java: ``UserConverter``, ``AclConverter``.

Apache drops a word for an action that it does not know, and with it a part of a rule; here the body is refused.
"""

from collections.abc import Iterable

from firearrow.access.accounts import MASK, denied
from firearrow.access.rules import (
    USER_PREFIX,
    Action,
    Decision,
    Resource,
    Rule,
    Rules,
    User,
    parse_resource,
    star_fault,
    word,
)
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry, UserInfo

CUSTOM = "Custom"
DEFAULT = "Default"


def user_info(user: User) -> UserInfo:
    """Return a user for an answer; the secret is masked."""
    return UserInfo(username=user.name, password=MASK, user_type=user.kind.value, user_status=user.status.value)


def acl_info(name: str, rules: Rules) -> AclInfo:
    """Return the rules of a user for an answer."""
    policies = [
        Policy(policy_type=kind, entries=[_entry(rule) for rule in some])
        for kind, some in ((CUSTOM, rules.custom), (DEFAULT, rules.default))
        if some
    ]
    return AclInfo(subject=USER_PREFIX + name, policies=policies)


def _entry(rule: Rule) -> PolicyEntry:
    return PolicyEntry(
        resource=str(rule.resource),
        actions=[action.value for action in rule.actions],
        source_ips=list(rule.sources) or None,
        decision=rule.decision.value,
    )


def rules_in(info: AclInfo) -> Rules:
    """Return the rules in a body; raise ``Refused`` when one cannot be understood."""
    found: dict[str, list[Rule]] = {CUSTOM: [], DEFAULT: []}
    for policy in info.policies or []:
        kind = next((name for name in found if name.lower() == (policy.policy_type or CUSTOM).lower()), CUSTOM)
        found[kind] += [_rule(entry) for entry in policy.entries or []]
    if not found[CUSTOM] and not found[DEFAULT]:
        raise denied("The policies is empty.")
    return Rules(tuple(found[CUSTOM]), tuple(found[DEFAULT]))


def _rule(entry: PolicyEntry) -> Rule:
    decision = word(Decision, entry.decision)
    if decision is None:
        raise denied("The decision is null or illegal.")
    return Rule(resource_in(entry.resource), actions_in(entry.actions or ()), decision, tuple(entry.source_ips or ()))


def resource_in(text: str | None) -> Resource:
    """Return the resource that a text names; raise ``Refused`` when it names none."""
    resource, fault = parse_resource(text), star_fault(text)
    if fault is not None:
        raise denied(fault)
    if resource is None:
        raise denied("The resource is null.")
    return resource


def actions_in(texts: Iterable[str]) -> tuple[Action, ...]:
    """Return the actions that texts name; raise ``Refused`` for a text that names none."""
    actions: dict[Action, None] = {}
    for text in texts:
        action = word(Action, text)
        if action is None:
            known = ", ".join(one.value for one in Action)
            raise denied("The actions can not be Any." if text.lower() == "any" else f"{text!r} is not one of {known}")
        actions[action] = None
    return tuple(actions)
