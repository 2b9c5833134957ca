"""The run of a ``firearrow pipeline`` command: its session, the progress that it shows of its queries, and its end.

A failure is told in at most three lines: what happened, and where the rest is. ``--verbose`` shows Spark's own log and
the whole trace. Ctrl-C and SIGTERM end a job in order, without a trace, with status 130 and 143.
"""

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from msgspec import Struct

from firearrow.cli.jobs.interruption import deferred, quiet_interruptions, status_of
from firearrow.cli.jobs.job_options import SparkOptions, pairs
from firearrow.errors import FireArrowError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from firearrow.spark.pipelines.progress import BatchProgress

LOOK_EVERY_S: Final = 1
MISTAKE: Final = 2
"""The exit status of a job that its user must mend."""
LIBRARIES: Final = frozenset({"pyspark", "pyarrow", "pyiceberg", "deltalake", "fastavro", "google"})
QUERY_LOGS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of pyspark for errors, in JSON, that it raises as well."""
_STDERR: Final = 2


class ProgressOutputs(Struct, frozen=True):
    """The outputs on which a job shows the progress of its queries."""

    metrics: Path | None = None
    """A file in Prometheus's text format."""
    address: str = ""
    """``host:port`` for metrics over HTTP."""
    say: Callable[[str], None] = typer.echo
    on_batch: "Callable[[BatchProgress], None]" = lambda _batch: None
    """Called with every batch that is finished, also if it had no rows."""


class QuietLog:
    """Sends Spark's own log to a file, unless the command is verbose."""

    def __init__(self, *, is_verbose: bool) -> None:
        self.is_verbose = is_verbose
        self.path = ""

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Start the JVM within the block: it writes to the file for as long as it lives."""
        if self.is_verbose or "PYSPARK_GATEWAY_PORT" in os.environ:
            yield
            return
        descriptor, self.path = tempfile.mkstemp(prefix="firearrow-spark-", suffix=".log")
        kept = os.dup(_STDERR)
        sys.stderr.flush()
        os.dup2(descriptor, _STDERR)
        try:
            yield
        finally:
            os.dup2(kept, _STDERR)
            os.close(kept)
            os.close(descriptor)

    def where(self) -> str:
        """Return where the whole story is."""
        return f"Spark's log is {self.path}; --verbose shows it with the trace" if self.path else "--verbose shows more"

    def forget(self) -> None:
        """Delete the file of a command that succeeded."""
        if self.path:
            with suppress(OSError):
                os.unlink(self.path)


@contextmanager
def session(given: SparkOptions, quiet: QuietLog) -> "Iterator[SparkSession]":
    """Open a session for the block."""
    from firearrow.spark.session import open_session

    # Executors on this machine must run the Python that this package is installed in.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with quiet.starting():
        spark = open_session(given.master or usual_master(), pairs(given.conf))
    hush(quiet)
    try:
        yield spark
    finally:
        spark.stop()


def hush(quiet: QuietLog) -> None:
    """Keep what pyspark logs of errors, beside raising them, from the screen, unless the command is verbose."""
    from pyspark.logger import PySparkLogger

    for name in QUERY_LOGS:
        PySparkLogger.getLogger(name).disabled = not quiet.is_verbose


def usual_master() -> str:
    """Return the default master: none if spark-submit started this process, else this machine."""
    return "" if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]"


@contextmanager
def explained(command: str, *, verbose: bool = False, path: str = "", mistake: int = MISTAKE) -> Iterator[QuietLog]:
    """Run a command within the block: tell a failure in at most three lines, and end with its status.

    ``path`` is how the command was called, if not by its name below ``firearrow pipeline``; ``mistake`` is the status
    after a failure of ours.
    """
    quiet = QuietLog(is_verbose=verbose)
    path = path or f"firearrow pipeline {command}"
    try:
        with quiet_interruptions():
            yield quiet
    except (typer.Exit, SystemExit):
        raise
    except KeyboardInterrupt as interrupted:
        _tell(f"{path}: interrupted; start it again to go on where it stopped")
        quiet.forget()
        raise typer.Exit(status_of(interrupted)) from None
    except FireArrowError as error:
        _fail(path, str(error), quiet)
        raise typer.Exit(mistake) from None
    except Exception as error:
        status = _status_of_library(path, error, quiet)
        if status is None:
            raise
        raise typer.Exit(status) from None
    else:
        quiet.forget()


def _status_of_library(path: str, error: Exception, quiet: QuietLog) -> int | None:
    """Tell a failure of a library, and return the status after it; None if the failure is not a library's."""
    if isinstance(error, ModuleNotFoundError):
        if (error.name or "").split(".")[0] not in LIBRARIES:
            return None
        _tell(f"this needs {error.name}: pip install 'firearrow[spark,iceberg,delta,bodies]'")
        return 2
    from firearrow.spark.explanation import explain, is_of_storage

    if not _is_of_a_library(error) and not is_of_storage(error):
        return None
    reason = explain(error)
    _fail(path, reason.text, quiet)
    if not quiet.is_verbose:
        _tell(quiet.where())
    return 2 if reason.is_known else 1


