"""The directory and duration of a benchmark: given to every one of them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bench:
    """The disk to use, and whether a smoke test is enough."""

    directory: str
    quick: bool = False

    @contextmanager
    def place(self) -> Iterator[str]:
        """A directory for one store, removed afterwards."""
        where = tempfile.mkdtemp(prefix="store-", dir=self.directory)
        try:
            yield where
        finally:
            shutil.rmtree(where, ignore_errors=True)
