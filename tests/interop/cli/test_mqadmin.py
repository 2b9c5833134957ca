"""Our ``mqadmin`` beside Apache's at both clusters: a part of the commands in turn, against what the page says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.mqadmin.command_lines import LINES, verb_of
from campaigns.mqadmin.comparison import Place, cluster, compared
from campaigns.rotation import this_turn
from firearrow.cli.mqadmin.catalogue import VERBS
from judges import Mqadmin

pytestmark = pytest.mark.apache
PAGE = Path(__file__).parents[3] / "docs/reference/our-mqadmin.md"
PARTS = [LINES[first::4] for first in range(4)]
BAD = frozenset({"fails"})
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def tool() -> Iterator[Mqadmin]:
    with Mqadmin("5.5.0") as running:
        yield running


@pytest.fixture(scope="module", params=["ours", "apache"])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[str, Place]]:
    with cluster(str(request.param)) as made:
        yield str(request.param), made


@pytest.mark.rotating
@pytest.mark.parametrize("lines", this_turn(PARTS, __name__), ids=lambda lines: f"from {lines[0]}")
def test_commands_do_what_the_page_says(place: tuple[str, Place], tool: Mqadmin, lines: list[str]) -> None:
    kind, made = place
    page = {name: cells for name, *cells in ROW.findall(PAGE.read_text())}
    chosen = [line for line in LINES if verb_of(line).startswith("update") or line in lines]
    for outcome in compared(made, chosen, tool):
        said = page[verb_of(outcome.line)][0 if kind == "ours" else 1]
        assert outcome.our_word not in BAD, f"{outcome.line}: {outcome.ours.text}"
        if said == "same":
            assert outcome.our_word == "same", f"{outcome.line}: {outcome.ours.text}\n{outcome.theirs.text}"


def test_the_page_lists_every_command() -> None:
    assert [name for name, *_ in ROW.findall(PAGE.read_text())] == [verb.name for verb in VERBS]
