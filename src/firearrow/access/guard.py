"""The one place that every request passes before its handler: who asks, and may they?

First the signature is checked, or the user taken from the checked certificate of the connection; then everything that
the request touches (`declared`) is asked about at the rules of its user (`decide`). What was allowed is remembered for
the connection, until users or rules change, and so is who has signed, if the settings want that. Where a request names
a stored message, its handler is called when the message has been looked up and its topic asked about. Java:
``AuthenticationPipeline``, ``AuthorizationPipeline``, and the two strategies ``Stateless``- and
``StatefulAuthenticationStrategy``; the words of refusals are Apache's, but for one: whoever has not signed rightly is
not told whether the user exists or is disabled, so that names cannot be tried out. No stock client reads those words.

Invariants: a request of a type that declares nothing is refused; nothing of a refused request reaches a handler.
"""

import hmac
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import msgspec

from firearrow.access.accounts import Accounts
from firearrow.access.decide import NO_RULES, AccessVerdict, Need, decide
from firearrow.access.declared import DECLARED, PUB, Declaration, MessageField, changes_something, needs_of, thing
from firearrow.access.denial import AUTHENTICATION, Denied, Reason, denied_by_rules
from firearrow.access.freshness import Freshness
from firearrow.access.rules import ResourceKind, User, UserStatus, UserType
from firearrow.access.settings import AccessConfig, AuditScope, codes_in, remembers_users
from firearrow.access.witness import Witness
from firearrow.model.signature import SignatureMethod
from firearrow.protocol.auth import (
    ACCESS_KEY,
    SIGNATURE,
    SIGNATURE_METHOD,
    SIGNATURE_NONCE,
    SIGNATURE_TIME,
    Stamp,
    sign,
    sign_fresh,
)
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.admin.auth import CopyAccounts
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.message.send import SendMessage
from firearrow.protocol.send_shape import SendShape
from firearrow.protocol.sends import SendsArrived
from firearrow.remoting.handlers import Answer, Call, Handler, Later, PassesSends, Peer
from firearrow.runtime.clock import Clock

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
LAST_WITHOUT_UNIQUE_KEY: Final = 399
"""The last version (4.9.3) whose clients add ``_UNIQUE_KEY_QUERY`` after they have signed."""
ACCESS_KEY_BYTES: Final = ACCESS_KEY.encode()
UNPROVED: Final = "check signature failed."
REMEMBERED_MAX: Final = 1024
"""The most decisions that are remembered for a connection."""

IsWhite = Callable[[str, str | None], bool]
"""Returns whether requests from an address, with or without the name of a user, pass unchecked."""


GoOn = Callable[[str | None], Answer | Later | None]
"""Called once the topic of a stored message is known, with the topic; None says that there is no message."""


class StoredMessages(Protocol):
    """Looks up stored messages that requests name."""

    def find(self, call: Call, place: int | str, go_on: GoOn, *, is_change: bool) -> Later:
        """Answer a call with what ``go_on`` makes of the topic of the message at a physical offset or with an id.

        ``go_on`` is called for a change even if the connection of the call ends meanwhile.
        """
        ...


class CurrentAccounts(Protocol):
    """The current accounts: a new object after each change."""

    @property
    def value(self) -> Accounts:
        """The accounts."""
        ...


class _CachedPermissions:
    """The user and permissions of a connection, valid until users or rules change."""

    __slots__ = ("accounts", "allowed", "names", "shapes", "user")

    def __init__(self, accounts: Accounts) -> None:
        self.accounts = accounts
        self.allowed: set[tuple[object, ...]] = set()
        """Allowed requests: the user, the request's type, and the values of the fields that name what it touches."""
        self.user: User | None = None
        self.names = b""
        """The bytes by which headers of requests name this user, who has signed a request of the connection."""
        self.shapes: dict[SendShape, User] = {}
        """Shapes of sends to topics where that is allowed, and the users who send them."""


