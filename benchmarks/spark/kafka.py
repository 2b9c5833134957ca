"""Kafka 4.3.1 on one node, from Maven artifacts, and the jars of Spark's own connector to it."""

import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from firearrow.testing.ports import free_port
from judges.install.cache import Artifact
from judges.install.toolchain import run_tool, tool
from judges.server_process import wait_for
from tests.spark.versions import jars

KAFKA = "4.3.1"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
CONNECTORS = {"4.2.1": "4.2.0", "4.1.4": "4.1.3"}
"""The newest of Spark's connector that is there for a Spark."""


def _connector(version: str) -> tuple[str, ...]:
    # One by one: the parent of the connector's description names a repository that is not always to be reached.
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
        "org.apache.commons:commons-pool2:2.12.1",
        "org.apache.kafka:kafka-clients:3.9.1",
    )


POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA}</version></dependency>
</dependencies></project>
"""

SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable={creates}
log.retention.ms=-1
"""


def server_jars() -> Artifact:
    """Everything that a Kafka server needs."""

    def build(directory: Path, log: Path) -> None:
        (directory / "pom.xml").write_text(POM)
        run_tool(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"], directory, log)

    return Artifact(f"kafka-{KAFKA}", (POM,), build)


def connector_jars(spark: str) -> str:
    """Spark's connector to Kafka for a version of Spark, as Spark takes jars."""
    return ",".join(str(jar) for jar in sorted(jars(_connector(CONNECTORS[spark])).install().glob("*.jar")))


class Kafka:
    """A Kafka of one node. Use it in a ``with`` block; with the same directory it finds its topics again."""

    def __init__(self, directory: Path, partitions: int = 8, *, creates: bool = False) -> None:
        """``creates``: whether a topic is made when somebody sends to it."""
        self._directory = directory
        self._creates = str(creates).lower()
        self.address = f"127.0.0.1:{free_port()}"
        self._partitions = partitions
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the server."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        """Start it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        settings, path = self._directory / "server.properties", f"{server_jars().install()}/jars/*"
        fields = {"controller": free_port(), "port": self.address.rpartition(":")[2], "partitions": self._partitions}
        settings.write_text(SETTINGS.format(data=self._directory / "data", creates=self._creates, **fields))
        java = [tool("java"), "-Xms1g", "-Xmx1g", "-cp", path]
        with (self._directory / "server.log").open("ab") as log:
            if not (self._directory / "data" / "meta.properties").exists():
                words = ["format", "-t", CLUSTER_ID, "-c", str(settings)]
                subprocess.run([*java, "kafka.tools.StorageTool", *words], stdout=log, stderr=log, check=True)
            self._process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
        wait_for(self._is_up, "Kafka", 60)
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
            self._process.kill()
            self._process.wait()

    def _is_up(self) -> bool:
        host, _, port = self.address.rpartition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), 1):
            return True
        return False
