"""The disks of a group's brokers: directories, or small file systems in memory that can be filled up."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from campaigns.faults.small_disk import fill_up

DISK_BYTES: Final = 160 << 20
_BALLAST: Final = "ballast"
_PREFIX: Final = "fa-failover-"


class Disks:
    """One disk a broker, below one directory; with ``small`` each is a tmpfs, which needs root."""

    def __init__(self, *, small: bool) -> None:
        self.root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self.small = small
        self._mounted: list[Path] = []

    def mount(self, name: str) -> Path:
        """Return the directory of a disk."""
        directory = self.root / name
        directory.mkdir()
        if self.small:
            words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)]
            subprocess.run(words, check=True)
            self._mounted.append(directory)
        return directory

    def fill(self, name: str) -> None:
        """Take every page that is left."""
        fill_up(str(self.root / name / _BALLAST))

    def free(self, name: str) -> None:
        """Give the pages back."""
        (self.root / name / _BALLAST).unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete all of them; no program may use one any more."""
        for directory in self._mounted:
            subprocess.run(["umount", str(directory)], check=False)
        shutil.rmtree(self.root, ignore_errors=True)


def remove_leftovers() -> None:
    """Remove the disks of runs that were killed."""
    for found in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = found.name.removeprefix(_PREFIX).split("-")[0]
        if not owner.isdigit() or Path(f"/proc/{owner}").exists():
            continue
        for directory in found.iterdir():
            if directory.is_mount():  # perhaps with a broker that still runs: it is killed with its namespace
                subprocess.run(["umount", "--lazy", str(directory)], check=False)
        shutil.rmtree(found, ignore_errors=True)