class Guard:
    """Lets requests pass, or refuses them. ``cluster`` is the name of the server's own cluster."""

    def __init__(
        self,
        config: AccessConfig,
        accounts: CurrentAccounts,
        cluster: str,
        witness: Witness,
        clock: Clock,
        is_white: IsWhite | None = None,
    ) -> None:
        self._now_ms = clock.now_ms
        self._fresh_only = config.fresh_signatures_only
        self._freshness = Freshness(config.signature_window_seconds * 1000, clock.now_ms())
        self._knows_certificates = config.certificate_users
        self._accounts = accounts
        self._witness = witness
        self._audited = _audited(config.audit_log)
        self._is_white = is_white
        self._cluster = cluster
        self._authorizes = config.authorization_enabled or config.acl_enable
        self._remembers_users = remembers_users(config)
        self._unsigned = codes_in("authenticationWhitelist", config.authentication_whitelist)
        self._for_all = codes_in("authorizationWhitelist", config.authorization_whitelist)
        self.asker: User | None = None
        """The authenticated user of the request whose handler runs now; None: no user had to authenticate."""
        self.clusters_of: Callable[[str], Iterable[str]] = lambda _broker: ()
        """Returns the clusters in which a broker is known: they count too, whatever cluster a request says."""
        self.stored: StoredMessages | None = None
        """Looks up stored messages; None in a server without messages."""

    def __call__(self, request: Request[Any], call: Call, handler: Handler) -> Answer | Later | None:
        """Call the handler if the request may reach it; raise ``Refused`` when it may not."""
        try:
            user = self._check(request, call)
        except Denied as denial:
            if denial.reason.stage == AUTHENTICATION:
                call.peer.stay_stranger()
            self._witness.refused(request, call, denial)
            raise
        call.peer.slots[Guard] = user
        named = DECLARED[request.__class__].named
        if named is not None and user is not None and user.kind is not UserType.SUPER and self._asks_rules(call):
            return self._look_up(user, named, request, call, handler)
        if request.__class__ in self._audited:
            self._note(request, call, user)
        if request.__class__ is HeartBeat:
            call.peer.slots[self, HeartBeat] = self._seen_as(user, call)
        self.asker = user
        try:
            return handler(request, call)
        except Denied as denial:
            denial.user = user
            self._witness.refused(request, call, denial)
            raise

    @property
    def passes_sends(self) -> PassesSends | None:
        """The check that lets sends that arrive as one event pass; None if each send has to be checked."""
        looks_at_each = not self._remembers_users or SendMessage in self._audited or self._is_white is not None
        return None if looks_at_each else self._passes_sends

    def _passes_sends(self, sends: SendsArrived, peer: Peer) -> bool:
        remembered: _CachedPermissions | None = peer.slots.get(self)
        if remembered is None or remembered.accounts is not self._accounts.value:
            return False
        shape = sends.shape
        self.asker = remembered.shapes.get(shape)
        if self.asker is not None:
            return True
        user = remembered.user
        if user is None or not shape.holds(remembered.names):
            return False
        request = shape.request
        if self._authorizes and _asked(DECLARED[request.__class__], user, request) not in remembered.allowed:
            return False
        if len(remembered.shapes) >= REMEMBERED_MAX:
            remembered.shapes.clear()
        self.asker = remembered.shapes[shape] = user
        return True

    def _seen_as(self, user: User | None, call: Call) -> str | None:
        """Return the user of a heartbeat; None for an address that may do everything, empty for an unknown user."""
        if user is not None:
            return user.name
        return None if self._is_exempt(call) else ""

    def _is_exempt(self, call: Call) -> bool:
        """Whether a white list of addresses lets a request pass unchecked."""
        return self._is_white is not None and self._is_white(call.peer.address.host, call.ext_fields.get(ACCESS_KEY))

    def user_of(self, peer: Peer) -> str | None:
        """Return the user of the last request of a connection that was let pass; None: it needed no user.

        Sends that arrive as one event are not counted among those requests.
        """
        user: User | None = peer.slots.get(Guard)
        return None if user is None else user.name

    def may_see(self, peer: Peer, topic: str) -> bool:
        """Whether a producer may be sent a message of a topic: if the user of its last heartbeat may send there."""
        if not self._authorizes:
            return True
        name = peer.slots.get((self, HeartBeat), "")
        if name is None:
            return True  # a white list of addresses lets it do everything
        user = self._accounts.value.users.get(name)
        need = thing(ResourceKind.TOPIC, topic, PUB)
        return user is not None and self._verdict(user, need, peer).allowed

    def _look_up(
        self, user: User, named: MessageField, request: Request[Any], call: Call, handler: Handler
    ) -> Answer | Later | None:
        """Call the handler once the topic of the message that a request names has been asked about."""

        def go_on(topic: str | None) -> Answer | Later | None:
            try:
                found = self._decide_found(user, named, topic, request, call)
            except Denied as denial:
                self._witness.refused(request, call, denial)
                raise
            if request.__class__ in self._audited:
                self._note(request, call, user, found)
            self.asker = user
            return handler(request, call)

        if self.stored is None:
            return go_on(None)
        place = getattr(request, named.field)
        return self.stored.find(call, "" if place is None else place, go_on, is_change=named.is_change)

    def _decide_found(
        self, user: User, named: MessageField, topic: str | None, request: Request[Any], call: Call
    ) -> Need:
        if topic is not None:
            need = thing(ResourceKind.TOPIC, topic, named.actions)
            self._decide(user, need, call)
            return need
        cluster = DECLARED[request.__class__].cluster
        if cluster:
            self._decide(user, Need(ResourceKind.CLUSTER, self._cluster, cluster), call)
        place = getattr(request, named.field)
        # A message may be stored there meanwhile, so the handler must not look again.
        raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {place}")

    def _asks_rules(self, call: Call) -> bool:
        return self._authorizes and call.asked.heading.code not in self._for_all

    def _check(self, request: Request[Any], call: Call) -> User | None:
        """Return the user that asks; None when this request needs no user."""
        declaration = DECLARED.get(request.__class__)
        if declaration is None or call.asked.heading.code != request.code:
            raise _undeclared(request, call)
        asks_rules = self._asks_rules(call)
        if not asks_rules and call.asked.heading.code in self._unsigned:
            return None
        if self._is_exempt(call):
            call.peer.prove()
            return None
        remembered = self._remembered(call)
        user = remembered.user
        must_sign = request.__class__ is CopyAccounts
        if self._knows_certificates and call.peer.certificate_name and not _names_user(call):
            user = self._known(call.peer.certificate_name)
            call.peer.prove()
        elif user is None or must_sign or remembered.names not in call.asked.header:
            user = self._signer(call, must_be_fresh=self._fresh_only or must_sign)
            call.peer.prove()
            if self._remembers_users:
                remembered.user, remembered.names = user, _named(user.name, call.encoding)
        if asks_rules:
            self._ask_rules(declaration, user, request, call, remembered)
        return user

    def _signer(self, call: Call, *, must_be_fresh: bool) -> User:
        """Return the user that signed a request."""
        fields = call.ext_fields
        name = fields.get(ACCESS_KEY)
        if not name:
            raise Denied(Reason.NO_USER, "username cannot be null.")
        user = self._accounts.value.users.get(name)
        given = fields.get(SIGNATURE)
        if fields.get(SIGNATURE_METHOD) == SignatureMethod.SHA256:
            _compare(user, given, lambda secret: sign_fresh(call.asked.heading.code, fields, call.body, secret), name)
            self._check_fresh(name, fields)
            return self._known(name)
        if must_be_fresh:
            remark = "check signature failed: this server wants signature_method=HmacSHA256, which cannot be replayed."
            raise Denied(Reason.REPLAYABLE_SIGNATURE, remark)
        if call.version <= LAST_WITHOUT_UNIQUE_KEY:
            fields.pop(UNIQUE_KEY_QUERY, None)
        _compare(user, given, lambda secret: sign(fields, call.body, secret), name)
        return self._known(name)

    def _known(self, name: str) -> User:
        user = self._accounts.value.users.get(name)
        if user is None:
            raise Denied(Reason.UNKNOWN_USER, f"User:{name} is not found.")
        if user.status is UserStatus.DISABLE:
            raise Denied(Reason.DISABLED_USER, f"User:{name} is disabled.")
        return user

    def _check_fresh(self, name: str, fields: dict[str, str]) -> None:
        """Raise ``Denied`` if a request that is signed rightly is old or repeated."""
        stamp = Stamp.of(fields)
        if stamp is None:
            remark = f"check signature failed: {SIGNATURE_TIME} and {SIGNATURE_NONCE} cannot be read."
            raise Denied(Reason.WRONG_SIGNATURE, remark)
        fault = self._freshness.fault(name, stamp.sender, stamp.number, stamp.time_ms, self._now_ms())
        if fault:
            raise Denied(Reason.STALE_SIGNATURE, f"check signature failed: {fault}.")

    def _ask_rules(
        self, declaration: Declaration, user: User, request: Request[Any], call: Call, remembered: _CachedPermissions
    ) -> None:
        asked: tuple[object, ...] | None = None
        if declaration.in_body is None:
            asked = _asked(declaration, user, request)
            if asked in remembered.allowed:
                return
        for need in needs_of(declaration, request, call.body, self._cluster):
            self._decide(user, need, call)
        if declaration.broker:
            for known in self.clusters_of(getattr(request, declaration.broker)):
                self._decide(user, Need(ResourceKind.CLUSTER, known, declaration.cluster), call)
            return
        if asked is not None:
            if len(remembered.allowed) >= REMEMBERED_MAX:
                remembered.allowed.clear()
            remembered.allowed.add(asked)

    def _decide(self, user: User, need: Need, call: Call) -> None:
        verdict = self._verdict(user, need, call.peer)
        if not verdict.allowed:
            raise denied_by_rules(user, need, call.peer.address.host, verdict)

    def _verdict(self, user: User, need: Need, peer: Peer) -> AccessVerdict:
        return decide(user, self._accounts.value.rules.get(user.name, NO_RULES), need, peer.address.host)

    def _remembered(self, call: Call) -> _CachedPermissions:
        accounts, slots = self._accounts.value, call.peer.slots
        remembered: _CachedPermissions | None = slots.get(self)
        if remembered is None or remembered.accounts is not accounts:
            remembered = slots[self] = _CachedPermissions(accounts)
        return remembered

    def _note(self, request: Request[Any], call: Call, user: User | None, found: Need | None = None) -> None:
        """Tell the audit log of a request that may reach its handler, and which rules say so."""
        needs = needs_of(DECLARED[request.__class__], request, call.body, self._cluster)
        needs += [found] if found is not None else []
        if user is None:
            why = "a white list lets it pass without a user"
        elif not self._asks_rules(call):
            why = "rules are not asked"
        else:
            verdicts = [self._verdict(user, need, call.peer) for need in needs]
            texts = [str(verdict.rule or verdict.reason) for verdict in verdicts]
            why = "; ".join(dict.fromkeys(texts)) or "nothing is needed but a known user"
        self._witness.allowed(request, call, user, [str(need) for need in needs], why)


