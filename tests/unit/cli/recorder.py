"""A name server over TLS that knows no topic and no broker, and keeps what requests bring."""

import json
import queue
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from firearrow.testing.certificates import CertificateFiles

CLUSTER_INFO = 106
SUCCESS, NO_TOPIC = 0, 17
NO_BROKERS = b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
HEADER_BYTES = 0xFFFFFF
IS_ANSWER = 1


class Asked(NamedTuple):
    """One request."""

    fields: dict[str, str]
    body: bytes


class Recorder:
    """Answers on a port of its own; ``asked`` holds the requests, ``refusals`` the handshakes that failed."""

    def __init__(self, files: CertificateFiles) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(files.certificate_path, files.key_path)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.asked: list[Asked] = []
        self.refusals: queue.Queue[Exception] = queue.Queue()

    def serve(self) -> None:
        """Take connections until the port is closed."""
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Close the port."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _talk(self, connection: socket.socket) -> None:
        try:
            secured = self._context.wrap_socket(connection, server_side=True)
        except OSError as refusal:
            self.refusals.put(refusal)
            connection.close()
            return
        with secured, secured.makefile("rwb") as stream, suppress(OSError, struct.error):
            while True:
                self._answer(stream)

    def _answer(self, stream: Any) -> None:
        size, mark = struct.unpack(">II", stream.read(8))
        header = json.loads(stream.read(mark & HEADER_BYTES))
        body = stream.read(size - 4 - (mark & HEADER_BYTES))
        self.asked.append(Asked(header.get("extFields") or {}, body))
        code, answer = (SUCCESS, NO_BROKERS) if header["code"] == CLUSTER_INFO else (NO_TOPIC, b"")
        said = {"code": code, "flag": IS_ANSWER, "opaque": header["opaque"], "remark": "nothing is here", "version": 0}
        head = json.dumps({**said, "language": "JAVA", "serializeTypeCurrentRPC": "JSON"}).encode()
        stream.write(struct.pack(">II", 4 + len(head) + len(answer), len(head)) + head + answer)
        stream.flush()


@contextmanager
def recorder(files: CertificateFiles) -> Iterator[Recorder]:
    """Serve within the block."""
    found = Recorder(files)
    threading.Thread(target=found.serve, daemon=True).start()
    try:
        yield found
    finally:
        found.close()
