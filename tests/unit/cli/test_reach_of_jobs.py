"""TLS and accounts in every job of ``firearrow pipeline``: they reach the link that talks to the cluster.

Each job runs against a server that takes TLS alone and keeps what requests bring. Where Spark would stand between the
job and the link, the source or the sink is made from the options that the job hands to Spark, as Spark makes it.
"""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import typer
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from typer.testing import CliRunner

from firearrow.cli.app import app
from firearrow.cli.pipeline import pipeline
from firearrow.errors import FireArrowError
from firearrow.protocol.auth import ACCESS_KEY, SIGNATURE, sign
from firearrow.spark.link import close_links
from firearrow.spark.pipelines import archive, lake_marks, replay
from firearrow.testing.certificates import CertificateFiles, self_signed
from pyspark_firearrow import DefaultSource
from tests.unit.cli.recorder import Recorder, recorder

KEY, SECRET = "pipeline-account", "pipeline-secret"
PATIENCE_S = 30
TARGET_KEY, TARGET_SECRET = "target-account", "target-secret"
BODIES = StructType([StructField("body", BinaryType())])
TABLE = ("--format", "delta", "--location", "/lake/orders")
ONCE, AT_ONCE = ("--option", "fetchRetries=0"), ("--option", "retryTimeoutMs=0")
ARCHIVE = ("archive", "--topics", "orders", "--checkpoint", "/checkpoint", *TABLE, *ONCE)

JOBS = {
    "archive": ARCHIVE,
    "archive --mark": (*ARCHIVE, "--mark", "lake"),
    "replay": ("replay", "--job", "again", "--to-topic", "copies", *TABLE, *AT_ONCE),
    "stats": ("stats", "--topics", "orders", *ONCE),
    "dlq list": ("dlq", "list", "--group", "G"),
    "dlq show": ("dlq", "show", "G"),
    "dlq redrive": ("dlq", "redrive", "G", "--all", "--audit", "AUDIT"),
    "mirror": ("mirror", "--topics", "orders", "--once", "--to", "TARGET", "--state", "STATE"),
}
"""Jobs that talk to a cluster."""
ALONE = {
    "requarantine": "reads and writes tables",
    "backfill": "reads store files",
    "audit": "reads tables, or store files, and receipts",
    "maintain": "reads and writes tables",
    "script": "prints a path",
    "precompile": "changes files of Spark",
}
"""Jobs that talk to no cluster, so that options of one could only mislead."""


def commands() -> dict[str, Any]:
    """Every command below ``firearrow pipeline``, by its words."""

    def leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        children = getattr(command, "commands", None)
        if children is None:
            yield " ".join(words), command
        for name, child in (children or {}).items():
            yield from leaves(child, (*words, name))

    return dict(leaves(typer.main.get_command(pipeline), ()))


def test_every_job_is_known() -> None:
    assert set(commands()) == {name.partition(" --")[0] for name in JOBS} | set(ALONE)


