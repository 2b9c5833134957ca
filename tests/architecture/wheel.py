"""The package that users install: the rules for the files of the wheel.

    python -m tests.architecture.wheel dist/*.whl     says what a built wheel holds against the rules; .ci/dist runs it

A wheel holds Python of the three packages, ``py.typed`` and metadata. Planted bugs, judges and campaigns stay outside.
"""

import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from hatchling.builders.wheel import WheelBuilder

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("firearrow", "pyspark_firearrow", "pyspark_firearrow_store")
FORBIDDEN_WORDS: Final = ("planted", "mutant", "judges", "campaigns")
METADATA: Final = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")


def files_to_build() -> list[str]:
    """The files that the builder puts into a wheel of this tree, its metadata aside."""
    return [str(file.distribution_path) for file in WheelBuilder(str(ROOT)).recurse_included_files()]


def files_built(wheel: Path) -> list[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def objections(files: Iterable[str]) -> Iterator[str]:
    """The reasons why files may not be in a wheel."""
    for file in files:
        package, _, rest = file.partition("/")
        if package.endswith(".dist-info"):
            if rest not in METADATA:
                yield f"{file}: not a file of the metadata"
        elif package not in PACKAGES:
            yield f"{file}: not of {', '.join(PACKAGES)}"
        elif not file.endswith(".py") and rest != "py.typed":
            yield f"{file}: neither Python nor py.typed"
        elif any(word in file for word in FORBIDDEN_WORDS):
            yield f"{file}: what is planted, judges or campaigns is not for users"


def difference(built: Iterable[str]) -> Iterator[str]:
    """The differences between the files of a built wheel and those of this tree."""
    code = {file for file in built if ".dist-info/" not in file}
    yield from (f"{file}: in the wheel, not in the tree" for file in sorted(code - set(files_to_build())))
    yield from (f"{file}: in the tree, not in the wheel" for file in sorted(set(files_to_build()) - code))


def main(wheel: Path) -> int:
    """Say what is wrong with a built wheel."""
    built = files_built(wheel)
    wrong = [*objections(built), *difference(built)]
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(f"{wheel.name}: {len(built)} files, {wheel.stat().st_size:,} bytes, {len(wrong)} objections\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
