"""A directory of a store that lies elsewhere."""

import asyncio
import os
from pathlib import Path

import pytest

from firearrow.errors import SettingsError
from firearrow.runtime.disk.linked_directory import link_directory
from firearrow.runtime.disk.real_disk import RealDisk

KEY = "storePathConsumeQueue"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def linked(root: Path, target: Path) -> None:
    link_directory(str(root), "consumequeue", str(target), KEY)


def test_a_store_is_led_elsewhere_once_and_again(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "other" / "queues"
    for _ in range(2):
        linked(root, target)
    (root / "consumequeue" / "file").write_text("x")
    assert (target / "file").read_text() == "x"


def test_its_usual_place_needs_no_link(root: Path) -> None:
    linked(root, root / "consumequeue")
    assert not root.exists()


def test_an_empty_directory_gives_way(root: Path, tmp_path: Path) -> None:
    (root / "consumequeue").mkdir(parents=True)
    linked(root, tmp_path / "queues")
    assert (root / "consumequeue").is_symlink()


def test_files_are_neither_hidden_nor_moved(root: Path, tmp_path: Path) -> None:
    (root / "consumequeue" / "topic").mkdir(parents=True)
    with pytest.raises(SettingsError, match=r"has files: move what is there to .*/queues while no broker runs"):
        linked(root, tmp_path / "queues")
    assert (root / "consumequeue" / "topic").is_dir()
    assert not (tmp_path / "queues").exists()


def test_another_target_is_refused(root: Path, tmp_path: Path) -> None:
    linked(root, tmp_path / "queues")
    with pytest.raises(SettingsError, match=r"leads to .*/queues"):
        linked(root, tmp_path / "others")


def test_a_place_that_cannot_be_made_says_so(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="which cannot be used"):
        linked(root, tmp_path / "file" / "queues")


def test_a_sync_below_a_link_opens_the_directory_that_it_leads_to(root: Path, tmp_path: Path) -> None:
    async def held() -> int:
        disk = RealDisk(str(root))
        try:
            await disk.sync_below("consumequeue")
            (descriptor,) = disk._everything.values()
            return os.fstat(descriptor).st_ino
        finally:
            await disk.close()

    linked(root, tmp_path / "queues")
    assert asyncio.run(held()) == (tmp_path / "queues").stat().st_ino
