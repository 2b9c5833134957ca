"""A server that speaks S3, for one block."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judges.install.artifacts import object_store as artifact

PROGRAM = Path(__file__).parent / "programs" / "s3" / "server.py"
FIRST_REQUEST_S = 60
"""The first request makes the server load what it needs."""
BUCKET = "lake"
KEY, SECRET, REGION = "lake-user", "lake-secret", "us-east-1"


def settings(endpoint: str) -> dict[str, str]:
    """Storage settings that reach the store, by pyiceberg's names."""
    return {
        "s3.endpoint": endpoint, "s3.region": REGION, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET,
    }  # fmt: skip


@contextmanager
def object_store(*more_keys: str) -> Iterator[str]:
    """The address of a store with one empty bucket.

    ``KEY`` and the keys given besides may use it, a key written KEY:TOKEN with its session token.
    """
    words = [sys.executable, str(PROGRAM), KEY, *more_keys]
    environment = {**os.environ, "PYTHONPATH": str(artifact().install())}
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            assert port, "the server that speaks S3 ended at once"
            endpoint = f"http://127.0.0.1:{port}"
            _make_bucket(endpoint)
            yield endpoint
        finally:
            server.kill()


def _make_bucket(endpoint: str) -> None:
    from pyarrow import fs

    door = fs.S3FileSystem(
        endpoint_override=endpoint,
        access_key=KEY,
        secret_key=SECRET,
        region=REGION,
        allow_bucket_creation=True,
        connect_timeout=FIRST_REQUEST_S,
        request_timeout=FIRST_REQUEST_S,
    )
    door.create_dir(BUCKET)
