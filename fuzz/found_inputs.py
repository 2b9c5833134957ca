"""Inputs that were found to take much CPU, and how much an input may take. Imports nothing that is fuzzed."""

import hashlib
from pathlib import Path
from typing import Final

FOUND: Final = Path(__file__).parent / "found"
"""Inputs that took much, a folder for each target: every run begins with them."""
TIMES: Final = 10
"""The CPU that a byte may take in a parser that anybody reaches, in ordinary sends."""
FLOOR_SENDS: Final = 3
"""The number of ordinary sends that any input may cost, however short it is: a short send with bare numbers costs 2 to
3."""
USUAL: Final = "usual"
"""The name of the file with an ordinary input of a target."""
ORDINARY_BYTES: Final = 768
"""The size of the ordinary send."""


def allowed_sends(size: int, times: int = TIMES, floor: int = FLOOR_SENDS) -> float:
    """Return the CPU that an input of this size may take, in ordinary sends: a floor, and so many times its bytes."""
    return floor + times * size / ORDINARY_BYTES


def keep(target: str, data: bytes) -> Path:
    """Keep an input among the found ones of its target."""
    folder = FOUND / target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


def found_of(target: str) -> list[bytes]:
    """Return the inputs that were found for a target."""
    return [path.read_bytes() for path in sorted((FOUND / target).glob("*"))]
