"""Apache's Java client 5.5.0 as producer and consumer: the program of `benchmarks.versus` with the client's jars."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.versus import clients
from judges.install import artifacts
from judges.install.cache import Artifact
from judges.install.toolchain import run_tool, tool
from judges.process import Child

VERSION: Final = "5.5.0"
FLAGS: Final = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC")


@cache
def classes() -> Artifact:
    """The program, compiled."""
    source = clients._SOURCE.read_bytes()

    def build(directory: Path, log: Path) -> None:
        (directory / "Load.java").write_bytes(source)
        words = ["javac", "--release", artifacts.JAVA_RELEASE, "-nowarn", "-proc:none", "-d", "."]
        run_tool([*words, "-cp", f"{artifacts.client_jars(VERSION).install()}/*", "Load.java"], directory, log)

    return artifacts._artifact("stock-load", (source, artifacts.client_jars(VERSION).path.name), build)


class StockClients(clients.Client):
    """A producer of so many messages a second and a consumer that says how long each took to come."""

    def __init__(self, name_server: str, topic: str, size: int, rate: int, keys: tuple[str, str] | None = None) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="firearrow-stock-")
        self._log = Path(self._home.name) / "output.log"
        path = f"{classes().install()}:{artifacts.client_jars(VERSION).install()}/*"
        words = [tool("java"), *FLAGS, f"-Duser.home={self._home.name}", "-cp", path, "Load"]
        if keys:
            words = ["env", f"LOAD_ACCESS_KEY={keys[0]}", f"LOAD_SECRET_KEY={keys[1]}", *words]
        self._child = Child([*words, "latency", name_server, topic, str(size), str(rate)], self._log)
