"""The rule that decides, and the default where none does."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firearrow.access.decide import Need, decide
from firearrow.access.rules import (
    Action,
    Decision,
    Resource,
    ResourceKind,
    ResourcePattern,
    Rule,
    Rules,
    User,
    UserStatus,
    UserType,
    is_within,
    parse_resource,
    star_fault,
    subject_user,
)

ALICE = User("alice", "s3cret")
HERE = "10.0.0.7"


def rule(resource: str, *actions: str, decision: Decision = Decision.ALLOW, sources: tuple[str, ...] = ()) -> Rule:
    parsed = parse_resource(resource)
    assert parsed is not None
    return Rule(parsed, tuple(map(Action, actions or ("All",))), decision, sources)


def deny(resource: str, *actions: str, sources: tuple[str, ...] = ()) -> Rule:
    return rule(resource, *actions, decision=Decision.DENY, sources=sources)


def pub(name: str = "orders") -> Need:
    return Need(ResourceKind.TOPIC, name, (Action.PUB,))


def allowed(*rules: Rule, need: Need | None = None, source: str = HERE) -> bool:
    return decide(ALICE, Rules(rules), need or pub(), source).allowed


def test_nothing_is_allowed_without_a_rule() -> None:
    verdict = decide(ALICE, Rules(), pub(), HERE)
    assert (verdict.allowed, verdict.rule, verdict.reason) == (False, None, "no matched policies.")


def test_a_super_user_needs_no_rule_and_a_disabled_one_gets_nothing() -> None:
    root = User("root", "x", UserType.SUPER)
    assert decide(root, Rules((deny("*"),)), pub(), HERE).allowed
    assert not decide(User("root", "x", UserType.SUPER, UserStatus.DISABLE), Rules(), pub(), HERE).allowed


@pytest.mark.parametrize("resource", ["*", "Topic:*", "Topic:ord*", "Topic:orders", "topic:orders"])
def test_patterns_that_match(resource: str) -> None:
    assert allowed(rule(resource, "Pub"))


@pytest.mark.parametrize("resource", ["Topic:order", "Topic:orders1*", "Group:orders", "Group:*", "Topic:Orders"])
def test_patterns_that_do_not_match(resource: str) -> None:
    assert not allowed(rule(resource, "Pub"))


def test_one_of_the_wanted_actions_is_enough_and_another_action_is_not() -> None:
    need = Need(ResourceKind.TOPIC, "orders", (Action.PUB, Action.SUB, Action.GET))
    assert allowed(rule("Topic:orders", "Get"), need=need)
    assert not allowed(rule("Topic:orders", "Create"), need=need)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ((deny("*"), rule("Topic:*")), True),
        ((rule("*"), deny("Topic:*")), False),
        ((deny("Topic:*"), rule("Topic:ord*")), True),
        ((rule("Topic:ord*"), deny("Topic:order*")), False),
        ((deny("Topic:order*"), rule("Topic:orders")), True),
        ((rule("Topic:orders*"), deny("Topic:orders")), False),
    ],
)
def test_the_most_particular_rule_decides(rules: tuple[Rule, ...], expected: bool) -> None:
    assert allowed(*rules) is expected
    assert allowed(*reversed(rules)) is expected


def test_of_two_rules_about_one_resource_the_denial_wins() -> None:
    assert not allowed(rule("Topic:orders"), deny("Topic:orders"))
    assert not allowed(deny("Topic:orders"), rule("Topic:orders"))


def test_default_rules_count_only_where_no_custom_rule_matches() -> None:
    rules = Rules((deny("Topic:orders", "Pub"),), (rule("Topic:*"),))
    assert not decide(ALICE, rules, pub(), HERE).allowed
    assert decide(ALICE, rules, pub("others"), HERE).allowed


def test_sources() -> None:
    inside = rule("*", sources=("10.0.0.0/24", "fe80::/10"))
    assert allowed(inside)
    assert allowed(inside, source="fe80::1")
    assert not allowed(inside, source="10.0.1.7")
    assert not allowed(inside, source="not-an-address")
    assert is_within("::ffff:10.0.0.7", "10.0.0.7")


def test_a_verdict_names_the_rule() -> None:
    verdict = decide(ALICE, Rules((deny("Topic:ord*", "Pub", "Sub", sources=("10.0.0.0/8",)),)), pub(), HERE)
    assert str(verdict.rule) == "Deny Pub,Sub on Topic:ord* from 10.0.0.0/8"


names = st.text("ab", max_size=4)
resources = st.one_of(
    st.just(Resource(ResourceKind.ANY, ResourcePattern.ANY)),
    st.builds(Resource, st.sampled_from([ResourceKind.TOPIC, ResourceKind.GROUP]), st.just(ResourcePattern.ANY)),
    st.builds(
        Resource,
        st.sampled_from([ResourceKind.TOPIC, ResourceKind.GROUP]),
        st.sampled_from([ResourcePattern.LITERAL, ResourcePattern.PREFIXED]),
        names.filter(bool),
    ),
)
rules_drawn = st.lists(
    st.builds(
        Rule,
        resources,
        st.lists(st.sampled_from(Action), min_size=1, max_size=3).map(tuple),
        st.sampled_from(Decision),
        st.sampled_from([(), ("10.0.0.0/8",), ("192.168.0.1",)]),
    ),
    max_size=6,
).map(tuple)
needs = st.builds(
    Need,
    st.sampled_from([ResourceKind.TOPIC, ResourceKind.GROUP]),
    names,
    st.sampled_from([(Action.PUB,), (Action.SUB, Action.GET)]),
)


@given(rules_drawn, needs, st.randoms())
def test_the_order_of_rules_does_not_matter(rules: tuple[Rule, ...], need: Need, chance: object) -> None:
    shuffled = list(rules)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert allowed(*rules, need=need) == allowed(*shuffled, need=need)


@given(rules_drawn, needs)
def test_what_is_allowed_has_a_rule_that_allows_it(rules: tuple[Rule, ...], need: Need) -> None:
    verdict = decide(ALICE, Rules(rules), need, HERE)
    if verdict.allowed:
        assert verdict.rule in rules
        assert verdict.rule is not None
        assert verdict.rule.decision is Decision.ALLOW
        assert verdict.rule.resource.matches(need.kind, need.name)
        assert verdict.rule.matches_source(HERE)
    assert not decide(ALICE, Rules(tuple(one for one in rules if one.decision is Decision.DENY)), need, HERE).allowed


@given(resources)
def test_a_resource_is_read_as_it_is_written(resource: Resource) -> None:
    assert parse_resource(str(resource)) == resource


@pytest.mark.parametrize("text", ["Topic:*orders*", "Topic:**", "topic:a*b*", "Topic:a*b", "Group:*-g*", "**"])
def test_a_star_that_is_not_the_last_character_is_refused(text: str) -> None:
    assert parse_resource(text) is None
    fault = star_fault(text)
    assert fault is not None
    assert "has a star that is not its last character; write " in fault


@pytest.mark.parametrize("text", ["*", "Topic:*", "Topic:orders*", "Topic:orders", "Any:*"])
def test_a_star_at_the_end_is_no_fault(text: str) -> None:
    assert star_fault(text) is None
    assert parse_resource(text) is not None


@given(st.text("ab*", max_size=6), st.text("ab", min_size=1, max_size=6))
def test_a_rule_is_about_no_name_that_its_text_does_not_say(pattern: str, name: str) -> None:
    resource = parse_resource(f"Topic:{pattern}")
    if resource is not None and resource.matches(ResourceKind.TOPIC, name):
        assert fnmatchcase(name, pattern)


def test_texts_that_name_nothing() -> None:
    assert parse_resource(None) is None
    assert parse_resource("orders") is None
    assert parse_resource("Queue:orders") is None
    assert parse_resource("Any:orders") is None
    assert subject_user("User:alice") == "alice"
    assert subject_user("User:") is None
    assert subject_user("Role:alice") is None
    assert subject_user(None) is None


def test_the_secret_is_in_no_text() -> None:
    assert "s3cret" not in f"{ALICE!r} {ALICE}"
