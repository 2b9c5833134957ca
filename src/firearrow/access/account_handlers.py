"""Answers requests about users and rules (3001 to 3010). Java: ``AdminBrokerProcessor``.

A change is in force once it is durable, and is answered then, through the server's `ChangeGate`. No answer holds a
secret: Apache shows passwords to everybody who may read users; here a mask stands in their place.
"""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from firearrow.access.accounts import Accounts
from firearrow.access.bodies import DEFAULT, acl_info, resource_in, rules_in, user_info
from firearrow.access.change_gate import ChangeGate
from firearrow.access.denial import Denied, Reason
from firearrow.access.rules import E, Rule, Rules, User, UserStatus, UserType, subject_user, word
from firearrow.errors import FireArrowError
from firearrow.protocol.bodies.admin.auth import AclInfo, UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused, request_body
from firearrow.protocol.requests.admin.auth import (
    AuthCreateAcl,
    AuthCreateUser,
    AuthDeleteAcl,
    AuthDeleteUser,
    AuthGetAcl,
    AuthGetUser,
    AuthListAcl,
    AuthListUser,
    AuthUpdateAcl,
    AuthUpdateUser,
)
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.runtime.disk.stored import StoredValue

OF_A_COPY: Final = "users and rules here are copied from the master: make the change there too, or it is undone soon"

log = logging.getLogger(__name__)


