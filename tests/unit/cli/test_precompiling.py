"""Compiled files inside a zip of Python sources: taken by the Python that made them, and harmless for any other."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from firearrow.cli.pipeline import pipeline
from firearrow.cli.precompile import precompile, spark_archives
from firearrow.errors import SettingsError

TOLD = """
import sys
compiled = []
sys.addaudithook(lambda event, about: compiled.append(about[1]) if event == "compile" else None)
import pack.inner
print(pack.inner.VALUE, pack.inner.where(), len({name for name in compiled if "zip/pack" in str(name)}))
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A zip with a package, where Spark would have its own."""
    place = tmp_path / "python" / "lib" / "pyspark.zip"
    place.parent.mkdir(parents=True)
    with ZipFile(place, "w") as new:
        new.writestr("pack/__init__.py", "")
        new.writestr("pack/inner.py", "VALUE = 7\n\n\ndef where() -> str:\n    return where.__code__.co_filename\n")
        new.writestr("pack/data.txt", "left alone")
    return place


def imported(archive: Path) -> list[str]:
    """A value of the package, where its code says that it lies, and how many of its files Python compiled."""
    done = subprocess.run(
        [sys.executable, "-c", TOLD],
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_nothing_is_compiled_any_more_when_it_is_imported(archive: Path) -> None:
    """Without it every process compiles; code and its place are the same."""
    place = f"{archive}/pack/inner.py"
    assert imported(archive) == ["7", place, "2"]

    assert precompile(archive) == 2

    assert imported(archive) == ["7", place, "0"]
    with ZipFile(archive) as after:
        assert after.testzip() is None
        assert after.read("pack/data.txt") == b"left alone"


def test_a_second_time_nothing_changes(archive: Path) -> None:
    """The file is not even written."""
    precompile(archive)
    before = archive.stat()

    assert precompile(archive) == 0
    assert archive.stat().st_mtime_ns == before.st_mtime_ns


def test_what_another_python_compiled_is_replaced(archive: Path) -> None:
    """Python itself passes it over and takes the sources."""
    with ZipFile(archive, "a") as some:
        some.writestr("pack/inner.pyc", b"\0\0\r\n" + bytes(12))
    assert imported(archive)[2] == "2"

    assert precompile(archive) == 2

    assert imported(archive)[2] == "0"
    with ZipFile(archive) as after:
        assert len(after.namelist()) == len(set(after.namelist())) == 5


def test_entries_stay_where_they_are_for_those_who_have_it_open(archive: Path) -> None:
    """A process that has read the list of entries reads the file again for each of them."""
    with ZipFile(archive) as before:
        places = {entry.filename: entry.header_offset for entry in before.infolist()}
    precompile(archive)
    with ZipFile(archive) as after:
        assert {name: after.getinfo(name).header_offset for name in places} == places


def test_the_command(archive: Path, tmp_path: Path) -> None:
    """It says what it did, or where it looked."""
    home = str(archive.parents[2])
    first = CliRunner().invoke(pipeline, ["precompile", "--spark-home", home])
    second = CliRunner().invoke(pipeline, ["precompile", "--spark-home", home])
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "2 files compiled" in first.output
    assert "is compiled already" in second.output

    nowhere = CliRunner().invoke(pipeline, ["precompile", "--spark-home", str(tmp_path / "none")])
    assert nowhere.exit_code == 2
    assert "no installation of Spark" in nowhere.output


def test_the_installed_spark_is_found() -> None:
    """Without a word of where it is."""
    pytest.importorskip("pyspark")
    assert "pyspark.zip" in [each.name for each in spark_archives()]
    with pytest.raises(SettingsError, match=r"pyspark\.zip"):
        spark_archives("/nowhere")
