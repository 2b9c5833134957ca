"""A standalone cluster of Spark's, started from the pyspark distribution."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.spark.conftest import SETTINGS

PATIENCE_S = 300
CLASSES = "org.apache.spark.deploy"


@contextmanager
def daemon(directory: Path, name: str, sign: str, *words: str, memory: str = "256m") -> Iterator[str]:
    """A process of Spark's own; its first line that holds ``sign``. Ended at the end of the block."""
    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_DAEMON_MEMORY": memory, "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_WORKER_DIR": str(directory / name)}
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([str(launcher), *words], env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while sign not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield next(line for line in log.read_text().splitlines() if sign in line)
    finally:
        process.kill()
        process.wait()


@contextmanager
def cluster(directory: Path, workers: int = 2, cores: int = 1) -> Iterator[str]:
    """The address of a cluster with workers of 1 GiB each."""
    with ExitStack() as stack:
        words = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        started = daemon(directory, "master", "Starting Spark master at", f"{CLASSES}.master.Master", *words)
        address = stack.enter_context(started).strip().split()[-1]
        for number in range(workers):
            more = ("--cores", str(cores), "--memory", "1g", *words, address)
            sign = "Successfully registered with master"
            stack.enter_context(daemon(directory, f"worker-{number}", sign, f"{CLASSES}.worker.Worker", *more))
        yield address


def defaults(directory: Path, **more: str) -> Path:
    """Make a directory of Spark's settings for this machine, for ``SPARK_CONF_DIR``; names have _ for the dot."""
    lines = {**SETTINGS, **{name.replace("_", "."): value for name, value in more.items()}}
    del lines["spark.python.unix.domain.socket.enabled"]  # with it workers have 10 s to connect, on a busy machine too
    directory.mkdir()
    (directory / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    return directory
