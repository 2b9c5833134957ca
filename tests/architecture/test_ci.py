"""Every test file is run by `.ci/run`: a suite that no stage names would count as green without being run."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = (".ci/run", ".ci/each-python", ".ci/dist")
_IGNORED = re.compile(r"--ignore \S+")


def named_paths() -> set[Path]:
    """The files and folders of tests that a stage names."""
    text = "\n".join(_IGNORED.sub("", (ROOT / script).read_text()) for script in SCRIPTS)
    return {ROOT / word for word in re.findall(r"\btests/[\w/.-]+", text)}


def test_every_test_file_is_run_by_a_stage() -> None:
    named = named_paths()
    left_out = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if not named.intersection((path, *path.parents))
    ]
    assert not left_out, f"no stage of .ci/run names {left_out}"


def test_every_path_of_a_stage_exists() -> None:
    assert not [path for path in named_paths() if not path.exists()]
