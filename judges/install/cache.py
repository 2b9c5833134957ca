"""A directory of finished artifacts, outside any checkout.

Layout below the root (`FIREARROW_CACHE`, else `~/.cache/firearrow`)::

    NAME-HASH/            one finished artifact; HASH is of everything it was made from
    NAME-HASH.log         what the tools printed while it was made
    NAME-HASH.lock        held while it is made
    .building-*/          unfinished work, renamed to NAME-HASH in one step

Invariants: a directory called NAME-HASH is complete, for it appears by a rename; two processes that want the
same artifact wait for each other and the second finds it made; other inputs give another HASH, so nothing is
ever changed in place.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HASH_LENGTH = 12


def cache_root() -> Path:
    """The directory of artifacts, made if it is not there."""
    given = os.environ.get("FIREARROW_CACHE")
    root = Path(given) if given else Path.home() / ".cache" / "firearrow"
    root.mkdir(parents=True, exist_ok=True)
    return root


@dataclass(frozen=True)
class Artifact:
    """Something made once from `inputs` by `build(directory, log)`."""

    name: str
    inputs: tuple[str | bytes, ...]
    build: Callable[[Path, Path], None]

    @property
    def path(self) -> Path:
        """The path of the finished artifact, before and after it is made."""
        return cache_root() / f"{self.name}-{self._hash()}"

    @property
    def installed(self) -> bool:
        """Whether it is there already."""
        return self.path.is_dir()

    def install(self) -> Path:
        """Make it unless it is there; safe to call from several processes at once."""
        final = self.path
        if final.is_dir():
            return final
        with _locked(final.with_name(final.name + ".lock")):
            if not final.is_dir():
                self._make(final)
        return final

    def _make(self, final: Path) -> None:
        say(f"making {self.name} ...")
        start = time.monotonic()
        log = final.with_name(final.name + ".log")
        building = Path(tempfile.mkdtemp(prefix=f".building-{self.name}-", dir=final.parent))
        try:
            self.build(building, log)
            building.rename(final)
        finally:
            shutil.rmtree(building, ignore_errors=True)
        say(f"made {self.name} in {time.monotonic() - start:.0f} s: {final}")

    def _hash(self) -> str:
        whole = hashlib.sha256(self.name.encode())
        for part in self.inputs:
            content = part.encode() if isinstance(part, str) else part
            whole.update(len(content).to_bytes(8, "big") + content)
        return whole.hexdigest()[:HASH_LENGTH]


def say(what: str) -> None:
    """Print progress to the terminal, past any capture of standard output."""
    print(f"[firearrow] {what}", file=sys.__stderr__, flush=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that makes {path.stem} ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
