"""The settings of access, under Apache's names. Java: ``auth.config.AuthConfig``.

Two of them hold secrets: they are in no answer, no log line and no error text.
"""

from enum import StrEnum
from random import Random
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from firearrow.access.rules import User, UserType
from firearrow.errors import SettingsError
from firearrow.model.signature import SignatureMethod
from firearrow.protocol.auth import Credentials, signer_of
from firearrow.protocol.requests.admin.auth import CopyAccounts
from firearrow.remoting.endpoint import Sign
from firearrow.runtime.clock import Clock
from firearrow.telemetry.hidden import hidden_repr

T = TypeVar("T")


class AuditScope(StrEnum):
    """The requests that the audit log has a line about."""

    OFF = "off"
    CHANGES = "changes"
    ALL = "all"


class AccessConfig(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Whether users are known by their signatures, and whether rules say what they may do."""

    authentication_enabled: Annotated[
        bool, Meta(description="Answer only requests that a known user has signed. Off: everybody may do everything.")
    ] = False
    authorization_enabled: Annotated[
        bool,
        Meta(
            description="Let a user that is not Super do only what its rules allow. Needs authenticationEnabled; "
            "without this every known user may do everything."
        ),
    ] = False
    init_authentication_user: Annotated[
        str,
        Meta(
            description='The first user, Super, as JSON: {"username":"...","password":"..."}; made at a start when '
            "there is none of that name. Secret: never shown."
        ),
    ] = ""
    inner_client_authentication_credentials: Annotated[
        str,
        Meta(
            description='What the server itself signs requests to other servers with, as JSON: {"accessKey":"...",'
            '"secretKey":"..."}; made as a Super user when there is none of that name. Secret: never shown. '
            'With "signatureMethod":"HmacSHA256" signatures cannot be replayed; all servers must be ours then.'
        ),
    ] = ""
    authentication_strategy: Annotated[
        str,
        Meta(
            description="How often a signature is checked: of every request; or, if this ends in "
            "StatefulAuthenticationStrategy (Apache's class), of the first request of a user on a connection."
        ),
    ] = ""
    fresh_signatures_only: Annotated[
        bool,
        Meta(
            description="Refuse signatures by HMAC-SHA1, which can be replayed, and so every client but FireArrow's "
            "with signature_method=HmacSHA256. Not with StatefulAuthenticationStrategy."
        ),
    ] = False
    signature_window_seconds: Annotated[
        int,
        Meta(ge=1, le=3600, description="How far the time of a signature by HMAC-SHA256 may be from the server's."),
    ] = 60
    certificate_users: Annotated[
        bool,
        Meta(
            description="Take a request without a signature for one of the user whom the common name of the "
            "connection's checked client certificate names. Needs mutual TLS (tlsServerNeedClientAuth)."
        ),
    ] = False
    authentication_whitelist: Annotated[
        str, Meta(description="Request codes, divided by commas, that need no signature.")
    ] = ""
    authorization_whitelist: Annotated[
        str, Meta(description="Request codes, divided by commas, that every known user may use.")
    ] = ""

    migrate_auth_from_v1_enabled: Annotated[
        bool,
        Meta(
            description="Make users and rules at a start from config/plain_acl.yml, the accounts of 4.9, for accounts "
            "that are not users yet."
        ),
    ] = field(name="migrateAuthFromV1Enabled", default=False)
    acl_enable: Annotated[
        bool,
        Meta(
            description="Know users and rules from config/plain_acl.yml alone, as 4.9 does; it is read again when "
            "it changes. Not beside authenticationEnabled."
        ),
    ] = False

    audit_log: Annotated[
        AuditScope,
        Meta(
            description="Which requests the audit log has a line about: none (off), those that are refused and those "
            "that change topics, groups, offsets, settings, users or rules (changes), or all, sends and pulls "
            "included (all). Only with access on."
        ),
    ] = AuditScope.CHANGES
    audit_log_file_size: Annotated[
        int, Meta(ge=4096, le=1 << 30, description="Bytes after which the audit log goes on in another file.")
    ] = 16 << 20
    audit_log_files: Annotated[
        int, Meta(ge=2, le=100_000, description="Files of the audit log that are kept; the oldest are removed.")
    ] = 16

    @property
    def is_on(self) -> bool:
        """Whether users are asked for at all."""
        return self.authentication_enabled or self.acl_enable

    def __repr__(self) -> str:
        """Keep secrets out of logs."""
        return f"AccessConfig(authentication={self.authentication_enabled}, authorization={self.authorization_enabled})"


STATEFUL: Final = "StatefulAuthenticationStrategy"


def remembers_users(config: AccessConfig) -> bool:
    """Return whether a user who has signed once is known for the rest of the connection."""
    return config.authentication_strategy.strip().endswith(STATEFUL)


def check_access(config: AccessConfig) -> None:
    """Raise ``SettingsError`` when the settings do not fit together or cannot be read."""
    if config.authorization_enabled and not config.authentication_enabled:
        raise SettingsError(
            "authorizationEnabled=true without authenticationEnabled=true would believe every name without a proof: "
            "switch on both"
        )
    if config.acl_enable and (config.authentication_enabled or config.migrate_auth_from_v1_enabled):
        raise SettingsError(
            "aclEnable=true takes users from plain_acl.yml alone: switch off authenticationEnabled and "
            "migrateAuthFromV1Enabled, or switch off aclEnable and migrate"
        )
    if config.fresh_signatures_only and remembers_users(config):
        raise SettingsError(
            f"freshSignaturesOnly=true wants every signature checked, and {STATEFUL} checks the first of a connection: "
            "switch off one of them"
        )
    codes_in("authenticationWhitelist", config.authentication_whitelist)
    codes_in("authorizationWhitelist", config.authorization_whitelist)
    first_users(config)


def codes_in(key: str, text: str) -> frozenset[int]:
    """Return the request codes of a white list; raise ``SettingsError`` for anything else in it."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise SettingsError(f"{key}: {word!r} is not a request code; write numbers divided by commas")
    return frozenset(map(int, words))


class _NamedUser(Struct, frozen=True):
    __repr__ = hidden_repr
    username: str
    password: str


class _Keys(Struct, frozen=True, rename="camel"):
    __repr__ = hidden_repr
    access_key: str
    secret_key: str
    signature_method: SignatureMethod = SignatureMethod.SHA1


def first_users(config: AccessConfig) -> list[User]:
    """Return the users that a start makes when they are not there."""
    users = []
    if config.init_authentication_user:
        form = '{"username":"...","password":"..."}'
        named = _read("initAuthenticationUser", config.init_authentication_user, _NamedUser, form)
        users.append(User(named.username, named.password, UserType.SUPER))
    inner = inner_credentials(config)
    if inner is not None:
        users.append(User(inner.access_key, inner.secret_key, UserType.SUPER))
    return users


def inner_credentials(config: AccessConfig) -> Credentials | None:
    """Return what the server signs its own requests with; None when that is not given."""
    if not config.inner_client_authentication_credentials:
        return None
    key, form = "innerClientAuthenticationCredentials", '{"accessKey":"...","secretKey":"..."}'
    keys = _read(key, config.inner_client_authentication_credentials, _Keys, form)
    return Credentials(keys.access_key, keys.secret_key, method=keys.signature_method)


def inner_signer(config: AccessConfig, clock: Clock, chance: Random) -> Sign | None:
    """Return what signs the server's own requests; None when it does not sign."""
    credentials = inner_credentials(config)
    if credentials is None:
        return None
    sign = signer_of(credentials, clock.now_ms, chance)
    fresh = signer_of(replace(credentials, method=SignatureMethod.SHA256), clock.now_ms, chance)
    return lambda request, body: (fresh if isinstance(request, CopyAccounts) else sign)(request, body)


def _read(key: str, text: str, kind: type[T], form: str) -> T:
    try:
        return msgspec.json.decode(text.encode(), type=kind)
    except (msgspec.DecodeError, RecursionError):
        raise SettingsError(f"{key} is not the JSON that is wanted; write {form}") from None
