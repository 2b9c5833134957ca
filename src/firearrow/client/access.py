"""How a client proves who it is, and what it speaks: an account's keys, and TLS.

Java: ``AclClientRPCHook`` and ``SessionCredentials``; ``TlsSystemConfig``.
"""

import ssl
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Final

from msgspec import Meta, Struct
from msgspec.structs import asdict, fields

from firearrow.errors import SettingsError
from firearrow.protocol.auth import Credentials, Signer
from firearrow.runtime.tlssettings import ClientTls, client_context


class Access(Struct, frozen=True):
    """What servers are shown."""

    tls: ClientTls = ClientTls()
    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""

    def check(self) -> None:
        """Raise ``SettingsError`` if it cannot work."""
        if bool(self.access_key) != bool(self.secret_key):
            raise SettingsError("access_key and secret_key belong together; give both, or neither")
        if self.security_token and not self.access_key:
            raise SettingsError("a security_token goes with an access_key and a secret_key; give those too")

    def prepared(self) -> tuple[ssl.SSLContext | None, Signer | None]:
        """The TLS context, if TLS is spoken, and what signs requests, if they are signed."""
        context = client_context(self.tls) if self.tls.enabled else None
        if not self.access_key:
            return context, None
        return context, Signer(Credentials(self.access_key, self.secret_key, self.security_token or None))


def check_ip(text: str) -> None:
    """Raise ``SettingsError`` unless it is an address of a machine, or empty."""
    if text:
        try:
            ip_address(text)
        except ValueError:
            raise SettingsError(f"client_ip={text!r} is no IP address; write one, or leave it out") from None


def check_names(given: Iterable[str], settings: type[Struct]) -> None:
    """Raise ``SettingsError`` for an option that there is not, with the one that was probably meant."""
    known = settings.__struct_fields__
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise SettingsError(f"{name} is no option here; {hint}")


def unusable(given: Mapping[str, object], wrong: Exception) -> SettingsError:
    """What to raise for a value that an option does not take; ``wrong`` is msgspec's complaint, which has its path."""
    reason, _, path = str(wrong).partition(" - at `$.")
    name = path.removesuffix("`").partition(".")[0]
    what = f"{name}={given[name]!r}" if name in given else "an option"
    if name == "tls" and not isinstance(given[name], ClientTls):
        reason = "write tls=ClientTls(enabled=True), with ClientTls of firearrow.client"
    return SettingsError(f"{what} is not usable: {reason.replace('`', '')}")


def with_options(text: str | None, settings: type[Struct], *, but: tuple[str, ...] = ()) -> str:
    """A docstring with a line for every option and its default, for ``help()``."""
    lines = [
        f"    {field.name} = {_default(field.default)}: {_meaning(field.type)}"
        for field in fields(settings)
        if field.name not in but
    ]
    return "\n".join([text or "", "", "    Options:", "", *lines, ""])


def _default(value: object) -> str:
    return type(value).__name__ + "()" if isinstance(value, Struct) else str(getattr(value, "name", repr(value)))


def _meaning(annotated: object) -> str:
    metas = getattr(annotated, "__metadata__", ())
    return next((meta.description for meta in metas if isinstance(meta, Meta) and meta.description), "")


def without_secrets(settings: Struct) -> str:
    """Settings as text for people, without the secret among them."""
    shown = {name: "..." if name in _SECRETS and value else value for name, value in asdict(settings).items()}
    return f"{type(settings).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


_SECRETS: Final = frozenset({"secret_key", "security_token"})
