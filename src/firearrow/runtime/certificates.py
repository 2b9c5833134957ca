"""The TLS contexts of a server process, made anew when the files of its certificates change.

Connections that stand keep the certificate of their handshake; later handshakes use the new one. Files that do not fit
together (a certificate without its key, because the second file is not written yet) change nothing: the contexts in
use stay, the fault is logged, and the files are read again when they have changed once more.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final

from firearrow.errors import SettingsError
from firearrow.runtime.tls_settings import ClientTls, ServerTls, TlsMode, client_context, server_context

LOOK_EVERY_S: Final = 10.0

Stamp = tuple[int, int, int]

log = logging.getLogger(__name__)


class Certificates:
    """The certificate shown to clients, and the certificates shown and trusted when this server connects to others."""

    def __init__(self, incoming: ServerTls, outgoing: ClientTls) -> None:
        """Raise ``SettingsError`` if a file is missing or does not fit."""
        self._incoming = incoming
        self._outgoing = outgoing
        files = {path for tls in (incoming, outgoing) for path in (tls.certificate_path, tls.key_path, tls.trust_path)}
        self._paths: Final = sorted(files - {""})
        self._seen = self._stamps()
        self.server: ssl.SSLContext | None = None
        """For connections of clients; None without a certificate."""
        self.client: ssl.SSLContext | None = None
        """For connections to other servers; None if those are plain."""
        self.on_change: Final[list[Callable[[], None]]] = []
        self._load()

    def _load(self) -> None:
        incoming, outgoing = self._incoming, self._outgoing
        server = server_context(incoming) if incoming.certificate_path else None
        client = client_context(outgoing) if outgoing.enabled else None
        self.server, self.client = server, client

    @property
    def fit_each_other(self) -> bool:
        """Whether the port of this process accepts connections of the kind that it opens itself."""
        if self.client is not None:
            return self.server is not None
        return self._incoming.mode is not TlsMode.ENFORCING

    async def run(self) -> None:
        """Look at the files until cancelled."""
        while self._paths:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()

    def look(self) -> None:
        """Make the contexts anew if a file has changed."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self._load()
        except SettingsError as error:
            log.warning("changed certificates are not used: %s", error, extra={"reason": str(error)})
            return
        log.info("changed certificates are used for new connections", extra={"files": self._paths})
        for changed in self.on_change:
            changed()

    def _stamps(self) -> list[Stamp | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def common_name(certificate: Mapping[str, Any] | None) -> str:
    """Return the common name in a checked certificate, as ``getpeercert`` tells it; empty unless there is one."""
    subject = (certificate or {}).get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else ""
