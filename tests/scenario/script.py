"""Scripts that tell what a cluster does: commands in plain words, and below each what came of it.

    python -m tests.scenario.script                      runs all scripts of tests/scenario/scripts, shows what differs
    python -m tests.scenario.script retry --rewrite      writes what came of it into the script, to be read as a diff

A line at the margin is a command of `stage`, a line with ``#`` a comment, an indented line the outcome of the command
above it. Time is virtual and chance comes from a seed; the outcome must be the same
from the seeds that `test_scripts` tries.
"""

import argparse
import difflib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from firearrow.testing.sim.world import World
from tests.scenario.stage import Stage

FOLDER: Final = Path(__file__).parent / "scripts"
INDENT: Final = "    "


def scripts() -> list[Path]:
    """Every script."""
    return sorted(FOLDER.glob("*.txt"))


def play(text: str, seed: int = 0) -> str:
    """Run a script; return it with what came of its commands."""

    async def main(world: World) -> str:
        async with Stage(world) as stage:
            return "".join([part async for part in _played(stage, text)])

    return World(seed).run(main)


async def _played(stage: Stage, text: str) -> AsyncIterator[str]:
    for line in text.splitlines():
        if line.startswith(INDENT):
            continue
        yield f"{line}\n"
        if line and not line.startswith("#"):
            for outcome in await stage.do(line):
                yield f"{INDENT}{outcome}\n"


def difference(path: Path, seed: int = 0) -> Iterator[str]:
    """The differences between the outcome of a script and its text."""
    said = path.read_text()
    played = play(said, seed)
    yield from difflib.unified_diff(said.splitlines(), played.splitlines(), path.name, f"seed {seed}", lineterm="")


def main() -> int:
    """Run scripts."""
    parser = argparse.ArgumentParser(description="Run scripts of tests/scenario/scripts.")
    parser.add_argument("names", nargs="*", help="names of scripts; all if none is given")
    parser.add_argument("--rewrite", action="store_true", help="write what came of the commands into the scripts")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    differs = False
    unknown = [name for name in chosen.names if not (FOLDER / f"{name}.txt").is_file()]
    if unknown:
        parser.error(f"no script {unknown[0]!r}; there are {', '.join(path.stem for path in scripts())}")
    for path in [FOLDER / f"{name}.txt" for name in chosen.names] or scripts():
        if chosen.rewrite:
            path.write_text(play(path.read_text(), chosen.seed))
            continue
        lines = list(difference(path, chosen.seed))
        differs = differs or bool(lines)
        sys.stdout.write("".join(f"{line}\n" for line in lines or [f"{path.name}: as it says"]))
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
