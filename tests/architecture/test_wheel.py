"""The wheel holds what users need, and nothing else."""

import pytest

from tests.architecture.wheel import PACKAGES, ROOT, files_to_build, objections


def test_the_wheel_holds_python_and_nothing_planted() -> None:
    assert list(objections(files_to_build())) == []


def test_the_wheel_holds_every_package_of_src() -> None:
    files = set(files_to_build())
    packages = [path.name for path in (ROOT / "src").iterdir() if path.is_dir()]
    assert sorted(packages) == sorted(PACKAGES)
    assert {f"{package}/{name}" for package in PACKAGES for name in ("__init__.py", "py.typed")} <= files


@pytest.mark.parametrize(
    "file",
    [
        "firearrow/testing/planted.py",
        "firearrow/testing/mutants/late_sync.py",
        "firearrow/judges/servers.py",
        "firearrow/testing/judge.go",
        "firearrow/store/store.py.orig",
        "firearrow/store/py.typed",
        "campaigns/samples.py",
        "firearrow-0.1.0.dist-info/notes.txt",
    ],
)
def test_a_stray_file_is_objected_to(file: str) -> None:
    assert [line.partition(":")[0] for line in objections(["firearrow/errors.py", file])] == [file]
