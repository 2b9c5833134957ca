"""A schema registry that speaks Confluent's protocol: bodies with the id of their schema in front, schemas by HTTP.

A body of a registered schema begins with a zero byte and the schema's id in four bytes, big-endian. Ids never change
their meaning, so a schema is asked for once in a process. A registry that does not answer is an error that another
attempt may mend; an id that the registry does not have is a fact about the body (`Misfit`).
"""

import base64
import struct
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import msgspec
from msgspec import Struct

from firearrow.errors import FireArrowError, SettingsError
from firearrow.spark.bodies.misfit import Misfit

MAGIC: Final = 0
HEAD: Final = struct.Struct(">BI")
TIMEOUT_S: Final = 15
NOT_FOUND: Final = 404


class RegistryUnreachable(FireArrowError):
    """The schema registry did not answer, or not as a registry does; try again."""


class RegisteredSchema(Struct, frozen=True):
    """A schema as the registry keeps it."""

    schema: str
    kind: str = msgspec.field(name="schemaType", default="AVRO")
    references: list[dict[str, Any]] = []


def split(body: bytes) -> tuple[int, bytes]:
    """The schema's id of a body, and what follows it."""
    if len(body) < HEAD.size or body[0] != MAGIC:
        raise Misfit("the body does not begin with the id of a registered schema (a zero byte and four more)")
    return HEAD.unpack_from(body)[1], body[HEAD.size :]


def without_user(url: str) -> str:
    """The address of a registry without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class SchemaRegistry:
    """Asks a registry; ``url`` may hold a user and a password: http://user:password@host:8081."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(f"the registry is {without_user(url)!r}; give its address as http://host:8081")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._known: dict[int, RegisteredSchema | None] = {}

    def by_id(self, number: int) -> RegisteredSchema:
        """The schema of an id."""
        if number not in self._known:
            self._known[number] = self._get(f"/schemas/ids/{number}")
        found = self._known[number]
        if found is None:
            del self._known[number]  # somebody may register it
            raise Misfit(f"the registry has no schema with the id {number}")
        return found

    def latest(self, subject: str, serialized: bool = False) -> RegisteredSchema:
        """The latest schema of a subject; a Protobuf schema as its serialized descriptor if asked so."""
        return self.version(subject, "latest", serialized)

    def version(self, subject: str, version: str, serialized: bool = False) -> RegisteredSchema:
        """One version of a subject's schema."""
        more = "?format=serialized" if serialized else ""
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}{more}")
        if found is None:
            raise SettingsError(
                f"the registry {self._url} has no subject {subject}; name one with --subject, or give a schema file"
            )
        return found

    def _get(self, path: str) -> RegisteredSchema | None:
        asked = urllib.request.Request(self._url + path, headers=self._headers)  # noqa: S310 - http or https, see above
        try:
            with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as answer:  # noqa: S310
                return msgspec.json.decode(answer.read(), type=RegisteredSchema)
        except urllib.error.HTTPError as refused:
            if refused.code == NOT_FOUND:
                return None
            raise RegistryUnreachable(f"the registry {self._url} answered {path} with {refused.code}") from refused
        except (OSError, msgspec.MsgspecError) as wrong:
            raise RegistryUnreachable(
                f"the registry {self._url} did not answer {path}: {wrong}; check its address, and whether it runs"
            ) from wrong
