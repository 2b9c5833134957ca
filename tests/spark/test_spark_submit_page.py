"""Every block of the page on spark-submit, run as it stands on a standalone cluster with a server that speaks S3.

The text of the blocks comes from the page. Addresses, keys and the place of the installation are replaced, and nothing
else; what is the machine's business (ports of Spark, memory) stands in a file of Spark's defaults.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest
from deltalake import DeltaTable
from pyarrow.fs import FileSelector

pytest.importorskip("grpc_status")

from firearrow.blocking import Message
from firearrow.spark.lake.storage import delta_settings, filesystem
from firearrow.testing.ports import free_port
from judges.install.artifacts import s3a_jars
from judges.object_store import KEY, SECRET, object_store, settings
from tests.scenario.blocks import ROOT, blocks
from tests.spark.cluster import cluster, defaults
from tests.spark.object_store import NO_KEYS
from tests.spark.serving import held, send, served
from tests.spark.versions import RUNTIMES

pytestmark = pytest.mark.real

PAGE = ROOT / "docs/how-to/spark-submit.md"
COUNT = 200
BLOCK_S = 400
SPARK = Path(pyspark.__file__).parent

SUBMIT, DIRECT, REPLAY = (("Submit a job", number) for number in range(3))
START, CLIENT, STOP = (("Spark Connect", number) for number in range(3))
IMAGE, NATIVE = ("When an image is built", 0), ("Versions", 0)
ON_THE_CLUSTER = (SUBMIT, DIRECT, REPLAY, START, CLIENT, STOP)
NOT_RUN = {
    NATIVE: "settings without a command, of runtimes that Spark 4.3 does not have: `make spark-versions` runs them on "
    "Spark 4.1 and 4.2, and a test here compares them with what it runs",
}
SIZE_OF_TESTS = "spark.databricks.delta.snapshotPartitions"

Place = tuple[str, int]


def page_blocks() -> dict[Place, str]:
    """Blocks by heading and number."""
    found: dict[Place, str] = {}
    texts = [block.text for block in blocks(PAGE)]
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, content = section.partition("\n")
        inside = [text for text in texts if text in content]
        assert content.count("\n```") == 2 * len(inside), f"a block of {heading!r} has no language, or is there twice"
        found.update({(heading, number): text for number, text in enumerate(inside)})
    return found


def test_every_block_of_the_page_is_run_or_named_with_a_reason() -> None:
    assert set(page_blocks()) == {*ON_THE_CLUSTER, IMAGE, *NOT_RUN}


def test_the_native_settings_are_those_that_run_on_other_versions() -> None:
    text = page_blocks()[NATIVE]
    shown = set(re.findall(r"--conf (\S+)", text))
    run = {
        setting.replace("{directory}/warehouse", "/lake")
        for runtime in RUNTIMES.values()
        for setting in runtime.settings
        if not setting.startswith(SIZE_OF_TESTS)
    }
    assert run < shown
    assert [each.rpartition(".")[2] for each in shown - run] == ["IcebergSparkSessionExtensions"]


class Reader(NamedTuple):
    """Somebody who runs blocks of the page."""

    replaced: dict[str, str]
    environment: dict[str, str]

    def run(self, place: Place) -> str:
        """Run a block; return what it printed."""
        text = page_blocks()[place]
        for placeholder, real in self.replaced.items():
            text = text.replace(placeholder, real)
        left = re.findall(r"\b(?:host|broker|store):\d+|/opt/\S+", text)
        assert not left, f"{left} of the page stand for something that this test does not know"
        words = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=BLOCK_S, check=False
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr[-3000:]}"
        return done.stdout


INSTALLATION = {"/opt/firearrow/lib/python3.11/site-packages/pyspark": str(SPARK), "/opt/firearrow": sys.prefix}


def test_the_image_is_compiled(tmp_path: Path) -> None:
    library, spark = tmp_path / "lib", tmp_path / "spark"
    library.mkdir()
    (library / "module.py").write_text("A = 1\n")
    archive = spark / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    archive.write_bytes((SPARK / "python" / "lib" / "pyspark.zip").read_bytes())
    reader = Reader({"/opt/firearrow/lib ": f"{library} ", **INSTALLATION}, {**os.environ, "SPARK_HOME": str(spark)})
    assert re.search(rf"{archive}: (\d+ files compiled|is compiled already)", reader.run(IMAGE))
    assert [found.name for found in library.rglob("*.pyc")] == [f"module.{sys.implementation.cache_tag}.pyc"]


def path_without_python() -> str:
    """The path of programs without this environment: what a block needs of it, the block must name."""
    mine = str(Path(sys.executable).parent)
    return ":".join(part for part in os.environ["PATH"].split(":") if part != mine)


@contextmanager
def no_server_left(directory: Path) -> Iterator[None]:
    """End the Connect server whose process id is in a directory, if a block left it there."""
    try:
        yield
    finally:
        for file in directory.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.mark.timeout(1500)
def test_the_jobs_of_the_page_archive_and_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**NO_KEYS, "SPARK_LOCAL_IP": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    port, sent = free_port(), list[bytes]()
    with (
        no_server_left(tmp_path / "pid"),
        object_store() as endpoint,
        served(tmp_path / "broker") as broker,
        cluster(tmp_path, workers=1, cores=2) as master,
    ):
        own = {"PATH": path_without_python(), "SPARK_IDENT_STRING": "page"}
        own |= {"SPARK_PID_DIR": str(tmp_path / "pid"), "SPARK_LOG_DIR": str(tmp_path / "log")}
        small = {"spark_executor_memory": "600m", "spark_connect_grpc_binding_address": "127.0.0.1"}
        own |= {"SPARK_CONF_DIR": str(defaults(tmp_path / "conf", **small))}
        replaced = {
            "spark://host:7077": master,
            "sc://host:15002": f"sc://127.0.0.1:{port}",
            "port=15002": f"port={port}",
            "broker:9876": broker.name_server,
            "http://store:9000": endpoint,
            "STORE_KEY": KEY,
            "STORE_SECRET": SECRET,
            "/opt/firearrow/jars": str(s3a_jars().install()),
            **INSTALLATION,
        }
        reader = Reader(replaced, {**os.environ, **own})

        def more_orders() -> None:
            bodies = [b"order %d" % number for number in range(len(sent), len(sent) + COUNT)]
            send(broker.name_server, [Message.of("orders", body) for body in bodies])
            sent.extend(bodies)

        def archived() -> list[bytes]:
            table = DeltaTable("s3://lake/orders", storage_options=delta_settings(settings(endpoint)))
            return sorted(table.to_pyarrow_table(columns=["body"])["body"].to_pylist())

        for place in (SUBMIT, DIRECT):
            more_orders()
            assert f"{COUNT} rows" in reader.run(place)
            assert archived() == sorted(sent), place
        assert f"{len(sent)} messages sent" in reader.run(REPLAY)
        assert sorted(message.body for message in held(broker.name_server, "copies").values()) == sorted(sent)
        reader.run(START)
        more_orders()
        assert f"{COUNT} rows" in reader.run(CLIENT)
        assert archived() == sorted(sent)
        assert "stopping" in reader.run(STOP)
        store, path = filesystem("s3://lake/checkpoints/orders/bronze/commits", settings(endpoint))
        assert {"0", "1", "2"} <= {info.base_name for info in store.get_file_info(FileSelector(path))}
