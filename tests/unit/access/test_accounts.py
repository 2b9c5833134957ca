"""Users and their rules: what may be changed, what the file keeps, and that no secret is shown."""

import pytest

from firearrow.access.access import AccessControl
from firearrow.access.account_file import decode_accounts, encode_accounts
from firearrow.access.account_handlers import AccountHandlers
from firearrow.access.accounts import MASK, Accounts
from firearrow.access.bodies import acl_info, rules_in, user_info
from firearrow.access.change_gate import OpenGate
from firearrow.access.rules import Action, Decision, Rule, Rules, User, UserStatus, UserType, parse_resource
from firearrow.access.settings import AccessConfig, check_access, first_users
from firearrow.errors import BadBody, SettingsError
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import Handlers
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk

SECRET = "marker-of-a-secret"
ROOT = User("root", SECRET, UserType.SUPER)
BOTH = Accounts().create_user(ROOT).create_user(User("alice", SECRET + "2"))


def a_rule(resource: str = "Topic:orders", decision: Decision = Decision.ALLOW, *sources: str) -> Rule:
    parsed = parse_resource(resource)
    assert parsed is not None
    return Rule(parsed, (Action.PUB,), decision, sources)


def reason(change: object, *arguments: object, **more: object) -> str:
    with pytest.raises(Refused) as caught:
        change(*arguments, **more)  # type: ignore[operator]
    assert caught.value.code == 16
    return caught.value.remark


def test_users_are_made_changed_and_forgotten() -> None:
    changed = BOTH.update_user("alice", status=UserStatus.DISABLE)
    assert changed.users["alice"] == User("alice", SECRET + "2", UserType.NORMAL, UserStatus.DISABLE)
    assert changed.update_user("alice", secret="new").users["alice"].secret == "new"
    with_rules = changed.put_rules("User:alice", [a_rule()])
    gone = with_rules.delete_user("alice")
    assert list(gone.users) == ["root"]
    assert gone.rules == {}
    assert list(BOTH.users) == ["root", "alice"]


def test_users_that_are_refused() -> None:
    assert reason(BOTH.create_user, ROOT) == "The user is existed"
    assert reason(BOTH.create_user, User("bob", " ")) == "password can not be blank"
    assert reason(BOTH.create_user, User(" ", "x")) == "username can not be blank"
    assert reason(BOTH.update_user, "bob", secret="x") == "The user is not exist"
    assert "cannot be copied" in reason(BOTH.create_user, User("bob", MASK))
    assert "cannot be copied" in reason(BOTH.update_user, "alice", secret=MASK)
    assert "last super user" in reason(BOTH.delete_user, "root")
    assert "last super user" in reason(BOTH.update_user, "root", kind=UserType.NORMAL)
    assert "last super user" in reason(BOTH.update_user, "root", status=UserStatus.DISABLE)


def test_rules_replace_rules_about_the_same_resource() -> None:
    once = BOTH.put_rules("User:alice", [a_rule(), a_rule("Topic:other")])
    twice = once.put_rules("User:alice", [a_rule(decision=Decision.DENY)])
    rules = twice.rules_of("User:alice")
    assert rules == Rules((a_rule(decision=Decision.DENY), a_rule("Topic:other")))
    left = twice.delete_rules("User:alice", a_rule().resource)
    assert left.rules_of("User:alice") == Rules((a_rule("Topic:other"),))
    assert left.delete_rules("User:alice").rules_of("User:alice") is None


def test_rules_that_are_refused() -> None:
    assert reason(BOTH.put_rules, "User:bob", [a_rule()]) == "The subject of User:bob is not exist."
    assert reason(BOTH.put_rules, "User:alice", []) == "The policies is empty."
    assert (
        reason(BOTH.put_rules, "User:alice", [a_rule("*", Decision.ALLOW, "10.0.0.300")]) == "The source ip is invalid."
    )
    assert reason(BOTH.delete_rules, "User:alice") == "The acl is not exist."
    assert reason(BOTH.rules_of, "User:bob") == "The subject is not exist."


def body_of(**changed: object) -> AclInfo:
    values: dict[str, object] = {"resource": "Topic:a*", "actions": ["Pub", "sub"], "decision": "allow"}
    return AclInfo(policies=[Policy(entries=[PolicyEntry(**{**values, **changed})])])  # type: ignore[arg-type]


def test_bodies() -> None:
    rules = rules_in(body_of(source_ips=["10.0.0.0/8"]))
    assert str(rules.custom[0]) == "Allow Pub,Sub on Topic:a* from 10.0.0.0/8"
    again = acl_info("alice", rules)
    assert again.subject == "User:alice"
    assert rules_in(again) == rules


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"resource": "a"}, "The resource is null."),
        ({"decision": "maybe"}, "The decision is null or illegal."),
        ({"actions": ["Any"]}, "The actions can not be Any."),
        ({"actions": ["Publish"]}, "'Publish' is not one of"),
    ],
)
def test_bodies_that_are_refused(changed: dict[str, object], expected: str) -> None:
    assert expected in reason(rules_in, body_of(**changed))


def test_the_file_keeps_everything() -> None:
    full = BOTH.put_rules("User:alice", [a_rule("Topic:a*", Decision.DENY, "10.0.0.0/8")], [a_rule("*")])
    assert decode_accounts(encode_accounts(full)) == full


def test_a_changed_file_is_refused_and_its_error_shows_nothing_of_it() -> None:
    data = encode_accounts(BOTH)
    for broken in (data[:-1], data.replace(b"alice", b"alicf"), data.partition(b"\n")[2], b"", b"\xff\xfe"):
        with pytest.raises(BadBody) as caught:
            decode_accounts(broken)
        assert SECRET not in str(caught.value)


def test_no_text_shows_a_secret() -> None:
    config = AccessConfig(
        authentication_enabled=True,
        init_authentication_user=f'{{"username":"root","password":"{SECRET}"}}',
        inner_client_authentication_credentials=f'{{"accessKey":"inner","secretKey":"{SECRET}"}}',
    )
    users = first_users(config)
    assert [(user.name, user.secret, user.kind) for user in users] == [
        ("root", SECRET, UserType.SUPER),
        ("inner", SECRET, UserType.SUPER),
    ]
    assert SECRET not in f"{BOTH!r} {BOTH} {config!r} {config} {users} {user_info(ROOT)}"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (AccessConfig(authorization_enabled=True), "switch on both"),
        (AccessConfig(authentication_whitelist="105,all"), "'all' is not a request code"),
        (AccessConfig(init_authentication_user=SECRET), "initAuthenticationUser"),
        (AccessConfig(inner_client_authentication_credentials='{"accessKey":1}'), "accessKey"),
    ],
)
def test_settings_that_are_refused(config: AccessConfig, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected) as caught:
        check_access(config)
    assert SECRET not in str(caught.value)


def test_the_ten_requests_about_users_and_rules_have_handlers() -> None:
    handlers = Handlers()
    accounts = AccessControl(AccessConfig(), RealDisk("."), "C", SystemClock()).accounts
    AccountHandlers(accounts, lambda: None, bool, OpenGate()).add_to(handlers)
    assert set(handlers.by_code) == set(range(3001, 3011))
