"""Spark sessions in processes of their own, each with its version of PySpark and its jars."""

import json
import os
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from benchmarks.spark.kafka import connector_jars
from benchmarks.spark.rows import LAKE, QUICK
from tests.spark.versions import RUNTIMES, environment, jars

ROOT = Path(__file__).parents[2]
ANSWER = "ANSWER "
ICEBERG = RUNTIMES["4.1.4-iceberg"]
FOR_PYTHON_COMMITS = ("pyiceberg", "sqlalchemy")


class OrderFailed(Exception):
    """A session could not do what it was told."""


class Session:
    """One of them. Use it in a ``with`` block."""

    def __init__(self, name: str, output: Path) -> None:
        self._name = name
        self._output = output
        self._process: subprocess.Popen[str] | None = None

    def _settings(self) -> dict[str, str]:
        found = {"spark.jars": connector_jars(self._version)}
        if self._name == LAKE:
            found["spark.jars"] += "," + ",".join(str(jar) for jar in jars(ICEBERG.jars).install().glob("*.jar"))
            pairs = (line.format(directory=self._output).split("=", 1) for line in ICEBERG.settings)
            found |= dict(pairs)
        if self._name == QUICK:
            found["spark.python.unix.domain.socket.enabled"] = "true"
        return found

    @property
    def _version(self) -> str:
        return self._name.partition(",")[0]

    def __enter__(self) -> Self:
        """Start it; it takes orders at once and works on them when it is up."""
        more = FOR_PYTHON_COMMITS if self._name == LAKE else ()
        python = environment(self._version, more).install() / "bin" / "python"
        words = [str(python), "-m", "benchmarks.spark.worker", json.dumps(self._settings())]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        # As after an installation: the code of modules is kept, and pyspark's own zip holds compiled code.
        env |= {"PYTHONPYCACHEPREFIX": str(self._output / "bytecode")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [str(python), "-c", "from firearrow.cli import main; main()", "pipeline", "precompile"]
        subprocess.run(command, env=env, cwd=ROOT, check=True, capture_output=True)
        log = self._output / f"session-{self._version}.log"
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=env,
                cwd=ROOT,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        """End it and all that it started."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        self._kill()
        process.wait()

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def ask(self, order: dict[str, Any], patience_s: float = 600.0) -> dict[str, Any]:
        """Give an order and wait for its answer; a session that takes too long is ended."""
        if self._process is None or self._process.poll() is not None:
            self.__exit__()
            self.__enter__()  # it died of an earlier order
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        guard = threading.Timer(patience_s, self._kill)
        guard.start()
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                if line.startswith(ANSWER):
                    answer: dict[str, Any] = json.loads(line[len(ANSWER) :])
                    if "error" in answer:
                        raise OrderFailed(answer["error"])
                    return answer
        except BrokenPipeError:
            pass
        finally:
            guard.cancel()
        raise OrderFailed(f"the session of Spark {self._name} ended, or was ended after {patience_s:.0f} s")
