"""Tables in an object store, in a process of their own as Spark's are.

``S3_SERVER`` names the program that serves it, moto's ``moto_server`` of 5.2.5 or later; of 5.2.1 it answers the end of
an upload with an error.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.source.reading import wait_until

MOTO = os.environ.get("S3_SERVER")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(MOTO is None, reason="S3_SERVER names no server that speaks S3: pip install 'moto[server]'"),
]
ADDRESS = "http://127.0.0.1:5096"


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/moto-api/"):
            return True
    except urllib.error.URLError:
        return False


@pytest.fixture
def endpoint() -> Iterator[str]:
    """An empty object store."""
    assert MOTO is not None
    words = [MOTO, "-H", "127.0.0.1", "-p", ADDRESS.rpartition(":")[2]]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        wait_until(lambda: answers(ADDRESS), "a server that speaks S3")
        yield ADDRESS
        server.terminate()


def test_tables_in_an_object_store_are_reached_by_their_settings(endpoint: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.spark.object_store", endpoint, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found) == 4
    assert all(rows == list(range(10)) for rows in found.values()), found
