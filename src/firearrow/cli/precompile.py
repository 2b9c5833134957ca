"""Compiles Spark's own Python files, once for each installation.

Spark puts ``python/lib/pyspark.zip`` before everything else on the path of each Python process that it starts. Python
keeps no compiled code for a zip, so every such process compiles its imports of pyspark again: about 0.7 s of CPU,
for the planner of every stream and for each kind of worker of a session. Python uses compiled files inside the zip if
its own version made them; another version of Python uses the sources as before.

Entries are only added behind the existing ones, and the file is replaced as a whole, so processes that have it open go
on working. Tracebacks name the path in the zip as before; compiled code is not compared with its source when loaded.
"""

import marshal
import os
import shutil
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

from firearrow.errors import SettingsError

_UNCHECKED: Final = (1).to_bytes(4, "little")
"""Flags of compiled files that carry the hash of their source and are loaded without checking it (PEP 552)."""
_HEAD: Final = MAGIC_NUMBER + _UNCHECKED


def spark_archives(home: str = "") -> list[Path]:
    """Return the zips of a Spark installation: of ``home``, of SPARK_HOME, or of the installed pyspark."""
    found = find_spec("pyspark")
    origin = found.origin if found is not None else None
    installed = str(Path(origin).parent) if origin else ""
    place = Path(home or os.environ.get("SPARK_HOME", "") or installed, "python", "lib")
    archives = sorted(place.glob("*.zip"))
    if not archives:
        raise SettingsError(f"no installation of Spark is in {place.parent.parent}: it has no python/lib/pyspark.zip")
    return archives


def precompile(archive: Path) -> int:
    """Add compiled files to a zip if they are missing or of another Python version; return how many."""
    fresh = archive.with_name(archive.name + ".new")
    with ZipFile(archive) as old:
        names = set(old.namelist())
        sources = sorted(name for name in names if name.endswith(".py"))
        compiled = {f"{name}c" for name in sources if f"{name}c" in names}
        if compiled and all(_is_ours(old, name) for name in compiled):
            return 0
        if not compiled:
            shutil.copyfile(archive, fresh)
        else:
            _copy_without(old, compiled, fresh)
    with ZipFile(fresh, "a", ZIP_DEFLATED) as new:
        made = {f"{name}c": _compiled(new.read(name), f"{archive}/{name}") for name in sources}
        for name, code in made.items():
            new.writestr(name, code)
    shutil.copymode(archive, fresh)
    fresh.replace(archive)
    return len(made)


def _is_ours(archive: ZipFile, name: str) -> bool:
    with archive.open(name) as member:
        return member.read(len(_HEAD)) == _HEAD


def _copy_without(old: ZipFile, unwanted: set[str], target: Path) -> None:
    with ZipFile(target, "w", ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if entry.filename not in unwanted:
                new.writestr(entry, old.read(entry), ZIP_DEFLATED)


def _compiled(source: bytes, place: str) -> bytes:
    code = compile(source, place, "exec", dont_inherit=True)
    return _HEAD + source_hash(source) + marshal.dumps(code)
