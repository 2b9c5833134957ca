"""A unit test is named for its subject: ``tests/unit/store/log/test_flush.py`` for ``store/log/flush.py``.

A file may be named for its package as a whole (``test_store_parts.py`` in ``tests/unit/store``), and may say behind the
name which side of its subject it tests (``test_batch_uniform.py``). Files beside the tests, which hold what several of
them use, have any name.
"""

from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "firearrow"
UNIT: Final = ROOT / "tests" / "unit"
STILL_UNNAMED: Final = {
    "access": 4,
    "broker": 58,
    "campaigns": 1,
    "cli": 12,
    "client": 18,
    "nameserver": 4,
    "remoting": 5,
    "runtime": 9,
    "spark": 18,
    "testing": 11,
}
"""The number of test files of a package that are not named so yet. These numbers only go down."""


def is_named_for_its_subject(test: Path, source: Path) -> bool:
    """Whether a module or package of the folder that a test file mirrors, or that folder, has the name of the file."""
    home = source / test.parent
    subjects = [path.stem for path in home.iterdir() if path.suffix == ".py" or path.is_dir()] if home.is_dir() else []
    name = f"{test.stem.removeprefix('test_')}_"
    return any(name.startswith(f"{subject}_") for subject in (*subjects, home.name))


def test_unit_tests_are_named_for_modules() -> None:
    tests = [path.relative_to(UNIT) for path in sorted(UNIT.rglob("test_*.py"))]
    wrong = [test for test in tests if not is_named_for_its_subject(test, SOURCE)]
    counts = dict(Counter(test.parts[0] for test in wrong))
    unlisted = [str(test) for test in wrong if test.parts[0] not in STILL_UNNAMED]
    assert not unlisted, "no module or package of src/firearrow has their names"
    assert counts == STILL_UNNAMED, "name new files for their modules; write a smaller number down"


def test_a_file_without_a_subject_is_found(tmp_path: Path) -> None:
    (tmp_path / "store" / "log").mkdir(parents=True)
    (tmp_path / "store" / "log" / "flush.py").touch()
    for named in (
        "store/log/test_flush.py",
        "store/log/test_flush_errors.py",
        "store/log/test_log.py",
        "store/test_log.py",
    ):
        assert is_named_for_its_subject(Path(named), tmp_path), named
    for wrong in ("store/log/test_flushing.py", "store/test_flush.py", "broker/test_flush.py"):
        assert not is_named_for_its_subject(Path(wrong), tmp_path), wrong
