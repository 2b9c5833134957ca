"""The blocks of the page on spark-submit: which are run or compared here, and which are not, with the reason."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pyspark

from tests.scenario.blocks import ROOT, blocks
from tests.spark.versions import RUNTIMES

PAGE = ROOT / "docs/how-to/spark-submit.md"
BLOCK_S = 240
SPARK = Path(pyspark.__file__).parent
INSTALLATION = {"/opt/firearrow/lib/python3.11/site-packages/pyspark": str(SPARK), "/opt/firearrow": sys.prefix}

Place = tuple[str, int]
IMAGE: Place = ("When an image is built", 0)
NATIVE: Place = ("Versions", 0)
NO_CLUSTER = "needs a standalone cluster and an object store; not run by a test yet"
NOT_RUN: dict[Place, str] = {
    **{("Submit a job", number): NO_CLUSTER for number in range(3)},
    **{("Spark Connect", number): NO_CLUSTER for number in range(3)},
    NATIVE: "settings without a command, of runtimes that Spark 4.3 does not have: `make spark-versions` runs them on "
    "Spark 4.1 and 4.2, and a test here compares them with what it runs",
}
SIZE_OF_TESTS = "spark.databricks.delta.snapshotPartitions"


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
    assert set(page_blocks()) == {IMAGE, *NOT_RUN}


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