def _audited(scope: AuditScope) -> frozenset[type[Request[Any]]]:
    """Return the requests that the audit log has a line about when they are allowed."""
    if scope is AuditScope.OFF:
        return frozenset()
    return frozenset(
        kind for kind, declared in DECLARED.items() if scope is AuditScope.ALL or changes_something(declared)
    )


def _undeclared(request: Request[Any], call: Call) -> Denied:
    remark = f"{type(request).__name__} declares nothing that it touches, so nobody may use it"
    if call.asked.heading.code != request.code:
        remark = f"the request has two codes, {call.asked.heading.code} and {request.code.value}: nobody may use it"
    return Denied(Reason.UNDECLARED, remark)


def _names_user(call: Call) -> bool:
    return ACCESS_KEY_BYTES in call.asked.header and ACCESS_KEY in call.ext_fields


def _asked(declaration: Declaration, user: User, request: Request[Any]) -> tuple[object, ...]:
    """Return what is remembered when a request is allowed."""
    return user.name, request.__class__, *[getattr(request, touch.field) for touch in declaration.touches]


def _compare(user: User | None, given: str | None, signed_with: Callable[[str], str], name: str) -> None:
    """Raise ``Denied`` unless a user exists and has signed; the peer reads the same words in both cases."""
    wanted = signed_with("" if user is None else user.secret)
    is_right = hmac.compare_digest((given or "").encode(errors="replace"), wanted.encode())
    if user is None:
        raise Denied(Reason.UNKNOWN_USER, UNPROVED, why=f"User:{name} is not found.")
    if not is_right:
        raise Denied(Reason.WRONG_SIGNATURE, UNPROVED)


def _named(name: str, encoding: int) -> bytes:
    """Return how a header names its user, in the bytes of its encoding."""
    if encoding:
        key, value = ACCESS_KEY.encode(), name.encode()
        return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value
    return f'"{ACCESS_KEY}":'.encode() + msgspec.json.encode(name)
