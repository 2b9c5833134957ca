"""A server process that is attacked: started as its users start it, deep inside a cage of directories.

Whatever it writes lies below ``cage``, its own directory deep inside; an attack that leaves that directory by a few
``../`` is still seen. With a ``plant`` the process puts a fault back (`plants`) before it starts.
"""

import hashlib
import json
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firearrow.protocol.auth import Credentials, signing_fields
from firearrow.protocol.command import OUR_VERSION
from firearrow.protocol.conversation import Request
from firearrow.protocol.layout import to_text
from firearrow.testing.ports import free_broker_port, free_port
from judges.process import Child
from judges.server_process import OwnServer
from judges.wire import Answer, ask

TREE = Path(__file__).parents[3]
MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"
PLANTED_MAIN = f"from tests.integration.security import plants; plants.{{}}(); {MAIN}"
ROOT = Credentials("root", "password-of-root-e2c1")
INNER = Credentials("inner", "password-of-inner-77ab")
USERS_ON = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": f'{{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}',
    "innerClientAuthenticationCredentials": (f'{{"accessKey":"{INNER.access_key}","secretKey":"{INNER.secret_key}"}}'),
}
SERVES = {"broker": "broker serves", "nameserver": "name server listens"}
WAIT_SECONDS = 60.0
HEADING = b'{"code":%d,"language":"JAVA","version":495,"opaque":%d,"flag":0,"extFields":{}}'
AT_ONCE = 500
MEMORY_BYTES = 32 << 20
"""The most memory that an attack may take while it lasts."""
OF_ITSELF = (
    "output.log",
    "checkpoint",
    "lock",
    "flushed",
    "views.journal",
    "ranges.json",
    "topics.",
    "next-segment",
    "0",
)
"""Beginnings of the names of files that a server writes without being asked; 0 begins a segment of the log."""


class Victim(OwnServer):
    """A broker or a name server."""

    def __init__(self, role: str, settings: Mapping[str, str] | None = None, plant: str = "") -> None:
        super().__init__(role, free_broker_port() if role == "broker" else free_port())
        self.plant = plant
        self._before = 0
        self.arguments: tuple[str, ...] = ()
        self.forgives = ("",) if plant else ()
        self.cage = self.home / "cage"
        self.own = self.cage / "a" / "b" / "c" / "own"
        self.own.mkdir(parents=True)
        self.settings = {"listenPort": str(self.port), "bindAddress": "127.0.0.1", **(settings or {})}
        if role == "broker":
            small = {"mappedFileSizeCommitLog": str(1 << 20), "storePathRootDir": str(self.own)}
            self.settings = {"brokerIP1": "127.0.0.1", "brokerName": "victim", **small, **self.settings}

    def _launch(self) -> Child:
        conf = self.home / "server.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        conf.chmod(0o600)
        main = PLANTED_MAIN.format(self.plant) if self.plant else MAIN
        words = [sys.executable, "-c", main, self.role, "-c", str(conf)]
        words += ["--directory", str(self.own)] if self.role == "nameserver" else []
        return Child([*words, *self.arguments], self.log, directory=TREE)

    def _ready(self) -> bool:
        return SERVES[self.role] in self.log.read_text()

    def ask(self, request: Request[Any], body: bytes = b"", keys: Credentials | None = None) -> Answer:
        """Ask over a connection of its own, signed if keys are given."""
        fields = to_text(request)
        signed = {} if keys is None else signing_fields(fields, body, keys)
        return ask(self.address, int(request.code), {**fields, **signed}, body, WAIT_SECONDS, OUR_VERSION)

    def raw(self, code: int, fields: dict[str, str], body: bytes = b"") -> Answer:
        """Ask with a code that may have no request of ours."""
        return ask(self.address, code, fields, body, WAIT_SECONDS, OUR_VERSION)

    def codes_of(self, codes: Sequence[int]) -> dict[int, int]:
        """The answer to each code, asked without an account over one connection."""
        answered = {}
        with socket.create_connection(("127.0.0.1", self.port), WAIT_SECONDS) as peer, peer.makefile("rb") as answers:
            for chunk in (codes[at : at + AT_ONCE] for at in range(0, len(codes), AT_ONCE)):
                headers = [HEADING % (code, code) for code in chunk]
                frames = [struct.pack(">II", 4 + len(header), len(header)) + header for header in headers]
                peer.sendall(b"".join(frames))
                for _ in chunk:
                    length, size = struct.unpack(">II", answers.read(8))
                    heading = json.loads(answers.read(length - 4)[: size & 0xFFFFFF])
                    answered[heading["opaque"]] = int(heading["code"])
        return answered

    def paths(self) -> set[str]:
        """Everything in the cage, and the names of what lies beside it."""
        return {str(path.relative_to(self.home)) for path in self.home.rglob("*")}

    def outside(self) -> set[str]:
        """The files in the home outside the server's own directory."""
        own = self.own.relative_to(self.home)
        return {path for path in self.paths() if not Path(path).is_relative_to(own)}

    def bytes_of_files(self) -> dict[str, str]:
        """The hash of every file but those that the server writes without being asked."""
        files = [path for path in self.home.rglob("*") if path.is_file() and not path.name.startswith(OF_ITSELF)]
        return {str(path.relative_to(self.home)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def watch_memory(self) -> None:
        """Measure from now on how much memory the process takes at most."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        self._before = self.memory_bytes("VmRSS")

    def grown_bytes(self) -> int:
        """The most memory that the process has added since ``watch_memory``."""
        return self.memory_bytes("VmHWM") - self._before

    def connections(self) -> int:
        """The number of its open sockets."""
        return sum(path.is_socket() for path in Path(f"/proc/{self.pid}/fd").iterdir())

    def children(self) -> list[str]:
        """The processes that it has started."""
        return Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
