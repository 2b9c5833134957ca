"""The real disk keeps the promises of the door, on every route a sync can take and with few descriptors."""

import asyncio
from pathlib import Path

import pytest

from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.disk.sync_choice import SyncChoice, SyncPlace
from firearrow.testing.conformance.disk import DISK_CHECKS, DiskCheck


class Always(SyncChoice):
    """A choice that measures nothing."""

    def __init__(self, route: SyncPlace) -> None:
        super().__init__()
        self._route = route

    def took(self, nanoseconds: int, unsynced_bytes: int) -> None:
        del nanoseconds, unsynced_bytes


def run(check: DiskCheck, disk: RealDisk, *, uvloop: bool = False) -> None:
    async def main() -> None:
        try:
            await check(disk)
        finally:
            await disk.close()

    if uvloop:
        import uvloop as fast

        with asyncio.Runner(loop_factory=fast.new_event_loop) as runner:
            runner.run(main())
    else:
        asyncio.run(main())


@pytest.mark.parametrize("check", DISK_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("route", SyncPlace)
def test_real_disk(check: DiskCheck, route: SyncPlace, tmp_path: Path) -> None:
    run(check, RealDisk(str(tmp_path), choice=Always(route)))


@pytest.mark.parametrize("check", DISK_CHECKS, ids=lambda check: check.__name__)
def test_on_uvloop_with_few_descriptors(check: DiskCheck, tmp_path: Path) -> None:
    run(check, RealDisk(str(tmp_path), descriptors_max=16), uvloop=True)
