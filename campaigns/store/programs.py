"""Runs the two programs of this package beside a test: one that writes and may be killed, one that looks.

Both are processes of their own, so that a death is a real one, and so that two of them use two cores.
"""

import subprocess
import sys
from pathlib import Path

import msgspec

from campaigns.store.examine import Findings
from campaigns.store.places import Place, lines_of, parse_places
from firearrow.store.config import FlushMode
from firearrow.testing.complaints import Complained, complaints_in
from judges.process import Child, ChildFailed

EXAMINE_SECONDS = 1800


def write_as_ours(
    root: Path, port: int, first: int, count: int, *, killed_after: int = 0, flush: FlushMode = "ASYNC_FLUSH"
) -> dict[int, Place]:
    """Append the messages of a plan; with ``killed_after`` the writer is killed when it has promised so many."""
    words = [sys.executable, "-m", "campaigns.store.ours", str(root), "--flush", flush]
    words += ["--first", str(first), "--count", str(count), "--port", str(port)]
    writer = Child([*words, "--stay"] if killed_after else words, root.parent / "writer.log", piped_output=True)
    assert writer.popen.stdout is not None
    said: list[str] = []
    try:
        for line in writer.popen.stdout:
            said.append(line.decode())
            if 0 < killed_after <= len(said):
                break
        if killed_after:
            writer.popen.kill()
        said += [line.decode() for line in writer.popen.stdout]
        status = writer.popen.wait()
    finally:
        writer.kill()
    if status != (-9 if killed_after else 0):
        raise ChildFailed(f"the writer ended with {status}: {writer.log.read_text()[-2000:]}")
    _check(writer.log.read_text(errors="replace"))
    return parse_places("".join(said))


def examine_as_ours(root: Path, promised: dict[int, Place], *, every: int = 1) -> Findings:
    """Open a store and look for everything in it."""
    words = [sys.executable, "-m", "campaigns.store.examine", str(root), "--every", str(every)]
    told = lines_of(promised.items()).encode()
    done = subprocess.run(words, input=told, capture_output=True, timeout=EXAMINE_SECONDS, check=False)
    if not done.stdout:
        raise ChildFailed(f"looking into {root} ended with {done.returncode}: {done.stderr.decode()[-4000:]}")
    _check(done.stderr.decode(errors="replace"))
    return msgspec.json.decode(done.stdout, type=Findings)


def _check(log: str) -> None:
    complaints = complaints_in(log)
    if complaints:
        raise Complained(f"a program that used the store logged {len(complaints)} exceptions:\n{complaints[0]}")


class Inspected(msgspec.Struct):
    """The output of ``firearrow store inspect --verify``."""

    status: int
    records: int
    whole: int
    bad: list[object]
    queues: list[object]


class _Verified(msgspec.Struct):
    records: int
    whole: int
    bad: list[object]
    queues: list[object]


class _Printed(msgspec.Struct):
    verified: _Verified


def inspect_store(root: Path) -> Inspected:
    """Run ``firearrow store inspect --verify`` as a user would."""
    main = "import sys; from firearrow.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", main, "store", "inspect", str(root), "--verify", "--json"]
    done = subprocess.run(words, capture_output=True, timeout=EXAMINE_SECONDS, check=False)
    if not done.stdout:
        raise ChildFailed(f"inspecting {root} ended with {done.returncode}: {done.stderr.decode()[-4000:]}")
    found = msgspec.json.decode(done.stdout, type=_Printed).verified
    return Inspected(done.returncode, found.records, found.whole, found.bad, found.queues)
