"""Other versions of PySpark, each with the lake runtimes that exist for it, beside the one of this environment.

python -m tests.spark.versions install                      make them, once (cached like Apache's servers)
python -m tests.spark.versions kills --points N [--ledger]  the kills of `tests.spark.kills` on each of them
python -m tests.spark.versions tables                       `tests.spark.table_checks` on each of them

Kills are of every kind at least once, whatever N. A line for each runtime goes to the ledger.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from judges.install.cache import Artifact, say
from judges.install.toolchain import run_tool
from tests.spark.changing import PREFIX
from tests.spark.kills import Campaign, faults

ROOT = Path(__file__).parents[2]
LIBRARIES = (
    "lz4",
    "msgspec",
    "numpy",
    "pandas",
    "pyarrow",
    "pytest",
    "pytest-timeout",
    "rich",
    "typer",
    "uvloop",
    "zstandard",
)
DELTA_SETTINGS = (
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions=2",  # of 50: tables of tests are small
)


class Runtime(NamedTuple):
    """A version of Spark with jars, and what to archive into with it."""

    spark: str
    jars: tuple[str, ...]
    formats: str
    settings: tuple[str, ...]


RUNTIMES = {
    "4.1.4-iceberg": Runtime(
        "4.1.4",
        ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
        "native-iceberg",
        (
            "spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type=hadoop",
            "spark.sql.catalog.lake.warehouse={directory}/warehouse",
            "spark.sql.catalog.lake.cache-enabled=false",
        ),
    ),
    "4.1.4-delta": Runtime(
        "4.1.4", ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"), "native-delta", DELTA_SETTINGS
    ),
    "4.2.1-delta": Runtime(
        "4.2.1", ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0"), "native-delta", DELTA_SETTINGS
    ),
}


def environment(spark: str, more: tuple[str, ...] = ()) -> Artifact:
    """A virtual environment with a version of PySpark and what this package needs beside it."""

    def build(directory: Path, log: Path) -> None:
        constraints = directory / "constraints.txt"
        pins = (ROOT / "constraints.txt").read_text().splitlines()
        constraints.write_text("\n".join(pin for pin in pins if not pin.startswith(("pyspark=", "py4j="))))
        run_tool([sys.executable, "-m", "venv", str(directory)], directory, log)
        pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "-q"]
        run_tool([*pip, "-c", str(constraints), f"pyspark=={spark}", *LIBRARIES, *more], directory, log)
        run_tool([*pip, "--no-deps", "-e", str(ROOT)], directory, log)

    return Artifact(f"pyspark-{spark}", (spark, *LIBRARIES, *more, str(ROOT)), build)


def jars(names: tuple[str, ...]) -> Artifact:
    """Jars from Maven, each alone: what else they would bring is in Spark."""

    def build(directory: Path, log: Path) -> None:
        for name in names:
            words = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={name}", f"-DoutputDirectory={directory}"]
            run_tool(words, directory, log)
        for jar in directory.glob("*.jar"):
            assert zipfile.is_zipfile(jar), f"{jar} is no jar"

    return Artifact("spark-jars", names, build)


def install() -> None:
    """Make everything that is missing."""
    for runtime in RUNTIMES.values():
        environment(runtime.spark).install()
        jars(runtime.jars).install()


def started(name: str, directory: Path) -> tuple[str, list[str]]:
    """The Python of a runtime, and its settings."""
    runtime = RUNTIMES[name]
    python = environment(runtime.spark).install() / "bin" / "python"
    found = ",".join(str(jar) for jar in sorted(jars(runtime.jars).install().glob("*.jar")))
    return str(python), [f"spark.jars={found}", *(line.format(directory=directory) for line in runtime.settings)]


def kills(name: str, points: int, directory: Path, seed: int, formats: str) -> dict[str, Any]:
    """Kill while a topic is archived with a runtime; return what was found in its tables."""
    python, settings = started(name, directory)
    named = formats or RUNTIMES[name].formats
    return Campaign(directory, seed, named, python, settings).run(points)


def tables(name: str) -> None:
    """Check evolution and partitions of a runtime's tables."""
    with tempfile.TemporaryDirectory() as directory:
        python, settings = started(name, Path(directory))
        form = RUNTIMES[name].formats.removeprefix("native-")
        words = [python, "-m", "tests.spark.table_checks", directory, form, *settings]
        environ = {**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}
        subprocess.run(words, check=True, env=environ)


def main() -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.versions", description=__doc__)
    parser.add_argument("command", choices=("install", "kills", "tables"))
    parser.add_argument("--points", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--changing", action="store_true", help="kill while schemas change; see tests.spark.changing")
    parser.add_argument("--only", choices=tuple(RUNTIMES), nargs="+", default=tuple(RUNTIMES))
    parser.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="append the figures here")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    install()
    ledger, wrong = Ledger("spark-versions", given.ledger), []
    for name in given.only if given.command == "tables" else ():
        say(f"{name}: tables")
        tables(name)
    for name in given.only if given.command == "kills" else ():
        say(f"{name}: {given.points} kills")
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            formats = f"{PREFIX}{RUNTIMES[name].formats}" if given.changing else ""
            verdict = kills(name, given.points, Path(directory), given.seed, formats)
        found = faults(verdict)
        figures = {"runtime": name, "seed": given.seed, **verdict, "seconds": round(time.monotonic() - began)}
        print(json.dumps(ledger.add({**figures, "faults": found})), flush=True)
        wrong += [f"{name} {fault}" for fault in found]
    print("\n".join(wrong) or "nothing wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
