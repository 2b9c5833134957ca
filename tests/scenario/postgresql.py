"""A private PostgreSQL: in a directory of its own, without TCP, run by an ordinary user, deleted at the end."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

PROGRAMS = "/usr/lib/postgresql/*/bin"
"""The directory of the programs of Debian's package postgresql."""
USER = "postgres"
"""The user that runs the server when the tests run as root, which PostgreSQL refuses."""
START_SECONDS = 60.0


def _program(name: str) -> str:
    found = sorted(Path("/").glob(f"{PROGRAMS.lstrip('/')}/{name}")) or [Path(shutil.which(name) or "")]
    assert found[-1].is_file(), f"there is no {name}: install Debian's package postgresql (see .ci/install-system)"
    return str(found[-1])


@contextmanager
def postgresql() -> Iterator[str]:
    """Run a server with an empty database ``shop``; yields how to connect to it."""
    with tempfile.TemporaryDirectory(prefix="shop-") as name:
        directory = Path(name)
        options = ["-D", str(directory / "data")]
        runner = _runner(directory)
        made = subprocess.run(
            [_program("initdb"), *options, "-A", "trust", "-U", "shop", "-N"],
            cwd=name, capture_output=True, text=True, check=False, **runner,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        words = [_program("postgres"), *options, "-k", name, "-c", "listen_addresses=", "-c", "fsync=off"]
        with (directory / "log").open("wb") as log:
            server = subprocess.Popen(words, cwd=name, stdout=log, stderr=log, **runner)
        try:
            _create_database(f"host={name} user=shop", server, directory / "log")
            yield f"host={name} user=shop dbname=shop"
        finally:
            server.send_signal(signal.SIGINT)  # clients are disconnected, then it ends in order
            server.wait(START_SECONDS)


def _runner(directory: Path) -> dict[str, Any]:
    """Say who runs the programs, and let them write to a directory."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(USER)
    os.chown(directory, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _create_database(target: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Create the database as soon as the server takes connections."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            with psycopg.connect(f"{target} dbname=postgres", autocommit=True) as first:
                first.execute("CREATE DATABASE shop")
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        else:
            return
