"""The other clients, kept beside the judges: the C++ wheel, the gRPC client with Apache's proxy, the Java client."""

import json
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Self

from firearrow.testing.ports import free_port
from judges.install import artifacts
from judges.install.cache import Artifact
from judges.install.toolchain import run_tool, tool
from judges.process import Child
from judges.server_process import wait_for

VERSION = "5.5.0"
WHEEL = "rocketmq==0.4.4"
GRPC = "rocketmq-python-client==5.1.2"
_SOURCE = Path(__file__).parent / "java" / "Client.java"


def _package(name: str, requirement: str) -> Artifact:
    def build(directory: Path, log: Path) -> None:
        run_tool([sys.executable, "-m", "pip", "install", "--target", ".", requirement], directory, log)

    return artifacts._artifact(name, (requirement,), build)


@cache
def wheel() -> Artifact:
    """The wheel with the C++ library."""
    return _package("bench-wheel", WHEEL)


@cache
def grpc() -> Artifact:
    """The client over gRPC."""
    return _package("bench-grpc", GRPC)


@cache
def proxy_jars() -> Artifact:
    """Apache's proxy."""
    return artifacts._jars("proxy", ("proxy",), VERSION)


@cache
def java_client() -> Artifact:
    """Our Java program, compiled against the stock client."""
    source = _SOURCE.read_bytes()

    def build(directory: Path, log: Path) -> None:
        (directory / "Client.java").write_bytes(source)
        words = ["javac", "--release", artifacts.JAVA_RELEASE, "-nowarn", "-proc:none", "-d", "."]
        run_tool([*words, "-cp", f"{artifacts.client_jars(VERSION).install()}/*", "Client.java"], directory, log)

    return artifacts._artifact("bench-java", (source,), build)


def java_words(home: Path) -> list[str]:
    """The command of the Java client, up to its arguments."""
    path = f"{java_client().install()}:{artifacts.client_jars(VERSION).install()}/*"
    return [tool("java"), "-Xms512m", "-Xmx512m", "-XX:+UseG1GC", f"-Duser.home={home}", "-cp", path, "Client"]


class Proxy:
    """Apache's proxy in front of a cluster, which the gRPC client needs."""

    def __init__(self, name_server: str) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="firearrow-proxy-"))
        self.port = free_port()
        settings = {
            "rocketMQClusterName": "DefaultCluster",
            "namesrvAddr": name_server,
            "grpcServerPort": self.port,
            "remotingListenPort": free_port(),
            "proxyMode": "CLUSTER",
        }
        (self._home / "conf").mkdir()
        file = self._home / "conf" / "rmq-proxy.json"
        file.write_text(json.dumps(settings))
        words = [tool("java"), "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", f"-Duser.home={self._home}"]
        words += [f"-Drocketmq.home.dir={self._home}", "-cp", f"{proxy_jars().install()}/*"]
        main = "org.apache.rocketmq.proxy.ProxyStartup"
        self._child = Child(
            [*words, main, "-pc", str(file)], self._home / "out.log", {"RMQ_PROXY_HOME": str(self._home)}
        )
        self.address = f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        wait_for(self._answers, "Apache's proxy", 90)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()

    def _answers(self) -> bool:
        return "startup successfully" in (self._home / "out.log").read_text(errors="replace")