def _is_of_a_library(error: Exception) -> bool:
    roots = {*LIBRARIES, "py4j", "_internal"}  # deltalake's errors say that they are of _internal
    return any(kind.__module__.split(".")[0] in roots for kind in type(error).__mro__)


def _fail(path: str, reason: str, quiet: QuietLog) -> None:
    if quiet.is_verbose:
        _tell(traceback.format_exc())
    _tell(f"{path}: {reason}")


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def watch(queries: "list[StreamingQuery]", shown: ProgressOutputs) -> None:
    """Print every batch until the queries end, then a summary; raise the error of a query that failed."""
    from firearrow.spark.pipelines.exposition import serve
    from firearrow.spark.pipelines.progress import WatchedQueries

    watched, began = WatchedQueries(), time.monotonic()
    for query in queries:
        watched.begin(str(query.id), query.name or str(query.id), time.time())
    served = serve(watched, shown.address, time.time) if shown.address else None
    try:
        with deferred() as kept:
            while (going := _look_at_all(queries, watched, shown)) and not kept.signal:
                pass
            for query in going:
                query.stop()
    finally:
        if served is not None:
            served.close()
    _conclude(watched, began, shown)
    if kept.signal:
        raise kept.error()


def _look_at_all(queries: "list[StreamingQuery]", watched: Any, shown: ProgressOutputs) -> "list[StreamingQuery]":  # noqa: ANN401
    """Wait a moment, show what is new, and return the queries that still run."""
    from firearrow.runtime.exposition import as_text
    from firearrow.spark.pipelines.exposition import families

    going = [query for query in queries if not query.awaitTermination(LOOK_EVERY_S)]
    for query in queries:
        _look(query, watched, shown, is_active=query in going)
    if shown.metrics is not None:
        replace_text(shown.metrics, as_text(families(watched, time.time())))
    return going


def _look(query: "StreamingQuery", watched: Any, shown: ProgressOutputs, *, is_active: bool) -> None:  # noqa: ANN401
    name, now_s = str(query.id), time.time()
    for batch in watched.fresh(name, [plain(report) for report in query.recentProgress], now_s):
        if batch.rows:
            shown.say(batch.line())
        shown.on_batch(batch)
    watched.saw(name, now_s, is_active=is_active)
    if is_active and not query.status["isTriggerActive"]:
        watched.idle(name, now_s)


def _conclude(watched: Any, began: float, shown: ProgressOutputs) -> None:  # noqa: ANN401
    for line in watched.summary(time.monotonic() - began):
        shown.say(line)


def closing(what: str, began: float) -> str:
    """Return the last line of a job that has done ``what`` since ``began``, a reading of `time.monotonic`."""
    return f"{what} in {time.monotonic() - began:,.1f} s"


def plain(report: Any) -> dict[str, Any]:  # noqa: ANN401 - a progress object of Spark, or a dictionary
    """Return a progress report as a dictionary."""
    return report if type(report) is dict else json.loads(report.json)


def replace_text(path: Path, text: str) -> None:
    """Put a text in place of a file, whole."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)
