"""Signed requests: the account that sends a request, and the proof.

Java: ``AclClientRPCHook``, ``AclUtils``, ``AclSigner``; on the server ``AclUtils`` (4.9) and
``DefaultAuthenticationContextBuilder`` (5.x). The proof travels in header fields::

    AccessKey       the name of the account
    SecurityToken   optional, signed like any other field
    Signature       base64(HMAC-SHA1(secret key, content))

``content`` is the values of all fields but ``Signature``, as text, in ascending order of their names, followed by the
body. The request code is not signed: only the fields and the body are.
"""

import base64
import hmac
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from firearrow.protocol.conversation import Request
from firearrow.protocol.layout import to_text

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field


class Credentials(msgspec.Struct, frozen=True):
    """The access key and secret key of an account, and a security token if there is one."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        """Keep the secret out of logs."""
        return f"Credentials({self.access_key!r})"


def sign(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the signature over header fields and a body."""
    digest = hmac.digest(secret_key.encode(), content(fields, body), "sha1")
    return base64.b64encode(digest).decode()


def content(fields: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes that are signed. Half of a surrogate pair is signed as a question mark, as in Java."""
    return "".join(map(fields.__getitem__, _signed(tuple(fields)))).encode(errors="replace") + body


@lru_cache(maxsize=1024)
def _signed(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of signed fields in the order of their values: by UTF-16 code units, as Java compares strings."""
    return tuple(sorted((name for name in names if name != SIGNATURE), key=_java_order))


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def signing_fields(fields: Mapping[str, str], body: bytes, credentials: Credentials) -> dict[str, str]:
    """Return the fields to add to a request so that it is signed."""
    added = {ACCESS_KEY: credentials.access_key}
    if credentials.security_token is not None:
        added[SECURITY_TOKEN] = credentials.security_token
    added[SIGNATURE] = sign({**fields, **added}, body, credentials.secret_key)
    return added


class Signer:
    """Signs the requests of one account."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def __call__(self, request: Request[Any], body: bytes | bytearray | memoryview) -> dict[str, str]:
        """The fields to add to a request."""
        return signing_fields(to_text(request), bytes(body), self._credentials)
