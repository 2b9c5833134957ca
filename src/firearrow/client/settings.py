"""The settings that producers and consumers have in common, and how the options of a client are checked."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, TypedDict, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from firearrow.client.access import Access
from firearrow.client.metrics.client_metrics import ClientMetrics
from firearrow.errors import SettingsError
from firearrow.model.names import group_fault
from firearrow.model.signature import SignatureMethod
from firearrow.runtime.tls_settings import ClientTls
from firearrow.telemetry.hidden import hidden_repr


class ClientSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of any client."""

    instance_name: Annotated[str, Meta(description="Last part of the client id; empty: unique.")] = ""
    client_ip: Annotated[str, Meta(description="Address in client ids and unique keys; empty: this machine's.")] = ""
    unit_name: Annotated[str, Meta(description="Added to the client id.")] = ""
    poll_name_server_ms: Annotated[int, Meta(ge=10, description="How often routes are refreshed.")] = 30_000
    fetch_name_server_ms: Annotated[
        int, Meta(ge=10, description="How often the list of name servers is fetched, if an http:// address is given.")
    ] = 120_000
    heartbeat_ms: Annotated[int, Meta(ge=10, description="How often heartbeats are sent to brokers.")] = 30_000
    request_timeout_ms: Annotated[
        int, Meta(ge=1, description="Timeout of requests for routes, offsets and members.")
    ] = 3000
    tls: Annotated[ClientTls, Meta(description="TLS to name servers and brokers.")] = ClientTls()
    access_key: Annotated[
        str, Meta(description="Access key of the account that signs requests; empty: not signed.")
    ] = ""
    secret_key: Annotated[str, Meta(description="Secret key of that account.")] = ""
    security_token: Annotated[str, Meta(description="Security token of temporary keys.")] = ""
    signature_method: Annotated[
        SignatureMethod,
        Meta(description="How requests are signed; HmacSHA256 cannot be replayed; only FireArrow's servers know it."),
    ] = SignatureMethod.SHA1
    metrics: Annotated[ClientMetrics | None, Meta(description="Counts what the client does; None: nothing.")] = None

    __repr__ = hidden_repr

    @property
    def access(self) -> Access:
        """The keys of an account and TLS."""
        return Access(self.tls, self.access_key, self.secret_key, self.security_token, self.signature_method)


class ClientOptions(TypedDict, total=False):
    """The settings of any client as keyword arguments."""

    instance_name: str
    client_ip: str
    unit_name: str
    poll_name_server_ms: int
    fetch_name_server_ms: int
    heartbeat_ms: int
    request_timeout_ms: int
    tls: ClientTls
    access_key: str
    secret_key: str
    security_token: str
    signature_method: SignatureMethod
    metrics: ClientMetrics | None


S = TypeVar("S", bound=ClientSettings)


def checked(kind: type[S], group: str, options: ClientOptions) -> S:
    """Return settings with the given options; raise ``SettingsError`` if the group or an option is not usable."""
    fault = group_fault(group)
    if fault:
        raise SettingsError(fault)
    given: dict[str, object] = {"group": group, **options}
    _check_names(given, kind)
    try:
        settings = msgspec.convert(given, kind)
    except msgspec.ValidationError as wrong:
        raise _unusable(given, wrong) from wrong
    settings.access.check()
    _check_ip(settings.client_ip)
    return settings


def _check_ip(text: str) -> None:
    """Raise ``SettingsError`` unless ``text`` is an IP address or empty."""
    if text:
        try:
            ip_address(text)
        except ValueError:
            raise SettingsError(f"client_ip={text!r} is not an IP address; write one, or leave it out") from None


def _check_names(given: Iterable[str], settings: type[Struct]) -> None:
    """Raise ``SettingsError`` for an unknown option, with the option that was probably meant."""
    known = settings.__struct_fields__
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise SettingsError(f"{name} is not an option; {hint}")


def _unusable(given: Mapping[str, object], wrong: Exception) -> SettingsError:
    """Return the error for an invalid value of an option; ``wrong`` is msgspec's error, which names its path."""
    reason, _, path = str(wrong).partition(" - at `$.")
    name = path.removesuffix("`").partition(".")[0]
    what = f"{name}={given[name]!r}" if name in given else "an option"
    if name == "tls" and not isinstance(given[name], ClientTls):
        reason = "write tls=ClientTls(enabled=True), with ClientTls of firearrow.client"
    return SettingsError(f"{what} is not usable: {reason.replace('`', '')}")


def with_options(text: str | None, settings: type[Struct], *, but: tuple[str, ...] = ()) -> str:
    """Return a docstring with a line for every option and its default, for ``help()``."""
    lines = [
        f"    {field.name} = {_default(field.default)}: {_meaning(field.type)}"
        for field in fields(settings)
        if field.name not in but
    ]
    return "\n".join([text or "", "", "    Options:", "", *lines, ""])


def _default(value: object) -> str:
    if isinstance(value, Struct):
        return type(value).__name__ + "()"
    return repr(value.value) if isinstance(value, StrEnum) else str(getattr(value, "name", repr(value)))


def _meaning(annotated: object) -> str:
    metas = getattr(annotated, "__metadata__", ())
    return next((meta.description for meta in metas if isinstance(meta, Meta) and meta.description), "")
