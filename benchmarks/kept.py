"""Figures in a file that is written after every turn, so that a run can be broken off and go on."""

from pathlib import Path
from typing import Self

import msgspec


class Kept(msgspec.Struct):
    """The contents of such a file."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the contents of the file, or an empty value without a file."""
        return msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Keep it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
