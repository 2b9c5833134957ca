"""The examples of deployment: a manifest by its structure, words of jobs by our commands, a pipeline by its runs."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from firearrow.blocking import Message
from firearrow.cli.app import app
from firearrow.spark.pipelines import archive
from tests.scenario.blocks import ROOT, blocks
from tests.spark.cluster import defaults
from tests.spark.serving import send, served

EXAMPLES = ROOT / "examples"
MANIFEST = EXAMPLES / "kubernetes" / "archive.yaml"
DAG = EXAMPLES / "airflow" / "orders_archive.py"
DECLARATIVE = EXAMPLES / "declarative"
PAGE = ROOT / "docs/how-to/declarative-pipelines.md"
PRODUCTS = ("tea", "coffee", "milk")
COUNT = 60
RUN_S = 400


def manifest() -> dict[str, dict[str, Any]]:
    return {part["kind"]: part for part in yaml.safe_load_all(MANIFEST.read_text())}


def container() -> dict[str, Any]:
    (found,) = manifest()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found  # type: ignore[no-any-return]


@pytest.fixture
def archives(monkeypatch: pytest.MonkeyPatch) -> list[archive.Archive]:
    """The arguments with which archives are started, in place of Spark."""
    found: list[archive.Archive] = []
    monkeypatch.setattr("firearrow.cli.pipeline.session", lambda *_: nullcontext(SimpleNamespace(version="4.3.0")))
    monkeypatch.setattr("firearrow.cli.pipeline.watch", lambda *_: None)
    monkeypatch.setattr(archive, "start", lambda _spark, job, _trigger: found.append(job.checked()))
    for name in ("FIREARROW_NAMESRV", "NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)
    return found


def test_the_manifest_names_what_it_has() -> None:
    found = manifest()
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels == found["Service"]["spec"]["selector"]
    assert [each["secretRef"]["name"] for each in container()["envFrom"]] == [found["Secret"]["metadata"]["name"]]
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert container()["readinessProbe"]["httpGet"]["port"] in ports
    assert f"--metrics-address=0.0.0.0:{ports['metrics']}" in container()["args"]
    assert found["Deployment"]["spec"]["strategy"]["type"] == "Recreate", "two pods would share a checkpoint"


def test_the_words_of_the_pod_start_an_archive(archives: list[archive.Archive]) -> None:
    environment = {each["name"]: each["value"] for each in container()["env"]}
    environment |= manifest()["Secret"]["stringData"]
    done = CliRunner().invoke(app, container()["args"], env=environment)
    assert done.exit_code == 0, done.output
    (job,) = archives
    assert job.source["nameServer"] == "rocketmq-namesrv:9876"
    assert set(job.table.storage_settings) == {
        "s3.endpoint", "s3.region", "s3.access-key-id", "s3.secret-access-key",
    }  # fmt: skip


def test_the_words_of_airflow_start_an_archive(archives: list[archive.Archive]) -> None:
    """Airflow itself is not run here: its installation takes longer than all of these tests."""
    constants = {}
    for line in ast.parse(DAG.read_text()).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            constants[line.targets[0].id] = ast.literal_eval(line.value)
    done = CliRunner().invoke(app, ["pipeline", *constants["ARCHIVE"], *constants["TABLE"]])
    assert done.exit_code == 0, done.output
    assert archives[0].checkpoint == "/lake/checkpoints/orders"
    done = CliRunner().invoke(app, ["pipeline", *constants["AUDIT"], *constants["TABLE"], "--help"])
    assert done.exit_code == 0, done.output
    assert constants["MISTAKE"] == 2


def test_the_files_of_the_declarative_page_are_those_of_the_example() -> None:
    shown = {block.title: block.text for block in blocks(PAGE) if block.title}
    assert shown == {file.name: file.read_text() for file in DECLARATIVE.iterdir() if file.is_file()}


def run_declared(directory: Path) -> None:
    """Run the pipeline once, by the command of the page."""
    (command,) = [block.text for block in blocks(PAGE) if block.language == "bash"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(directory / "conf")}
    words = ["bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(
        words, cwd=directory, env=environment, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def declared_rows(directory: Path, table: str, *columns: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(
        directory / "spark-warehouse" / table, columns=list(columns)
    ).to_pylist()
    return found


@pytest.mark.real
@pytest.mark.timeout(1000)
def test_runs_of_a_declared_pipeline_fill_a_streaming_table_and_a_view_over_it(tmp_path: Path) -> None:
    defaults(tmp_path / "conf", spark_sql_catalogImplementation="hive")
    sent: list[dict[str, object]] = []
    with served(tmp_path / "broker") as broker:
        for file in DECLARATIVE.iterdir():
            text = file.read_text().replace("broker:9876", broker.name_server)
            (tmp_path / file.name).write_text(text.replace("/lake/", f"{tmp_path}/lake/"))
        for _ in range(2):
            numbers = range(len(sent), len(sent) + COUNT)
            orders = [{"product": PRODUCTS[number % 3], "amount": number} for number in numbers]
            send(broker.name_server, [Message.of("orders", json.dumps(order).encode()) for order in orders])
            sent += orders
            run_declared(tmp_path)
            bodies = Counter(row["body"] for row in declared_rows(tmp_path, "orders", "body"))
            assert bodies == Counter(json.dumps(order).encode() for order in sent)
            pieces = {name: sum(range(at, len(sent), 3)) for at, name in enumerate(PRODUCTS)}
            assert {
                row["product"]: row["pieces"] for row in declared_rows(tmp_path, "sold", "product", "pieces")
            } == pieces