@pytest.mark.parametrize("name", ALONE)
def test_jobs_that_talk_to_no_cluster_take_no_name_server(name: str) -> None:
    assert not {parameter.name for parameter in commands()[name].params} & {"servers", "to"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return self_signed(str(tmp_path_factory.mktemp("tls")))


@pytest.fixture
def server(files: CertificateFiles) -> Iterator[Recorder]:
    with recorder(files) as found:
        yield found
    close_links()


@pytest.fixture
def target(files: CertificateFiles) -> Iterator[Recorder]:
    with recorder(files) as found:
        yield found


@pytest.fixture(autouse=True)
def _as_spark_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make source and sink from the options that a job hands to Spark, and let them ask."""

    def read(_spark: Any, job: archive.Archive, _trigger: Any) -> list[Any]:
        DefaultSource({**job.source, "startingOffsets": "earliest"}).streamReader(BODIES).initialOffset()
        return []

    def write(_rows: Any, how: replay.Replay) -> None:
        shape = StructType([*BODIES.fields, StructField("topic", StringType())])
        rows = pa.RecordBatch.from_pylist([{"body": b"x", "topic": how.topic}])
        DefaultSource(dict(how.sink)).writer(shape, overwrite=False).write(iter([rows]))

    def plan(_spark: Any, _store: str, _table: Any, options: dict[str, str], _where: str) -> None:
        DefaultSource(dict(options)).reader(BODIES).partitions()

    for module in ("pipeline", "jobs.stats_job"):
        made = lambda *_: nullcontext(SimpleNamespace(version="4.3.0"))  # noqa: E731
        monkeypatch.setattr(f"firearrow.cli.{module}.session", made)
    monkeypatch.setattr("firearrow.cli.jobs.stats_job._rows", plan)
    monkeypatch.setattr("firearrow.cli.pipeline.watch", lambda *_: None)
    monkeypatch.setattr("firearrow.cli.pipeline.history", lambda *_: None)
    monkeypatch.setattr(lake_marks, "committed_end", lambda *_: {})
    monkeypatch.setattr(archive, "start", read)
    monkeypatch.setattr(replay, "summary", lambda *_: SimpleNamespace(collect=list))
    monkeypatch.setattr(replay, "replay", write)
    for name in ("FIREARROW_NAMESRV", "FIREARROW_NAMESRV_ADDR", "NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)


def run(words: tuple[str, ...], target: Recorder, tmp_path: Path, **environment: str) -> None:
    """Run a job to its end, which is an error: the server knows nothing."""
    places = {"AUDIT": str(tmp_path / "audit"), "STATE": str(tmp_path / "state"), "TARGET": target.address}
    with suppress(FireArrowError):
        CliRunner().invoke(app, [places.get(word, word) for word in words], env=environment)


def require_signed(server: Recorder, key: str, secret: str) -> None:
    assert server.asked, "nothing was asked over TLS"
    assert server.refusals.empty()
    for fields, body in server.asked:
        assert fields[ACCESS_KEY] == key
        assert fields[SIGNATURE] == sign(fields, body, secret)


@pytest.mark.parametrize("name", JOBS)
def test_options_before_and_behind_the_job_reach_the_cluster(
    name: str, server: Recorder, target: Recorder, files: CertificateFiles, tmp_path: Path
) -> None:
    trust, keys = ("--trust", files.certificate_path), ("--access-key", KEY, "--secret-key", SECRET)
    run((*trust, "pipeline", *JOBS[name], *keys, "-n", server.address), target, tmp_path)
    require_signed(server, KEY, SECRET)


@pytest.mark.parametrize("name", JOBS)
def test_the_environment_reaches_the_cluster(
    name: str, server: Recorder, target: Recorder, files: CertificateFiles, tmp_path: Path
) -> None:
    account = {"FIREARROW_ACCESS_KEY": KEY, "FIREARROW_SECRET_KEY": SECRET}
    reach = {"FIREARROW_NAMESRV": server.address, "FIREARROW_TLS_TRUST": files.certificate_path}
    run(("pipeline", *JOBS[name]), target, tmp_path, **account, **reach)
    require_signed(server, KEY, SECRET)


@pytest.mark.parametrize("name", JOBS)
def test_a_server_that_is_not_trusted_is_told_nothing(
    name: str, server: Recorder, target: Recorder, tmp_path: Path
) -> None:
    other = self_signed(str(tmp_path), name="other")
    words = ("--trust", other.certificate_path, "-n", server.address, "pipeline", *JOBS[name])
    run(words, target, tmp_path)
    assert isinstance(server.refusals.get(timeout=PATIENCE_S), OSError)  # the job came by
    assert server.asked == []


def test_a_mirror_has_an_account_at_its_target(
    server: Recorder, target: Recorder, files: CertificateFiles, tmp_path: Path
) -> None:
    trust = ("--trust", files.certificate_path, "--access-key", KEY, "--secret-key", SECRET)
    there = ("--to-trust", files.certificate_path, "--to-access-key", TARGET_KEY, "--to-secret-key", TARGET_SECRET)
    run(("pipeline", *JOBS["mirror"], "-n", server.address, *trust, *there), target, tmp_path)
    require_signed(server, KEY, SECRET)
    require_signed(target, TARGET_KEY, TARGET_SECRET)
    target.asked.clear()
    of_target = {"FIREARROW_TO_ACCESS_KEY": TARGET_KEY, "FIREARROW_TO_SECRET_KEY": TARGET_SECRET}
    run(("pipeline", *JOBS["mirror"], "-n", server.address, *trust, "--to-tls"), target, tmp_path, **of_target)
    require_signed(target, TARGET_KEY, TARGET_SECRET)
