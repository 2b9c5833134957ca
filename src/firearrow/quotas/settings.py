"""The settings of quotas. They are ours: Apache's broker has no such limits.

Every limit counts for a broker by itself and is 0, no limit, unless it is set. All of them may be changed while the
broker runs.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from firearrow.errors import SettingsError

RATE_MAX: Final = 10**12
RATE_DIGITS_MAX: Final = len(str(RATE_MAX))


class QuotaKind(StrEnum):
    """The kind of a name that has a quota."""

    USER = "user"
    CLIENT = "client"
    TOPIC = "topic"
    GROUP = "group"


class Measure(StrEnum):
    """The unit that a quota counts."""

    BYTES = "bytes"
    REQUESTS = "requests"


class Limit(NamedTuple):
    """Limits of a kind in a measure, a second: for names in ``named`` their own, for others ``default``; 0: none."""

    kind: QuotaKind
    measure: Measure
    default: int
    named: Mapping[str, int]

    @property
    def key(self) -> str:
        """The name of the setting."""
        return f"quota{self.kind.capitalize()}{self.measure.capitalize()}"

    def of(self, name: str) -> int:
        """Return the limit of a name."""
        return self.named.get(name, self.default)


def _rate(what: str) -> Meta:
    return Meta(ge=0, le=RATE_MAX, description=f"{what}; 0: no limit.")


_BYTES: Final = "Bytes of requests and of answers with messages, a second, of"
_REQUESTS: Final = "Sends, pulls and queries a second of"


class QuotaConfig(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The quotas of users, clients, topics and consumer groups at one broker."""

    quota_user_bytes: Annotated[int, _rate(f"{_BYTES} a user (access must be on)")] = 0
    quota_user_requests: Annotated[int, _rate(f"{_REQUESTS} a user (access must be on)")] = 0
    quota_client_bytes: Annotated[int, _rate(f"{_BYTES} a client id, or of a connection without one")] = 0
    quota_client_requests: Annotated[int, _rate(f"{_REQUESTS} a client id, or of a connection without one")] = 0
    quota_topic_bytes: Annotated[int, _rate(f"{_BYTES} a topic")] = 0
    quota_topic_requests: Annotated[int, _rate(f"{_REQUESTS} a topic")] = 0
    quota_group_bytes: Annotated[int, _rate(f"{_BYTES} a consumer group")] = 0
    quota_group_requests: Annotated[int, _rate(f"{_REQUESTS} a consumer group")] = 0
    quota_overrides: Annotated[
        str,
        Meta(
            description="Limits of certain names instead of the eight above, divided by commas: kind, measure and name "
            "as in topicBytes:orders=1000000,userRequests:etl=0; 0: no limit for that name."
        ),
    ] = ""
    quota_connections_per_address: Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="Connections from one address to this broker's ports; 0: no limit."),
    ] = 0

    def limits(self) -> tuple[Limit, ...]:
        """Return the limits that are not zero for everybody; raise ``SettingsError`` for bad overrides."""
        named = _read(self.quota_overrides)
        found = []
        for kind in QuotaKind:
            for measure in Measure:
                limit = Limit(kind, measure, getattr(self, f"quota_{kind}_{measure}"), named[kind, measure])
                if limit.default or any(limit.named.values()):
                    found.append(limit)
        return tuple(found)


Named = dict[tuple[QuotaKind, Measure], dict[str, int]]


def _read(text: str) -> Named:
    named: Named = {(kind, measure): {} for kind in QuotaKind for measure in Measure}
    for kind, measure, name, rate in _items(text):
        named[kind, measure][name] = rate
    return named


def _items(text: str) -> Iterator[tuple[QuotaKind, Measure, str, int]]:
    words = {f"{kind}{measure.capitalize()}": (kind, measure) for kind in QuotaKind for measure in Measure}
    for item in filter(None, map(str.strip, text.split(","))):
        left, _, rate = item.rpartition("=")
        word, _, name = left.partition(":")
        is_rate = rate.isascii() and rate.isdigit() and len(rate) <= RATE_DIGITS_MAX and int(rate) <= RATE_MAX
        if word.strip() not in words or not name.strip() or not is_rate:
            raise SettingsError(
                f"quotaOverrides: {item!r} is not a limit of a name; write it like topicBytes:orders=1000000, with one "
                f"of {', '.join(words)} and a number from 0 to {RATE_MAX}"
            )
        yield *words[word.strip()], name.strip(), int(rate)


def check_quotas(config: QuotaConfig) -> None:
    """Raise ``SettingsError`` when the overrides cannot be read."""
    config.limits()
