"""No page plans what is here, and no page denies it.

A page may announce what `PLANNED` lists, as long as the package of that plan is not in the tree. Of `PRESENT` no page
may say that it is missing. Pages of `docs/history` and decisions say what was true in their day.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from firearrow.cli.operate.examples import EXAMPLES
from tests.architecture.test_tree import ROOT, SOURCE, tracked_files

PLAN: Final = re.compile(
    r"\bto come\b|\*planned\*|\bPlanned\b|exist yet|[Nn]ot yet:|\| not yet \||\bno \w+ (?:\w+ )?yet\b"
    r"|until (?:it is|they are) offered"
)
"""Words of a sentence that announces something."""


class Part(NamedTuple):
    """Something that FireArrow has or will have, and where it is or will be."""

    home: str
    words: str
    """A pattern: with `PLAN` in a line, the line announces this; alone, it denies this."""
    example: str


PLANNED: Final = (
    Part("broker/pop", r"\bpop\b", "Not yet: pop, refused in the words of an Apache broker that has it switched off"),
    Part("broker/lite", r"light topics", "light topics are refused until they are offered"),
    Part(
        "broker/compaction", r"compacted topics", "batch queues and compacted topics are refused until they are offered"
    ),
    Part("broker/request_reply", r"replies", "replies are refused until they are offered"),
    Part("proxy", r"gRPC|\bproxy\b", "If your clients use gRPC (port 8081), stop here: there is no proxy yet."),
    Part("console", r"\bconsole\b", "A console in the browser is to come, and its picture with it."),
)
PRESENT: Final = (
    Part("access", r"ours have none", "yes; accounts at Apache's brokers, ours have none"),
    Part(
        "client/metrics",
        r"\bPrometheus\b.*\*\*no\*\*",
        "| OpenTelemetry, Prometheus middlewares | **no** for the client |",
    ),
    Part("runtime/tls_settings.py", r"\*\*no\*\*[^|]*\bTLS\b|\bTLS[^|]*\| \*\*no\*\*", "| TLS | **no** |"),
    Part("quotas", r"\bquotas?\b[^|]*\| \*\*no\*\*", "| quotas | **no** |"),
    Part("broker/failover", r"\bfailover\b[^|]*\| \*\*no\*\*", "| failover of a master | **no** |"),
    Part("cli/messages/packing.py", r"codec[^|]*\| \*\*no\*\*", "| `-z` codec | **no**: bodies over 4 KiB |"),
    Part("broker/transaction", r"\btransactions?[^|]*\| \*\*no\*\* \|", "| transactions | **no** | yes |"),
    Part("mirror", r"\bmirror[^|]*\| \*\*no\*\*", "| mirror to another cluster | **no** |"),
)
NOT_OURS: Final = (
    "no release yet",
    "No release is on the package index yet",
    "give a time to come",
    "when to come again",
    "no server answers yet",
    "no slave had yet",
    "no offsets yet",
    "no commit yet",
)
"""Sentences with such words that announce no part."""
DENIED_COMMAND: Final = re.compile(r"^\| (?P<theirs>(?:`[^`|]+`[^`|]*)+) \| (?:\*\*no\*\*|[^|]*\bno\*\* command yet)")
COMMAND: Final = re.compile(r"`rpk ([a-z-]+(?: [a-z-]+)*)")


def pages() -> list[Path]:
    """The pages that say what is."""
    then = ("CHANGELOG.md", "docs/history/", "docs/adr/")
    return [
        path
        for path in tracked_files()
        if path.suffix == ".md" and not str(path.relative_to(ROOT)).startswith(then) and "tests" not in path.parts
    ]


def announced_wrongly(line: str) -> str:
    """The reason why a line announces what it must not; empty where it does not."""
    if not PLAN.search(line) or any(words in line for words in NOT_OURS):
        return ""
    plans = [part for part in PLANNED if re.search(part.words, line)]
    if not plans:
        return "announces something that PLANNED does not list"
    here = [part.home for part in plans if (SOURCE / part.home).exists()]
    return f"announces what is here: {here}" if here else ""


def denied_wrongly(line: str) -> str:
    """The reason why a line denies what is here; empty where it does not."""
    for part in PRESENT:
        if re.search(part.words, line):
            return f"denies {part.home}"
    row = DENIED_COMMAND.search(line)
    ours = [theirs for theirs in COMMAND.findall(row["theirs"]) if is_ours(theirs)] if row else []
    return f"denies the command {ours[0]}" if ours else ""


def is_ours(command: str) -> bool:
    """Whether FireArrow has a command, or commands below it, of these words."""
    return any(path == command or path.startswith(f"{command} ") for path in EXAMPLES)


@pytest.mark.parametrize("page", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_plans_and_denies_nothing_that_is_here(page: Path) -> None:
    lines = page.read_text().splitlines()
    wrong = [f"{line[:120]}: {said}" for line in lines if (said := announced_wrongly(line) or denied_wrongly(line))]
    assert wrong == []


@pytest.mark.parametrize("part", PLANNED, ids=lambda part: part.home)
def test_a_plan_that_is_here_is_found(part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert announced_wrongly(part.example) == ""
    (tmp_path / part.home).mkdir(parents=True)
    monkeypatch.setattr("tests.architecture.test_plans.SOURCE", tmp_path)
    assert announced_wrongly(part.example).startswith("announces what is here")


@pytest.mark.parametrize("part", PRESENT, ids=lambda part: part.home)
def test_a_denial_is_found(part: Part) -> None:
    assert (SOURCE / part.home).exists()
    assert denied_wrongly(part.example) == f"denies {part.home}"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("| `rpk profile` | **no**: `FIREARROW_NAMESRV` |", "denies the command profile"),
        ("| `rpk group delete`, `offset-delete` | **no**; mqadmin |", "denies the command group delete"),
        ("| `rpk cluster info` | **no** command yet |", ""),
        ("| `rpk profile` | `firearrow profile add` |", ""),
    ],
)
def test_a_denied_command_is_found(row: str, said: str) -> None:
    assert denied_wrongly(row) == said


@pytest.mark.parametrize(
    "line",
    ["These packages do not exist yet. Each has its place.", "## Planned", "| `broker/access/` | is to come |",
     "Steps whose package does not exist yet are marked *planned*"],
)  # fmt: skip
def test_a_plan_of_something_else_is_found(line: str) -> None:
    assert announced_wrongly(line) == "announces something that PLANNED does not list"
