"""The first output of a command comes soon: what it costs to load a command is bounded, in CPU time of its process.

CPU time, because the machine of a test may be busy; the least of a few runs, because that makes it longer too; more on
a machine that is slower than the one of the documentation's figures.
"""

import os
import subprocess
import sys

import pytest

from campaigns.rotation import this_turn
from firearrow.cli.mqadmin.catalogue import VERBS
from tests.unit.cli.test_app import ASKING, WITHOUT_NAMES
from tests.unit.cli.test_tree import LEAVES
from tests.yardstick import slowness

MOST_S = 0.5
RUNS = 4
ENGINE = ("firearrow.admin", "firearrow.client", "firearrow.store", "pydantic", "pyspark", "rich.console")
"""Modules that a command needs once it runs, and its help does not."""

SCRIPTS = {
    "firearrow": "from firearrow.cli import main; main()",
    "mqadmin": "from firearrow.cli.mqadmin import main; main()",
}
LINES = [
    *(["firearrow", *path.split(), "--help"] for path in sorted(LEAVES)),
    *(["firearrow", *words] for words in ASKING),
    *(["mqadmin", verb.name, "-h"] for verb in VERBS),
]


@pytest.mark.rotating
@pytest.mark.parametrize("words", this_turn(LINES, __name__), ids=" ".join)
def test_a_command_answers_within_half_a_second(words: list[str]) -> None:
    taken: list[float] = []
    while len(taken) < RUNS and (not taken or taken[-1] > MOST_S):
        cost_s = cpu_s(words)
        taken.append(cost_s if cost_s <= MOST_S else cost_s / slowness())
    assert min(taken) <= MOST_S, f"{words}: {taken}; python -X importtime shows what it loads"


@pytest.mark.parametrize("path", this_turn(sorted(LEAVES), f"{__name__} modules"))
def test_help_loads_neither_engine_nor_pydantic(path: str) -> None:
    script = f"import atexit, sys; atexit.register(lambda: print(*sys.modules)); {SCRIPTS['firearrow']}"
    printed = subprocess.run(
        [sys.executable, "-c", script, *path.split(), "--help"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **WITHOUT_NAMES, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout
    loaded = printed.splitlines()[-1].split()
    assert "firearrow.cli.app" in loaded
    assert not [module for module in loaded if module.startswith(ENGINE)]


def cpu_s(words: list[str]) -> float:
    """Run a command that needs no cluster, and return the CPU seconds of its process."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPTS[words[0]], *words[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **WITHOUT_NAMES, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), words
    return used.ru_utime + used.ru_stime
