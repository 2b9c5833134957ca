"""Authentication and encryption of a client: the keys of an account, and TLS.

Java: ``AclClientRPCHook`` and ``SessionCredentials``; ``TlsSystemConfig``.
"""

import ssl

from msgspec import Struct

from firearrow.client.doors import Doors
from firearrow.errors import SettingsError
from firearrow.model.signature import SignatureMethod
from firearrow.protocol.auth import Credentials, FreshSigner, Signer, signer_of
from firearrow.runtime.tls_settings import ClientTls, client_context
from firearrow.telemetry.hidden import hidden_repr


class Access(Struct, frozen=True):
    """The keys of an account and the TLS settings that a client uses."""

    __repr__ = hidden_repr

    tls: ClientTls = ClientTls()
    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""
    signature_method: SignatureMethod = SignatureMethod.SHA1

    def check(self) -> None:
        """Raise ``SettingsError`` if the values do not fit together."""
        if bool(self.access_key) != bool(self.secret_key):
            raise SettingsError("access_key and secret_key belong together; give both, or neither")
        if self.security_token and not self.access_key:
            raise SettingsError("a security_token goes with an access_key and a secret_key; give those too")

    def prepared(self, doors: Doors) -> tuple[ssl.SSLContext | None, Signer | FreshSigner | None]:
        """Return the TLS context (None without TLS) and the signer of requests (None without keys)."""
        context = client_context(self.tls) if self.tls.enabled else None
        if not self.access_key:
            return context, None
        token, method = self.security_token or None, self.signature_method
        credentials = Credentials(self.access_key, self.secret_key, token, method)
        return context, signer_of(credentials, doors.clock.now_ms, doors.chance)
