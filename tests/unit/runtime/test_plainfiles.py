"""Files read and replaced whole."""

import asyncio
from pathlib import Path

import pytest

from firearrow.errors import DiskError, FileMissing
from firearrow.runtime.disk.plain_files import PlainFiles


def test_a_file_is_replaced_whole_and_read_whole(tmp_path: Path) -> None:
    files = PlainFiles(str(tmp_path / "root"))
    files.make_directory("a/b")
    files.make_directory("a/b")
    for data in (b"first", b"", b"second"):
        asyncio.run(files.replace("a/b/file", data))
        assert asyncio.run(files.read_whole("a/b/file")) == data
    assert [path.name for path in (tmp_path / "root" / "a" / "b").iterdir()] == ["file"]


def test_what_is_not_there_and_what_cannot_be_are_told(tmp_path: Path) -> None:
    files = PlainFiles(str(tmp_path))
    with pytest.raises(FileMissing):
        asyncio.run(files.read_whole("nothing"))
    with pytest.raises(DiskError):
        asyncio.run(files.replace("no/directory/file", b"x"))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DiskError):
        files.make_directory("file/below")
    with pytest.raises(DiskError):
        asyncio.run(files.read_whole("."))
