"""Certificates for tests: self-signed, short-lived, made on the spot.

Ed25519 keys, because their signatures have one length: a simulated TLS handshake then has the same packet
sizes in every run.
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from typing import NamedTuple


class CertificateFiles(NamedTuple):
    """The paths of a certificate and its key."""

    certificate_path: str
    key_path: str


def self_signed(
    directory: str,
    hosts: Sequence[str] = ("localhost", "127.0.0.1"),
    name: str = "test",
    begins: datetime.datetime | None = None,
) -> CertificateFiles:
    """Write ``name.pem`` and ``name.key`` for these hosts, valid for a week; needs the package ``cryptography``."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.x509.oid import NameOID

    key = Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    begins = begins or datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=8))
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, None)
    )
    files = CertificateFiles(os.path.join(directory, f"{name}.pem"), os.path.join(directory, f"{name}.key"))
    with open(files.certificate_path, "wb") as out:
        out.write(certificate.public_bytes(serialization.Encoding.PEM))
    with open(files.key_path, "wb") as out:
        form = serialization.PrivateFormat.PKCS8
        out.write(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return files


def _general_name(host: str) -> "x509.GeneralName":  # type: ignore[name-defined]  # noqa: F821
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
