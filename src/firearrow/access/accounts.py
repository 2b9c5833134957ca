"""The users of a server and their rules: a value that changes into another value. Pure.

Java: ``AuthenticationMetadataManagerImpl``, ``AuthorizationMetadataManagerImpl``; the words of refusals are theirs.
Every verb returns the accounts after the change or raises ``Refused``, so a change is made whole or not at all.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.access.rules import (
    Resource,
    Rule,
    Rules,
    User,
    UserStatus,
    UserType,
    is_network,
    subject_user,
)
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused

MASK: Final = "******"
"""The text that answers hold in place of a secret."""
NAME_LENGTH_MAX: Final = 255
SECRET_LENGTH_MAX: Final = 1024
USERS_MAX: Final = 10_000
RULES_MAX: Final = 10_000
"""The most rules of one user."""


def denied(reason: str) -> Refused:
    """Return the refusal of a change, with the code that Apache has for it."""
    return Refused(ResponseCode.NO_PERMISSION, reason)


class Accounts(Struct, frozen=True):
    """Users by name, and rules by the name of their user."""

    users: dict[str, User] = {}
    rules: dict[str, Rules] = {}

    def __repr__(self) -> str:
        """Keep secrets out of logs."""
        return f"Accounts({len(self.users)} users)"

    # ---- users

    def create_user(self, user: User) -> "Accounts":
        """Add a user."""
        _check_name(user.name)
        if not user.secret.strip():
            raise denied("password can not be blank")
        _check_secret(user.secret)
        if user.name in self.users:
            raise denied("The user is existed")
        if len(self.users) >= USERS_MAX:
            raise denied(f"there are {USERS_MAX} users already; delete some first")
        return replace(self, users={**self.users, user.name: user})

    def update_user(
        self, name: str, *, secret: str | None = None, kind: UserType | None = None, status: UserStatus | None = None
    ) -> "Accounts":
        """Change what is given of a user."""
        _check_name(name)
        old = self.users.get(name)
        if old is None:
            raise denied("The user is not exist")
        _check_secret(secret or "")
        changed = User(
            name,
            secret if secret and secret.strip() else old.secret,
            old.kind if kind is None else kind,
            old.status if status is None else status,
        )
        return self._with_a_super({**self.users, name: changed}, self.rules)

    def delete_user(self, name: str) -> "Accounts":
        """Forget a user, with the rules; nothing changes when there is none."""
        users = {key: user for key, user in self.users.items() if key != name}
        return self._with_a_super(users, {key: rules for key, rules in self.rules.items() if key != name})

    def _with_a_super(self, users: dict[str, User], rules: dict[str, Rules]) -> "Accounts":
        if any(map(_is_let_in_as_super, self.users.values())) and not any(map(_is_let_in_as_super, users.values())):
            raise denied("this is the last super user that is let in: nobody could change users any more")
        return Accounts(users, rules)

    # ---- rules

    def put_rules(self, subject: str | None, custom: Iterable[Rule], default: Iterable[Rule] = ()) -> "Accounts":
        """Add rules to a user; a rule about the same resource is replaced."""
        name = self._known(subject, f"The subject of {subject} is not exist.")
        old = self.rules.get(name, Rules())
        rules = Rules(_merged(old.custom, custom), _merged(old.default, default))
        if not rules:
            raise denied("The policies is empty.")
        if len(rules.custom) + len(rules.default) > RULES_MAX:
            raise denied(f"{subject} would have more than {RULES_MAX} rules; use prefixes such as Topic:orders*")
        return replace(self, rules={**self.rules, name: rules})

    def delete_rules(
        self, subject: str | None, resource: Resource | None = None, *, is_default: bool = False
    ) -> "Accounts":
        """Take the rule about one resource from a user; without a resource, all rules."""
        name = self._known(subject, "The subject is not exist.")
        old = self.rules.get(name)
        if old is None:
            raise denied("The acl is not exist.")
        left = Rules()
        if resource is not None:
            kept = tuple(rule for rule in (old.default if is_default else old.custom) if rule.resource != resource)
            left = Rules(old.custom, kept) if is_default else Rules(kept, old.default)
        others = {key: rules for key, rules in self.rules.items() if key != name}
        return replace(self, rules={**others, name: left} if left else others)

    def rules_of(self, subject: str | None) -> Rules | None:
        """Return the rules of a user; None when the user has none."""
        return self.rules.get(self._known(subject, "The subject is not exist."))

    def _known(self, subject: str | None, otherwise: str) -> str:
        name = subject_user(subject)
        if name is None or name not in self.users:
            raise denied(otherwise)
        return name


def _is_let_in_as_super(user: User) -> bool:
    return user.kind is UserType.SUPER and user.status is UserStatus.ENABLE


def _merged(old: tuple[Rule, ...], new: Iterable[Rule]) -> tuple[Rule, ...]:
    by_resource = {rule.resource: rule for rule in old}
    for rule in new:
        _check_rule(rule)
        by_resource[rule.resource] = rule
    return tuple(by_resource.values())


def _check_rule(rule: Rule) -> None:
    if not rule.actions:
        raise denied("The actions is empty.")
    for source in rule.sources:
        if not source.strip():
            raise denied("The source ip is empty.")
        if not is_network(source):
            raise denied("The source ip is invalid.")


def _check_name(name: str) -> None:
    if not name.strip():
        raise denied("username can not be blank")
    if len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise denied(f"a username has at most {NAME_LENGTH_MAX} characters that can be printed")


def _check_secret(secret: str) -> None:
    if len(secret) > SECRET_LENGTH_MAX:
        raise denied(f"a password has at most {SECRET_LENGTH_MAX} characters")
    if any("\ud800" <= letter <= "\udfff" for letter in secret):
        raise denied("a password has a character that no client can sign with: half of a surrogate pair")
    if secret == MASK:
        raise denied(
            f"{MASK} stands for a password that is not shown: passwords cannot be copied between brokers; "
            "create the user there with its password"
        )
