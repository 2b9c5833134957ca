"""Backups of a replica's directory: a copy of a stopped one, with a list of its files, and the way back."""

import hashlib
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from firearrow.errors import DiskError, SettingsError
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.store.epochs.directory_number import DIRECTORY
from firearrow.store.epochs.promise import PromiseFile
from firearrow.store.paths import LOCK

LIST: Final = "backup.json"
FILES: Final = "store"
PIECE: Final = 1 << 20
LEFT_OUT: Final = (LOCK, DIRECTORY, f"{DIRECTORY}.bak")
"""Files that a backup does not hold: a copy is another directory."""


class Backup(msgspec.Struct, frozen=True):
    """The list of a backup's files, with its time and epoch."""

    time: str
    epoch: int
    """The epoch that the replica had promised."""
    files: dict[str, str]
    """SHA-256 of every file, by its path."""


async def back_up(store: Path, to: Path) -> Backup:
    """Copy the directory of a stopped replica; raise when a broker runs on it, or when there is a backup already."""
    _check(store, to)
    disk = RealDisk(str(store))
    try:
        lock = disk.lock(LOCK)
        try:
            epoch = (await PromiseFile.load(disk)).epoch
            if not epoch:
                raise SettingsError(f"{store} was never part of a group with a coordinator; copy it by other means")
            return _kept(store, to, epoch)
        finally:
            lock.release()
    finally:
        await disk.close()


def _check(store: Path, to: Path) -> None:
    if not (store / "commitlog").is_dir():
        raise SettingsError(f"{store} holds no commitlog/: name the storePathRootDir of a replica after --store")
    if to.exists():
        raise SettingsError(f"{to} exists: name a directory that is not there yet after --to")


def _kept(store: Path, to: Path, epoch: int) -> Backup:
    """Copy a directory beside the backup's place, and put it there when it is whole."""
    part = to.with_name(f"{to.name}.part")
    if part.exists():
        shutil.rmtree(part)
    made = Backup(datetime.now(UTC).isoformat(timespec="seconds"), epoch, _copied(store, part / FILES))
    _write(part / LIST, msgspec.json.format(msgspec.json.encode(made)))
    part.rename(to)
    _sync(to.parent)
    return made


async def read_backup(place: Path) -> Backup:
    """Return what a backup holds, by its list; the files are checked when they are copied."""
    try:
        return msgspec.json.decode((place / LIST).read_bytes(), type=Backup)
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(f"{place} is not a whole backup of firearrow failover backup: {error}") from error


def put_back(place: Path, backup: Backup, store: Path) -> None:
    """Copy a backup to an empty place; raise when a file is not what it was, and then leave nothing there."""
    if store.exists() and any(store.iterdir()):
        raise SettingsError(f"{store} is not empty: move what is there away first")
    files = _copied(place / FILES, store)
    wrong = sorted(path for path in files.keys() | backup.files.keys() if files.get(path) != backup.files.get(path))
    if wrong:
        shutil.rmtree(store)
        raise DiskError(f"the backup {place} is damaged: {wrong[0]} is not as it was, and {len(wrong) - 1} more files")


def _copied(source: Path, target: Path) -> dict[str, str]:
    """Copy every file, durably; return their sums by path."""
    sums = dict[str, str]()
    try:
        for path in sorted(source.rglob("*")):
            name = str(path.relative_to(source))
            if path.is_dir():
                (target / name).mkdir(parents=True, exist_ok=True)
            elif name not in LEFT_OUT:
                sums[name] = _copy(path, target / name)
        for directory in (target, *(path for path in target.rglob("*") if path.is_dir())):
            _sync(directory)
    except OSError as error:
        raise DiskError(f"{source} cannot be copied to {target}: {error}", error.errno) from error
    return sums


def _copy(source: Path, target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    found = hashlib.sha256()
    with source.open("rb") as data, target.open("wb") as out:
        while piece := data.read(PIECE):
            found.update(piece)
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    return found.hexdigest()


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