class AccountHandlers:
    """Reads and changes users and rules for operators."""

    def __init__(
        self,
        accounts: StoredValue[Accounts],
        asker: Callable[[], User | None],
        are_copies: Callable[[], bool],
        gate: ChangeGate,
    ) -> None:
        """``asker`` returns the authenticated user of the request; None when the request needs no user."""
        self._accounts = accounts
        self._asker = asker
        self._are_copies = are_copies
        self._gate = gate

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(AuthCreateUser, self.create_user, urgent=True)
        handlers.on(AuthUpdateUser, self.update_user, urgent=True)
        handlers.on(AuthDeleteUser, self.delete_user, urgent=True)
        handlers.on(AuthGetUser, self.get_user, urgent=True)
        handlers.on(AuthListUser, self.list_users, urgent=True)
        handlers.on(AuthCreateAcl, self.put_rules, urgent=True)
        handlers.on(AuthUpdateAcl, self.put_rules, urgent=True)
        handlers.on(AuthDeleteAcl, self.delete_rules, urgent=True)
        handlers.on(AuthGetAcl, self.get_rules, urgent=True)
        handlers.on(AuthListAcl, self.list_rules, urgent=True)

    # ---- users

    def create_user(self, request: AuthCreateUser, call: Call) -> Later:
        """Make a user."""
        name, info = _named(request.username), request_body(call.body, UserInfo)
        kind = _word(UserType, info.user_type, "userType") or UserType.NORMAL
        status = _word(UserStatus, info.user_status, "userStatus") or UserStatus.ENABLE
        self._supers_by_supers(kind, "The super user can only be create by super user")
        user = User(name, info.password or "", kind, status)
        return self._change(call, f"create {user.subject}", lambda accounts: self._created(accounts, user))

    def _created(self, accounts: Accounts, user: User) -> Accounts:
        if self._are_copies() and accounts.users.get(user.name) == user:
            return accounts  # made at the master just now, and copied already
        return accounts.create_user(user)

    def update_user(self, request: AuthUpdateUser, call: Call) -> Later:
        """Change a user."""
        name, info = _named(request.username), request_body(call.body, UserInfo)
        kind = _word(UserType, info.user_type, "userType")
        status = _word(UserStatus, info.user_status, "userStatus")
        self._supers_by_supers(kind, "The super user can only be update by super user")
        self._spare_supers(name)
        return self._change(
            call,
            f"update User:{name}",
            lambda accounts: accounts.update_user(name, secret=info.password, kind=kind, status=status),
        )

    def delete_user(self, request: AuthDeleteUser, call: Call) -> Later:
        """Forget a user and its rules."""
        name = _named(request.username)
        self._spare_supers(name)
        return self._change(call, f"delete User:{name}", lambda accounts: accounts.delete_user(name))

    def get_user(self, request: AuthGetUser, _call: Call) -> Answer:
        """Return a user; an empty body when there is none."""
        user = self._accounts.value.users.get(_named(request.username))
        return Answer() if user is None else Answer(body=encode_body(user_info(user)))

    def list_users(self, request: AuthListUser, _call: Call) -> Answer:
        """Return the users whose names hold a text; an empty body when there are none."""
        users = [user for name, user in sorted(self._accounts.value.users.items()) if (request.filter or "") in name]
        return Answer(body=msgspec.json.encode([user_info(user) for user in users])) if users else Answer()

    # ---- rules

    def put_rules(self, request: AuthCreateAcl | AuthUpdateAcl, call: Call) -> Later:
        """Give a user rules; a rule about the same resource is replaced."""
        info = request_body(call.body, AclInfo)
        subject, rules = info.subject or request.subject, rules_in(info)
        said = f"give {subject} {len(rules.custom) + len(rules.default)} rules"
        return self._change(call, said, lambda accounts: accounts.put_rules(subject, rules.custom, rules.default))

    def delete_rules(self, request: AuthDeleteAcl, call: Call) -> Later:
        """Take the rule about a resource, or all rules, from a user."""
        resource = resource_in(request.resource) if request.resource else None
        is_default = (request.policy_type or "").lower() == DEFAULT.lower()
        said = f"take rules from {request.subject}"
        return self._change(
            call, said, lambda accounts: accounts.delete_rules(request.subject, resource, is_default=is_default)
        )

    def get_rules(self, request: AuthGetAcl, _call: Call) -> Answer:
        """Return the rules of a user; an empty body when there are none."""
        rules = self._accounts.value.rules_of(request.subject)
        name = subject_user(request.subject) or ""
        return Answer() if rules is None else Answer(body=encode_body(acl_info(name, rules)))

    def list_rules(self, request: AuthListAcl, _call: Call) -> Answer:
        """Return the rules of all users that match the filters; an empty body when there are none."""
        found = []
        for name, rules in sorted(self._accounts.value.rules.items()):
            subject, wanted = f"User:{name}", request.resource_filter or ""
            if (request.subject_filter or "") not in subject:
                continue
            shown = rules if wanted in subject else Rules(_about(rules.custom, wanted), _about(rules.default, wanted))
            if shown:
                found.append(acl_info(name, shown))
        return Answer(body=msgspec.json.encode(found)) if found else Answer()

    # ---- common to changes

    def _change(self, call: Call, what: str, how: Callable[[Accounts], Accounts]) -> Later:
        self._gate.check_change()
        later, by = call.later(), str(call.peer.address)

        def done(error: FireArrowError | None) -> None:
            if error is None:
                log.info("access changed: %s", what, extra={"change": what, "by": by})
                self._gate.changed(call, Answer(remark=OF_A_COPY if self._are_copies() else None))
            elif isinstance(error, Refused):
                later.refuse(error.code, error.remark)
            else:
                later.refuse(ResponseCode.SYSTEM_ERROR, f"nothing was changed, because it could not be stored: {error}")

        self._accounts.change(how, done)
        return later

    def _supers_by_supers(self, kind: UserType | None, reason: str) -> None:
        if kind is UserType.SUPER and not self._is_super():
            raise Denied(Reason.NOT_SUPER, reason, code=ResponseCode.SYSTEM_ERROR)

    def _spare_supers(self, name: str) -> None:
        user = self._accounts.value.users.get(name)
        if user is not None and user.kind is UserType.SUPER and not self._is_super():
            raise Denied(Reason.NOT_SUPER, "The super user can only be update by super user")

    def _is_super(self) -> bool:
        user = self._asker()
        return user is not None and user.kind is UserType.SUPER


def _about(rules: tuple[Rule, ...], wanted: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if wanted in str(rule.resource))


def _named(username: str | None) -> str:
    if not username or not username.strip():
        raise Refused(ResponseCode.INVALID_PARAMETER, "The username is blank")
    return username


def _word(kind: type[E], text: str | None, what: str) -> E | None:
    found = word(kind, text) if text else None
    if text and found is None:
        known = " or ".join(one.value for one in kind)
        raise Refused(ResponseCode.INVALID_PARAMETER, f"{what} {text!r} is not known: write {known}")
    return found
