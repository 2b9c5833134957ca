"""Apache's brokers behind accounts, and behind TLS."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from judges import ApacheBroker
from judges.process import Child

OWNER = ("firearrow", "owner-secret")
"""The account that may do everything."""
ENFORCING = "-Dtls.server.mode=enforcing"
READER = ("readeronly", "reader-secret")
"""An account that may consume and not send (4.9 only)."""

_AUTH = "org.apache.rocketmq.auth"
_ACCOUNTS_5: dict[str, str] = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": f'{{"username":"{OWNER[0]}","password":"{OWNER[1]}"}}',
    "innerClientAuthenticationCredentials": f'{{"accessKey":"{OWNER[0]}","secretKey":"{OWNER[1]}"}}',
}
_ACCOUNTS_4 = f"""accounts:
  - accessKey: {OWNER[0]}
    secretKey: {OWNER[1]}
    admin: true
  - accessKey: {READER[0]}
    secretKey: {READER[1]}
    admin: false
    defaultTopicPerm: SUB
    defaultGroupPerm: SUB
"""


class SecuredBroker(ApacheBroker):
    """A broker that serves nobody without an account; ready when its name server lists it.

    With ``flags`` that show a certificate it speaks TLS and nothing else.
    """

    def __init__(self, version: str, name_server: str, flags: tuple[str, ...] = ()) -> None:
        settings = {"aclEnable": "true"} if version.startswith("4.") else _ACCOUNTS_5
        secured = (*flags, ENFORCING) if flags else ()
        super().__init__(version, name_servers=[name_server], settings=settings, flags=secured)

    def _launch(self) -> Child:
        (self.home / "conf").mkdir(exist_ok=True)
        (self.home / "conf" / "plain_acl.yml").write_text(_ACCOUNTS_4)
        return super()._launch()

    def _ready(self) -> bool:
        return all(map(self._listed_by, self.name_servers))


class TlsBroker(ApacheBroker):
    """A broker that speaks TLS and nothing else; ready when its name server lists it."""

    def __init__(self, version: str, name_server: str, flags: tuple[str, ...]) -> None:
        super().__init__(version, name_servers=[name_server], flags=(*flags, ENFORCING))

    def _ready(self) -> bool:
        return all(map(self._listed_by, self.name_servers))


def certified(directory: Path) -> tuple[Path, tuple[str, ...]]:
    """Make a certificate of 127.0.0.1; return it, and the flags by which Apache's servers show it.

    RSA, because Netty reads no Ed25519 keys.
    """
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=7))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    shown, secret = directory / "server.pem", directory / "server.key"
    shown.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    flags = {"test.mode.enable": "false", "server.certPath": str(shown), "server.keyPath": str(secret)}
    return shown, tuple(f"-Dtls.{name}={value}" for name, value in flags.items())
