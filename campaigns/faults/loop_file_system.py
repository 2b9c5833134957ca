"""A file system in a file, whose power can be cut.

The image is attached to a loop device and mounted. `cut_power` tells the file system to stop at once without flushing
its journal (the ioctl that ext4 and xfs have for their own crash tests): what was not synced is gone from it, mapped
pages included, and everything after fails with EIO. `power_up` mounts it again, which replays the journal. Needs root,
``mkfs`` of the kind and ``losetup``. What it does not do is reorder blocks inside the device: torn pages come from the
simulated disk.
"""

import ctypes
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Final, Literal, Self

FileSystem = Literal["ext4", "xfs"]

_GOING_DOWN: Final = 0x8004587D
_WITHOUT_LOG_FLUSH: Final = 2
_IMAGE_BYTES: Final = {"ext4": 128 << 20, "xfs": 320 << 20}
_MEMORY: Final = "/dev/shm"  # noqa: S108
_UNMOUNT_SECONDS: Final = 10.0
_OPTIONS: Final = {"ext4": b"commit=300", "xfs": b""}
"""ext4 would write its journal every five seconds unasked: what was not synced would be kept by luck."""


def missing_tools(kind: FileSystem) -> list[str]:
    """The tools that this machine lacks."""
    needed = [tool for tool in (f"mkfs.{kind}", "losetup") if shutil.which(tool) is None]
    return needed + (["root"] if os.geteuid() != 0 else [])


class LoopFileSystem:
    """A mounted file system of its own."""

    def __init__(self, kind: FileSystem) -> None:
        self._kind = kind
        # In memory where possible: a flush of the device then costs nothing, and cycles are short.
        self._scratch = tempfile.mkdtemp(prefix=f"loop-{kind}-", dir=_MEMORY if os.path.isdir(_MEMORY) else None)
        self.root = os.path.join(self._scratch, "mounted")
        self._device = ""
        self._mounted = False
        self._libc = ctypes.CDLL(None, use_errno=True)

    def __enter__(self) -> Self:
        image = os.path.join(self._scratch, "image")
        os.mkdir(self.root)
        with open(image, "wb") as file:
            file.truncate(_IMAGE_BYTES[self._kind])
        force = "-F" if self._kind == "ext4" else "-f"
        subprocess.run([f"mkfs.{self._kind}", "-q", force, image], check=True, stdout=subprocess.DEVNULL)
        found = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True, text=True)
        self._device = found.stdout.strip()
        self.power_up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unmount()
        subprocess.run(["losetup", "-d", self._device], check=True)
        shutil.rmtree(self._scratch)

    def cut_power(self) -> None:
        """Stop the file system now; programs that use it get EIO."""
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _GOING_DOWN, struct.pack("I", _WITHOUT_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def power_up(self) -> None:
        """Mount it, after a cut too; no program may have a file of it open."""
        deadline = time.monotonic() + _UNMOUNT_SECONDS
        self._mount()
        # Where the kernel has not quite let go of what was cut, mounting gives the dead one back.
        while not self._is_alive():
            if time.monotonic() > deadline:
                raise OSError(errno.EIO, f"{self._device} stays dead after it was mounted again")
            time.sleep(0.01)
            self._mount()

    def _mount(self) -> None:
        self._unmount()
        source, target, kind = (text.encode() for text in (self._device, self.root, self._kind))
        if self._libc.mount(source, target, kind, 0, _OPTIONS[self._kind]) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot mount {self._device} as {self._kind}: {os.strerror(number)}")
        self._mounted = True

    def _is_alive(self) -> bool:
        probe = os.path.join(self.root, ".alive")
        try:
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
            os.unlink(probe)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EROFS):
                raise
            return False
        return True

    def _unmount(self) -> None:
        # A process that has just been killed may take a moment to let go.
        deadline = time.monotonic() + _UNMOUNT_SECONDS
        while self._mounted and self._libc.umount2(self.root.encode(), 0) != 0:
            number = ctypes.get_errno()
            if number != errno.EBUSY or time.monotonic() > deadline:
                raise OSError(number, f"cannot unmount {self.root}: {os.strerror(number)}")
            time.sleep(0.002)
        self._mounted = False
