"""Iceberg tables in a REST catalog that vends the keys of their storage."""

import json
import subprocess
import sys
from pathlib import Path

from judges.object_store import object_store, settings
from tests.spark.object_store import environment
from tests.spark.rest_catalog import rest_catalog


def test_a_catalog_vends_the_keys_that_writers_and_upkeep_use(tmp_path: Path) -> None:
    with object_store("vended-key:vended-token") as endpoint:
        vended = {
            "s3.endpoint": endpoint, "client.region": "us-east-1", "s3.access-key-id": "vended-key",
            "s3.secret-access-key": "vended-secret", "s3.session-token": "vended-token",
        }  # fmt: skip
        with rest_catalog(tmp_path, settings(endpoint), vended) as address:
            words = [sys.executable, "-m", "tests.spark.object_store", "--catalog", address]
            done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {"rows": list(range(10)), "after upkeep": list(range(1, 10))}
