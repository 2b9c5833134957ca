"""Users, resources and rules: the nouns of access, and how their texts are read. Pure.

Java: ``auth.authentication.model.User``, ``auth.authorization.model.Resource``, ``PolicyEntry``, ``Acl``. The texts are
Apache's: a resource is ``Topic:orders`` (this one), ``Topic:orders*`` (every name that begins so), ``Topic:*`` (every
topic) or ``*`` (everything); a subject is ``User:alice``. A star elsewhere is refused: Apache takes ``Topic:*orders*``
for a prefix of no letters, which every topic has, so the rule would allow more than its text says.
"""

from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeVar

from msgspec import Struct

ANY_NAME: Final = "*"
USER_PREFIX: Final = "User:"


class Action(StrEnum):
    """An action on a resource. A rule with `ALL` is about every action."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class ResourceKind(StrEnum):
    """The kind of a resource."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class ResourcePattern(StrEnum):
    """The ways to compare the name of a resource in a rule, the most particular first."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"
    ANY = "ANY"


class Decision(StrEnum):
    """The decision of a rule."""

    ALLOW = "Allow"
    DENY = "Deny"


class UserType(StrEnum):
    """A super user may do everything; a normal user what rules allow."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    """Whether a user is let in."""

    ENABLE = "enable"
    DISABLE = "disable"


E = TypeVar("E", bound=StrEnum)


def word(kind: type[E], text: str | None) -> E | None:
    """Return the member of an enumeration that a text names, in any case; None when it names none."""
    wanted = (text or "").lower()
    return next((member for member in kind if member.value.lower() == wanted), None)


class User(Struct, frozen=True):
    """A user. The secret is in no text that is made of it."""

    name: str
    secret: str
    kind: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    def __repr__(self) -> str:
        """Keep the secret out of logs."""
        return f"User({self.name!r}, {self.kind.value}, {self.status.value})"

    @property
    def subject(self) -> str:
        """The name that rules have for this user."""
        return USER_PREFIX + self.name


def subject_user(subject: str | None) -> str | None:
    """Return the name of the user that a subject such as ``User:alice`` names; None when it names no user."""
    kind, colon, name = (subject or "").partition(":")
    return name if colon and name and f"{kind}:".lower() == USER_PREFIX.lower() else None


class Resource(Struct, frozen=True):
    """The resources that a rule is about."""

    kind: ResourceKind
    pattern: ResourcePattern
    name: str = ""

    def __str__(self) -> str:
        """The resource as Apache writes it."""
        if self.kind is ResourceKind.ANY:
            return ANY_NAME
        star = "" if self.pattern is ResourcePattern.LITERAL else ANY_NAME
        return f"{self.kind.value}:{self.name}{star}"

    def matches(self, kind: ResourceKind, name: str) -> bool:
        """Whether the rule of this resource is about a thing of this kind and name."""
        if self.kind is ResourceKind.ANY:
            return True
        if self.kind is not kind:
            return False
        if self.pattern is ResourcePattern.LITERAL:
            return self.name == name
        return self.pattern is ResourcePattern.ANY or name.startswith(self.name)


def star_fault(text: str | None) -> str | None:
    """Return what to write instead of a resource with a star that is not its last character; None without a fault."""
    before, _, name = (text or "").partition(":")
    if text == ANY_NAME or ANY_NAME not in before + name[:-1]:
        return None
    return (
        f"the resource {text!r} has a star that is not its last character; write {before}:NAME for one name, "
        f"{before}:PREFIX* for all names that begin so, or {before}:* for all"
    )


def parse_resource(text: str | None) -> Resource | None:
    """Return the resource that a text names; None when it names none, or has a star that is not its last character."""
    if star_fault(text) is not None:
        return None
    if text == ANY_NAME:
        return Resource(ResourceKind.ANY, ResourcePattern.ANY)
    before, _, name = (text or "").partition(":")
    kind = word(ResourceKind, before)
    if kind is None:
        return None
    if kind is ResourceKind.ANY:
        return Resource(ResourceKind.ANY, ResourcePattern.ANY) if name == ANY_NAME else None
    if not name.endswith(ANY_NAME):
        return Resource(kind, ResourcePattern.LITERAL, name)
    prefix = name.removesuffix(ANY_NAME)
    return Resource(kind, ResourcePattern.PREFIXED, prefix) if prefix else Resource(kind, ResourcePattern.ANY)


class Rule(Struct, frozen=True):
    """Allows or denies a user actions on resources from some sources; without sources, from everywhere."""

    resource: Resource
    actions: tuple[Action, ...]
    decision: Decision
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The rule in one line."""
        said = f"{self.decision.value} {','.join(action.value for action in self.actions)} on {self.resource}"
        return f"{said} from {','.join(self.sources)}" if self.sources else said

    def matches_source(self, source: str) -> bool:
        """Whether the rule is about requests from this address."""
        return not self.sources or any(is_within(source, network) for network in self.sources)


class Rules(Struct, frozen=True):
    """The rules of one user. The default ones count only where no custom one matches."""

    custom: tuple[Rule, ...] = ()
    default: tuple[Rule, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any rule."""
        return bool(self.custom or self.default)


def is_network(text: str) -> bool:
    """Whether a text is an address or a range of addresses such as ``10.0.0.0/8``."""
    return _network(text) is not None


def is_within(source: str, network: str) -> bool:
    """Whether an address is an address, or in a range."""
    address, wanted = _address(source), _network(network)
    return address is not None and wanted is not None and address in wanted


@lru_cache(maxsize=4096)
def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
