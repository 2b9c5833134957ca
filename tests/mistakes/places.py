"""The places where mistakes are made: a cluster, servers of other kinds, directories. Cases name them with a dollar
sign."""

import datetime
import http.server
import os
import socket
import socketserver
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from firearrow.testing.blocking import Cluster
from firearrow.testing.certificates import CertificateFiles, self_signed
from judges import FireArrowNameServer

HOUR = datetime.timedelta(hours=1)
BIG_BYTES = 5_000_000


@contextmanager
def places() -> Iterator[dict[str, str]]:
    """Start everything; give what each name stands for."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firearrow-mistakes-")))
        cluster = stack.enter_context(
            Cluster(settings={"autoCreateTopicEnable": "false"}, directory=str(root / "cluster"))
        )
        for topic in ("orders", "there"):
            cluster.create_topic(topic, queues=2)
        yield {
            "address": cluster.address,
            "broker": cluster.broker_address(),
            "held": str(root / "cluster" / cluster.broker_names[0]),
            "taken": str(_taken(stack)),
            "http": str(stack.enter_context(web_server())),
            "web": str(stack.enter_context(strict_web_server())),
            "root": str(root),
            **_files(root),
            **_tls(stack, root),
        }


def _taken(stack: ExitStack) -> int:
    """Take a port and the next one, which a broker opens for its slaves; return the first."""
    port = int(stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1])
    with suppress(OSError):  # another has it, so it is taken
        stack.enter_context(socket.create_server(("127.0.0.1", port + 1)))
    return port


def _files(root: Path) -> dict[str, str]:
    (root / "big").write_bytes(os.urandom(BIG_BYTES))
    (root / "text").write_text("not a directory")
    (root / "broken.json").write_text('{"body": "fine"}\nbroken\n')
    (root / "empty").write_text("")
    (root / "mistyped.conf").write_text("listenPort=eleven\n")
    for name in ("closed", "full", "home"):
        (root / name).mkdir()
    (root / "closed").chmod(0o555)
    return {}


def _tls(stack: ExitStack, root: Path) -> dict[str, str]:
    good = self_signed(str(root), name="good")
    early = self_signed(str(root), name="early", begins=datetime.datetime.now(datetime.UTC) + HOUR)
    self_signed(str(root), name="other")
    servers = {name: stack.enter_context(Secured(files)) for name, files in (("tls", good), ("early", early))}
    return {name: server.address for name, server in servers.items()}


class Secured(FireArrowNameServer):
    """A name server that takes TLS alone."""

    def __init__(self, files: CertificateFiles) -> None:
        super().__init__(
            settings={"mode": "enforcing", "certificate_path": files.certificate_path, "key_path": files.key_path}
        )

    def _ready(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


@contextmanager
def web_server() -> Iterator[int]:
    """A web server that finds nothing; its port."""

    class Quiet(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


@contextmanager
def strict_web_server() -> Iterator[int]:
    """A web server that refuses whatever is no request, as most do; its port."""

    class Refuse(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refuse) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()


def can_run(wraps: str) -> bool:
    """Whether this machine lets a program run inside that one."""
    return not wraps or subprocess.run([*wraps.split(), "true"], capture_output=True, check=False).returncode == 0
