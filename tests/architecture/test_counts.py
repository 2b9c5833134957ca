"""Numbers that the README and the page of mqadmin give are those of the code and of the lists."""

import re

from firearrow.cli.mqadmin.catalogue import MODULES
from firearrow.cli.mqadmin.out_of_scope import VERBS
from tests.architecture.test_reference import ROOT, load


def count(pattern: str, text: str) -> int:
    """Return the number that a text says."""
    found = re.search(pattern, text)
    assert found is not None, pattern
    return int(found[1])


def test_the_readme_counts_what_is_there() -> None:
    readme, pages = (ROOT / "README.md").read_text(), ROOT / "docs/reference"
    codes = load(ROOT / "docs/generate/request_codes.py")
    mistakes = re.findall(r"^\| .* \| `", (pages / "mistakes.md").read_text(), re.MULTILINE)
    assert count(r"\[(\d+) mistakes", readme) == len(mistakes)
    assert count(r"(\d+) typed conversations", readme) == len(codes.ALL)
    assert count(r"the (\d+) commands of 5\.5\.0 by", readme) == sum(len(names.split()) for names in MODULES.values())
    assert count(r"; (\d+) of them end with a reason", readme) == len(VERBS)


def test_the_page_of_mqadmin_and_the_readme_count_its_lists() -> None:
    listed: dict[str, int] = {}
    for part in (ROOT / "docs/reference/mqadmin.md").read_text().split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        rows = [line.split("|")[2] for line in text.splitlines() if line.startswith("|")]
        listed[title] = sum(len(re.findall(r"`\w+`", row)) for row in rows)
    shared = listed["Works, in both versions"]
    works, refused = shared + listed["Works in 5.5.0"], listed["Refused in 5.5.0"]
    never = listed["Never run, in both versions"] + listed["Never run in 5.5.0"]
    counts = f"{works} work, {refused} are refused, {never} were never run"
    page, readme = ((ROOT / name).read_text() for name in ("docs/reference/mqadmin.md", "README.md"))
    assert f"{works + refused + never}\ncommands: {counts}" in page
    assert f"Of the {works + refused + never} commands of `mqadmin` 5.5.0, {counts}" in readme
    old = listed["Refused in 4.9.8"], listed["Never run, in both versions"]
    assert f"4.9.8 has {shared + sum(old)}: {shared} work, {old[0]} are refused, {old[1]} were never run." in page
