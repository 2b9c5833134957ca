"""Numbers that the README and the pages of mqadmin and of the status give are those of the pages that prove them."""

import re

from tests.architecture.test_reference import ROOT


def count(pattern: str, text: str) -> int:
    """Return the number that a text says."""
    found = re.search(pattern, text)
    assert found is not None, pattern
    return int(found[1])


def test_the_readme_has_the_figures_of_the_pages() -> None:
    readme, pages = (ROOT / "README.md").read_text(), ROOT / "docs"
    matrix = (pages / "reference/interop-matrix.md").read_text()
    for pattern in (r"(\d+) of \d+ cells", r"\d+ of (\d+) cells"):
        assert count(pattern, readme) == count(pattern, matrix)
    failures = re.findall(r"^- (\w+) / \w+ / ", matrix.split("## Failures")[1].split("\n## ")[0], re.MULTILINE)
    assert failures == ["apache"] * 2, "the README says that two cells failed, both at Apache's broker"
    text = (pages / "internals/performance.md").read_text().split("## Broker beside Apache 5.5.0")[1].split("\n### ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    ratios = {row[0]: row[4] for row in rows}
    single = sorted(float(ratio) for row, ratio in ratios.items() if re.fullmatch(r"[\d]+ K?i?B, (16|64) threads", row))
    assert f"{single[0]:.2f} to {single[-1]:.2f} times its rate for single sends from 16 or 64 threads" in readme
    assert f"{ratios['drain of 1,000,000 messages']} for delivery" in readme
    assert f"{ratios['batches of 32, 128 B, 4 threads']} for batches of 32, the weakest row" in readme
    assert min(float(row[4]) for row in rows[1:]) == float(ratios["batches of 32, 128 B, 4 threads"])
    ours, apache = rows[-1][8].split(" / ")
    assert f"{ours} MiB beside {apache} MiB of Apache's" in readme


def test_the_pages_of_mqadmin_and_of_the_status_count_its_lists() -> None:
    listed: dict[str, int] = {}
    for part in (ROOT / "docs/reference/mqadmin.md").read_text().split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        rows = [line.split("|")[2] for line in text.splitlines() if line.startswith("|")]
        listed[title] = sum(len(re.findall(r"`\w+`", row)) for row in rows)
    shared = listed["Works, in both versions"]
    works, refused = shared + listed["Works in 5.5.0"], listed["Refused in 5.5.0"]
    never = listed["Never run, in both versions"] + listed["Never run in 5.5.0"]
    counts = f"{works} work, {refused} are refused, {never} were never run"
    page, status = ((ROOT / "docs/reference" / name).read_text() for name in ("mqadmin.md", "status.md"))
    assert f"{works + refused + never}\ncommands: {counts}" in page
    assert f"Of the {works + refused + never} commands of `mqadmin` 5.5.0, {counts}" in status
    old = listed["Refused in 4.9.8"], listed["Never run, in both versions"]
    assert f"4.9.8 has {shared + sum(old)}: {shared} work, {old[0]} are refused, {old[1]} were never run." in page
