"""Signed requests: the account that sends a request, and the proof.

Java: ``AclClientRPCHook``, ``AclUtils``, ``AclSigner``; on the server ``AclUtils`` (4.9) and
``DefaultAuthenticationContextBuilder`` (5.x). The proof travels in header fields::

    AccessKey       the name of the account
    SecurityToken   optional, signed like any other field
    Signature       base64(HMAC-SHA1(secret key, content))

``content`` is the values of all fields but ``Signature``, as text, in ascending order of their names, followed by the
body. The request code is not signed: only the fields and the body are.

FireArrow's servers also know what Apache lacks, signatures that cannot be replayed. Three more fields travel::

    SignatureMethod   HmacSHA256
    SignatureTime     when the request was signed, in milliseconds since 1970
    SignatureNonce    the sender, a random text, a hyphen, and a number that the sender counts up

and ``Signature`` is base64(HMAC-SHA256(secret key, content)); ``content`` is the request code, the numbers of fields
and of bytes in the body, names and values with their lengths, and the body.
"""

import base64
import hmac
from collections.abc import Callable, Mapping
from itertools import count
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from firearrow.model.signature import SignatureMethod
from firearrow.protocol.conversation import Request
from firearrow.protocol.layout import to_text

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE_METHOD: Final = "SignatureMethod"
SIGNATURE_TIME: Final = "SignatureTime"
SIGNATURE_NONCE: Final = "SignatureNonce"
SENDER_LENGTH_MAX: Final = 64
NUMBER_LENGTH_MAX: Final = 18


class Credentials(msgspec.Struct, frozen=True):
    """The access key and secret key of an account, and a security token if there is one."""

    access_key: str
    secret_key: str
    security_token: str | None = None
    method: SignatureMethod = SignatureMethod.SHA1

    def __repr__(self) -> str:
        """Keep the secret out of logs."""
        return f"Credentials({self.access_key!r})"


def sign(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the signature over header fields and a body."""
    digest = hmac.digest(secret_key.encode(), content(fields, body), "sha1")
    return base64.b64encode(digest).decode()


def content(fields: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes that are signed. Half of a surrogate pair is signed as a question mark, as in Java."""
    return "".join(map(fields.__getitem__, _signed(fields))).encode(errors="replace") + body


def _signed(fields: Mapping[str, str]) -> list[str]:
    """The names of signed fields in the order of their values: by UTF-16 code units, as Java compares strings.

    Not cached: the names are what a peer sent whose signature is not checked yet.
    """
    names = sorted(fields)
    if not "".join(names).isascii():  # the order of ASCII texts is the same by code points and by UTF-16 code units
        names.sort(key=_java_order)
    if SIGNATURE in fields:
        names.remove(SIGNATURE)
    return names


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def signing_fields(fields: Mapping[str, str], body: bytes, credentials: Credentials) -> dict[str, str]:
    """Return the fields to add to a request so that it is signed."""
    added = {ACCESS_KEY: credentials.access_key}
    if credentials.security_token is not None:
        added[SECURITY_TOKEN] = credentials.security_token
    added[SIGNATURE] = sign({**fields, **added}, body, credentials.secret_key)
    return added


def sign_fresh(code: int, fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the signature by HMAC-SHA256 over a request code, header fields and a body."""
    names = _signed(fields)
    named = "".join(f"{len(name)}:{name}{len(fields[name])}:{fields[name]}" for name in names)
    signed = f"{code}:{len(names)}:{len(body)}:{named}".encode(errors="replace") + body
    return base64.b64encode(hmac.digest(secret_key.encode(), signed, "sha256")).decode()


class Stamp(NamedTuple):
    """The time at which a request was signed, its sender, and the sender's number for it."""

    time_ms: int
    sender: str
    number: int

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> "Stamp | None":
        """Return the stamp in a request's fields; None if there is none that can be read."""
        time_ms, (sender, _, number) = fields.get(SIGNATURE_TIME, ""), fields.get(SIGNATURE_NONCE, "").partition("-")
        if not (_is_number(time_ms) and _is_number(number) and 0 < len(sender) <= SENDER_LENGTH_MAX):
            return None
        return cls(int(time_ms), sender, int(number))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= NUMBER_LENGTH_MAX


class Signer:
    """Signs the requests of one account."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def __call__(self, request: Request[Any], body: bytes | bytearray | memoryview) -> dict[str, str]:
        """The fields to add to a request."""
        return signing_fields(to_text(request), bytes(body), self._credentials)


class FreshSigner:
    """Signs the requests of one account so that they cannot be replayed. ``sender`` is random; two never share it."""

    def __init__(self, credentials: Credentials, now_ms: Callable[[], int], sender: str) -> None:
        self._credentials = credentials
        self._now_ms = now_ms
        self._sender = sender
        self._numbers = count(1)

    def __call__(self, request: Request[Any], body: bytes | bytearray | memoryview) -> dict[str, str]:
        """The fields to add to a request."""
        credentials = self._credentials
        added = {
            ACCESS_KEY: credentials.access_key,
            SIGNATURE_METHOD: SignatureMethod.SHA256.value,
            SIGNATURE_TIME: str(self._now_ms()),
            SIGNATURE_NONCE: f"{self._sender}-{next(self._numbers)}",
        }
        if credentials.security_token is not None:
            added[SECURITY_TOKEN] = credentials.security_token
        fields = {**to_text(request), **added}
        added[SIGNATURE] = sign_fresh(request.code, fields, bytes(body), credentials.secret_key)
        return added


def signer_of(credentials: Credentials, now_ms: Callable[[], int], chance: Random) -> Signer | FreshSigner:
    """Return what signs requests by the method of these credentials."""
    if credentials.method is SignatureMethod.SHA1:
        return Signer(credentials)
    return FreshSigner(credentials, now_ms, f"{chance.getrandbits(64):016x}")
