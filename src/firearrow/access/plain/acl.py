"""``plain_acl.yml``, the accounts of 4.9, as users and rules. Pure but for the parser.

Java: ``PlainPermissionManager``, ``RemoteAddressStrategyFactory`` (4.9); ``auth.migration.AuthMigrator`` (5.x), whose
translation this is: an admin is a super user, ``topicPerms`` and ``groupPerms`` are rules, the two defaults are
default rules about every topic and every group. A permission is DENY, PUB, SUB, PUB|SUB or SUB|PUB; here another one is
refused, in Apache's migrator it allows everything.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from firearrow.access.accounts import Accounts
from firearrow.access.rules import (
    USER_PREFIX,
    Action,
    Decision,
    Resource,
    ResourceKind,
    ResourcePattern,
    Rule,
    User,
    UserType,
)
from firearrow.errors import SettingsError
from firearrow.model.numbers import whole_number
from firearrow.protocol.refusal import Refused

PATH: Final = "config/plain_acl.yml"
BYTES_MAX: Final = 1 << 20

_PERMISSIONS: Final = {
    "DENY": ((Action.ALL,), Decision.DENY),
    "PUB": ((Action.PUB,), Decision.ALLOW),
    "SUB": ((Action.SUB,), Decision.ALLOW),
    "PUB|SUB": ((Action.PUB, Action.SUB), Decision.ALLOW),
    "SUB|PUB": ((Action.PUB, Action.SUB), Decision.ALLOW),
}


class PlainAccount(Struct, frozen=True, rename="camel"):
    """An account of the file."""

    access_key: str
    secret_key: str
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None

    def __repr__(self) -> str:
        """Keep the secret out of logs."""
        return f"PlainAccount({self.access_key!r})"


class AclEdition(Struct, frozen=True):
    """The number of changes of the file from outside, and the time of the last one."""

    counter: str = "0"
    timestamp: str = "0"

    @property
    def number(self) -> int:
        """The counter; 0 when the file has none."""
        return whole_number(self.counter) or 0

    @property
    def changed_ms(self) -> int:
        """The time of the last change."""
        return whole_number(self.timestamp) or 0


class PlainAcl(Struct, frozen=True, rename="camel"):
    """The whole file."""

    global_white_remote_addresses: list[str] | None = None
    accounts: list[PlainAccount] | None = None
    data_version: list[AclEdition] | None = None

    @property
    def edition(self) -> AclEdition:
        """The edition of the file."""
        return next(iter(self.data_version or ()), AclEdition())

    def is_white(self, source: str, name: str | None) -> bool:
        """Whether requests from an address pass unasked: for everybody, or for the account that they name."""
        if any(matches_address(pattern, source) for pattern in self.global_white_remote_addresses or ()):
            return True
        own = next((account for account in self.accounts or () if account.access_key == name), None)
        return own is not None and matches_address(own.white_remote_address or "", source)


def read_plain_acl(data: bytes) -> PlainAcl:
    """Return what a file says; raise ``SettingsError``, without a part of the file in its text."""
    import yaml  # of the extra server

    if len(data) > BYTES_MAX:
        raise SettingsError(f"{PATH} has more than {BYTES_MAX} bytes: write rules with prefixes, or fewer accounts")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(data, Loader=yaml.BaseLoader)):
            # Aliases of aliases make a few lines as large as one likes.
            raise SettingsError(f"{PATH} has an alias (*name): write the value out")
        found = yaml.load(data, Loader=yaml.BaseLoader)  # noqa: S506 - makes texts, lists and maps alone
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise SettingsError(f"{PATH} is not YAML{where}: mend it") from None
    try:
        return msgspec.convert(_given(found or {}), PlainAcl, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        place = str(error).rpartition(" - at ")[2]
        raise SettingsError(f"{PATH} is not a list of accounts: look at {place}") from None


def _given(value: object) -> object:
    """A value without members that have no value."""
    if isinstance(value, dict):
        return {key: _given(member) for key, member in value.items() if member != ""}
    return [_given(member) for member in value] if isinstance(value, list) else value


def add_accounts(accounts: Accounts, acl: PlainAcl) -> Accounts:
    """Return accounts with those of a file that they do not have yet; raise ``SettingsError`` for a bad one."""
    for account in acl.accounts or ():
        if account.access_key in accounts.users:
            continue
        kind = UserType.SUPER if account.admin else UserType.NORMAL
        try:
            accounts = accounts.create_user(User(account.access_key, account.secret_key, kind))
            custom, default = _custom(account), _default(account)
            if custom or default:
                accounts = accounts.put_rules(USER_PREFIX + account.access_key, custom, default)
        except Refused as refusal:
            raise SettingsError(f"{PATH}, account {account.access_key!r}: {refusal.remark}") from None
    return accounts


def _custom(account: PlainAccount) -> list[Rule]:
    named = ((ResourceKind.TOPIC, account.topic_perms), (ResourceKind.GROUP, account.group_perms))
    return [_rule(account, kind, text) for kind, texts in named for text in texts or ()]


def _rule(account: PlainAccount, kind: ResourceKind, text: str) -> Rule:
    name, sign, permission = text.partition("=")
    if not sign or not name.strip():
        raise SettingsError(f"{PATH}, account {account.access_key!r}: {text!r} is not NAME=PERMISSION")
    return _permitted(account, Resource(kind, ResourcePattern.LITERAL, name.strip()), permission)


def _default(account: PlainAccount) -> list[Rule]:
    given = ((ResourceKind.TOPIC, account.default_topic_perm), (ResourceKind.GROUP, account.default_group_perm))
    return [
        _permitted(account, Resource(kind, ResourcePattern.ANY), text) for kind, text in given if text and text.strip()
    ]


def _permitted(account: PlainAccount, resource: Resource, permission: str) -> Rule:
    meant = _PERMISSIONS.get(permission.strip())
    if meant is None:
        known = ", ".join(_PERMISSIONS)
        raise SettingsError(f"{PATH}, account {account.access_key!r}: {permission!r} is not one of {known}")
    return Rule(resource, *meant)


# ---- white lists


def matches_address(pattern: str, address: str) -> bool:
    """Whether an address is in a white list: ``10.0.0.7``, ``10.0.0.*``, ``10.0.1-5.*``, ``10.0.0.{1,2}``, a list."""
    return any(_is_like(one, address) for one in _patterns(pattern.strip()))


def _patterns(text: str) -> Iterable[str]:
    """Divide a list by its commas, but for those in braces."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def _is_like(pattern: str, address: str) -> bool:
    if not pattern:
        return False
    if pattern == "*":
        return True
    mark = ":" if ":" in address else "."
    wanted, given = pattern.split(mark), address.split(mark)
    return len(wanted) == len(given) and all(map(_is_part, wanted, given))


def _is_part(wanted: str, given: str) -> bool:
    if wanted == "*" or wanted.lower() == given.lower():
        return True
    if wanted.startswith("{") and wanted.endswith("}"):
        return given in [part.strip() for part in wanted[1:-1].split(",")]
    first, dash, last = wanted.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and given.isdigit()):
        return False
    return int(first) <= int(given) <= int(last)
