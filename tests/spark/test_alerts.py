"""The alert rules, judged by promtool and by a real Prometheus that scrapes a stuck, a dead and a late query."""

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firearrow.runtime.exposition import ServedMetrics
from firearrow.spark.pipelines.exposition import serve
from firearrow.spark.pipelines.progress import WatchedQueries

RULES = Path(__file__).parents[2] / "examples" / "prometheus"
PATIENCE_S = 60.0
SHORTER = ((r"> 300", "> 3"), (r"> 600", "> 5"), (r"for: \dm", "for: 1s"))
CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: firearrow-pipeline
    static_configs: [{{targets: ["127.0.0.1:{port}", "127.0.0.1:{gone}"]}}]
"""


def report(query: str, batch: int, unread: int) -> dict[str, Any]:
    offsets = [{"orders": {"a": {"0": 10 + more}}} for more in (0, unread)]
    stored = {"orders": {"a": {"0": int(time.time() * 1000) - 60_000}}}
    source = {"endOffset": {**offsets[0], "@stored": stored}, "latestOffset": offsets[1]}
    return {
        "id": query,
        "name": query,
        "batchId": batch,
        "numInputRows": 1,
        "timestamp": str(batch),
        "sources": [source],
    }


@contextmanager
def prometheus(directory: Path, port: int, gone: int) -> Iterator[str]:
    rules = (RULES / "pipeline-alerts.yml").read_text()
    for long, short in SHORTER:
        rules, count = re.subn(long, short, rules)
        assert count, f"the rules have no {long}"
    (directory / "rules.yml").write_text(rules)
    (directory / "prometheus.yml").write_text(CONFIG.format(port=port, gone=gone))
    taken: ServedMetrics = serve(WatchedQueries(), "127.0.0.1:0", time.time)
    taken.close()  # a port that was free a moment ago
    words = [f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data"]
    words.append(f"--web.listen-address=127.0.0.1:{taken.port}")
    log = (directory / "log").open("wb")
    process = subprocess.Popen(["prometheus", *words], stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{taken.port}"
    finally:
        process.terminate()
        process.wait()
        log.close()


def firing(address: str) -> set[tuple[str, str]]:
    try:
        with urllib.request.urlopen(f"{address}/api/v1/alerts", timeout=5) as answer:
            found = json.load(answer)["data"]["alerts"]
    except OSError:
        return set()
    labels = [alert["labels"] for alert in found if alert["state"] == "firing"]
    return {(each["alertname"], each.get("query") or each["instance"]) for each in labels}


def test_promtool_accepts_the_rules_and_their_tests() -> None:
    for words in (["check", "rules", "pipeline-alerts.yml"], ["test", "rules", "pipeline-alerts-test.yml"]):
        ran = subprocess.run(["promtool", *words], cwd=RULES, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_real_prometheus_tells_of_what_is_stuck_dead_or_behind(tmp_path: Path) -> None:
    watched = WatchedQueries()
    served = serve(watched, "127.0.0.1:0", time.time)
    missing = serve(WatchedQueries(), "127.0.0.1:0", time.time)
    missing.close()
    for name in ("healthy", "stuck", "dead", "behind"):
        watched.begin(name, name, time.time())
        watched.fresh(name, [report(name, 0, 5 if name == "behind" else 0)], time.time())
    watched.saw("dead", time.time(), is_active=False)
    wanted = {
        ("PipelineStuck", "stuck"),
        ("PipelineDead", "dead"),
        ("PipelineDead", f"127.0.0.1:{missing.port}"),
        ("PipelineBehind", "behind"),
    }
    try:
        with prometheus(tmp_path, served.port, missing.port) as address:
            ends = time.monotonic() + PATIENCE_S
            while firing(address) != wanted:
                assert time.monotonic() < ends, f"{firing(address)}; log: {(tmp_path / 'log').read_text()[-2000:]}"
                for name in ("healthy", "behind"):
                    watched.idle(name, time.time())
                time.sleep(0.2)
    finally:
        served.close()
