"""The scripts of a cluster tell what happens, whichever of several seeds chance comes from."""

from pathlib import Path

import pytest

from tests.scenario.script import difference, play, scripts

SEEDS = (0, 1, 8, 10, 17)
REWRITE = "if this is meant: python -m tests.scenario.script --rewrite, and read the diff"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.stem)
def test_a_script_tells_what_happens(path: Path, seed: int) -> None:
    lines = list(difference(path, seed))
    assert not lines, "\n".join([*lines, REWRITE])


def test_outcomes_are_written_below_their_commands() -> None:
    text = '# Two.\n\ncluster of a\ntopic t with 1 queue\n    nonsense\nsend t "x"\n    stored in a/9 at 9\n'
    assert play(text) == '# Two.\n\ncluster of a\ntopic t with 1 queue\nsend t "x"\n    stored in a/0 at 0\n'


def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="no such command: sned t"):
        play('cluster of a\nsned t "x"\n')
