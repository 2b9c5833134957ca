"""Wheel and sdist, built twice from the files that git knows, must be equal byte for byte.

The two builds differ in everything that must not matter: directory, time of the files and of the build, umask, time
zone and locale.
"""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).parents[2]


@dataclass(frozen=True)
class Circumstances:
    """Under what a build happens."""

    directory: str
    umask: int
    time_s: int
    zone: str
    locale: str


HERE_AND_THERE = (
    Circumstances("here", 0o022, 1_000_000_000, "UTC", "C.UTF-8"),
    Circumstances("there/and/deeper", 0o077, 1_700_000_000, "Asia/Tokyo", "C"),
)


def built_twice() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Build under both circumstances; return the files of each by name."""
    with tempfile.TemporaryDirectory(prefix="firearrow-builds-") as scratch:
        first, second = (_built(Path(scratch), circumstances) for circumstances in HERE_AND_THERE)
    return first, second


def _built(scratch: Path, under: Circumstances) -> dict[str, bytes]:
    tree, output = scratch / under.directory / "tree", scratch / under.directory / "output"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (TREE / name).is_file():
            shutil.copyfile(TREE / name, target)
            target.chmod(0o777 & ~under.umask if os.access(TREE / name, os.X_OK) else 0o666 & ~under.umask)
            os.utime(target, (under.time_s, under.time_s))
    environment = {**os.environ, "TZ": under.zone, "LC_ALL": under.locale}
    environment.pop("SOURCE_DATE_EPOCH", None)
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), str(tree)]
    done = subprocess.run(words, env=environment, umask=under.umask, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the build in {under.directory} failed:\n{done.stdout}{done.stderr}")
    return {path.name: path.read_bytes() for path in sorted(output.iterdir())}


def differences(first: dict[str, bytes], second: dict[str, bytes]) -> list[str]:
    """Say where two sets of files differ, by the members of archives; nothing when they are equal."""
    found = [f"{name}: built once alone" for name in sorted(first.keys() ^ second.keys())]
    for name in sorted(first.keys() & second.keys()):
        if first[name] != second[name]:
            members = _members(name, first[name]), _members(name, second[name])
            odd = sorted(member for member, _ in members[0] ^ members[1])
            found.append(f"{name}: differs in {', '.join(dict.fromkeys(odd)) or 'how it is packed'}")
    return found


def _members(name: str, data: bytes) -> set[tuple[str, str]]:
    """The members of an archive with hashes of what they hold and of what is said of them."""
    if name.endswith(".whl"):
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            return {
                (info.filename, _hash(wheel.read(info), info.date_time, info.external_attr))
                for info in wheel.infolist()
            }
    with tarfile.open(fileobj=io.BytesIO(data)) as sdist:
        found = set()
        for info in sdist:
            file = sdist.extractfile(info)
            said = (info.mtime, info.mode, info.uid, info.gid, info.uname, info.gname)
            found.add((info.name, _hash(file.read() if file else b"", *said)))
        return found


def _hash(data: bytes, *said: object) -> str:
    return hashlib.sha256(data + repr(said).encode()).hexdigest()


def reproducible() -> int:
    """Print the hashes, or where the builds differ; return the exit status."""
    first, second = built_twice()
    wrong = differences(first, second)
    kept = {path.name: path.read_bytes() for path in sorted((TREE / "dist").glob("*")) if path.name in first}
    if kept:
        wrong += [f"dist/ against a build of the files that git knows: {line}" for line in differences(kept, first)]
    for line in wrong:
        print(line)
    if not wrong:
        for name, data in first.items():
            print(f"{hashlib.sha256(data).hexdigest()}  {name}")
        print(f"two builds are equal{', and equal to dist/' if kept else ''}")
    return 1 if wrong else 0
