"""TLS settings (certificates, keys, trust) and the contexts made from them.

The names and defaults follow Apache's ``TlsSystemConfig``: a server is permissive (TLS and plaintext on one
port), asks no certificate of its clients, and a client does not check the server's certificate unless configured.
"""

import enum
import ssl
from typing import Annotated, Literal

from msgspec import Meta, Struct

from firearrow.errors import SettingsError
from firearrow.telemetry.hidden import hidden_repr


class TlsMode(enum.Enum):
    """Whether a server accepts plaintext, TLS, or both on its port."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ServerTls(Struct, frozen=True, forbid_unknown_fields=True):
    """TLS of a listening port."""

    __repr__ = hidden_repr

    mode: Annotated[TlsMode, Meta(description="Refuse TLS, accept TLS and plaintext, or refuse plaintext.")] = (
        TlsMode.PERMISSIVE
    )
    certificate_path: Annotated[str, Meta(description="PEM file of the certificate chain, the server's first.")] = ""
    key_path: Annotated[str, Meta(description="PEM file of the private key.")] = ""
    key_password: Annotated[str, Meta(description="Password of the private key, if it has one.")] = ""
    trust_path: Annotated[
        str, Meta(description="PEM file of the certificate authorities that clients' certificates are checked against.")
    ] = ""
    client_auth: Annotated[
        Literal["none", "optional", "require"], Meta(description="Whether clients must present a certificate.")
    ] = "none"


class ClientTls(Struct, frozen=True, forbid_unknown_fields=True):
    """TLS of outgoing connections."""

    __repr__ = hidden_repr

    enabled: Annotated[bool, Meta(description="Speak TLS to every server.")] = False
    verify_server: Annotated[bool, Meta(description="Check the server's certificate and name.")] = False
    trust_path: Annotated[
        str,
        Meta(description="PEM file of the authorities that check servers' certificates; empty: the system's."),
    ] = ""
    certificate_path: Annotated[
        str, Meta(description="PEM file of the client's certificate chain, if servers ask for it.")
    ] = ""
    key_path: Annotated[str, Meta(description="PEM file of the client's private key.")] = ""
    key_password: Annotated[str, Meta(description="Password of the private key, if it has one.")] = ""


def server_context(settings: ServerTls) -> ssl.SSLContext:
    """Return the TLS context of a listening port; raise ``SettingsError`` if a file is missing or does not fit."""
    if not settings.certificate_path or not settings.key_path:
        raise SettingsError("TLS needs certificate_path and key_path; set both, or set the mode to disabled")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    _load_identity(context, settings.certificate_path, settings.key_path, settings.key_password)
    if settings.client_auth != "none":
        _load_trust(context, settings.trust_path)
        required = settings.client_auth == "require"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def client_context(settings: ClientTls) -> ssl.SSLContext:
    """Return the TLS context of outgoing connections; raise ``SettingsError`` if a file is missing or does not fit."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    if settings.verify_server:
        _load_trust(context, settings.trust_path)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.certificate_path:
        _load_identity(context, settings.certificate_path, settings.key_path, settings.key_password)
    return context


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A renegotiation could make a write wait for a read; no RocketMQ client asks for one.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION


def _load_identity(context: ssl.SSLContext, certificate_path: str, key_path: str, password: str) -> None:
    try:
        context.load_cert_chain(certificate_path, key_path or None, password or (lambda: ""))
    except (OSError, ssl.SSLError) as error:
        files = f"certificate {certificate_path} with key {key_path}"
        raise SettingsError(f"TLS cannot use {files}: {error}; check both files") from error


def _load_trust(context: ssl.SSLContext, path: str) -> None:
    if not path:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        reason = f"TLS cannot use the trusted certificates of {path}: {error}"
        raise SettingsError(f"{reason}; check the file of trust_path or --trust") from error
