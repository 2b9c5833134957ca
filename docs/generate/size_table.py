"""Fills the table of ``make bench-size`` with the newest rows of the ledger: ``python docs/generate/size_table.py``."""

# ruff: noqa: INP001 - a script beside the page it writes

import json
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/internals/performance.md"
BEGIN: Final = "<!-- size: begin -->\n"
END: Final = "<!-- size: end -->\n"


def figures() -> dict[str, tuple[list[Any], str, bool]]:
    """Every figure that was taken at full size: the newest values, their commit, and whether they broke their limit."""
    newest = {}
    for line in (ROOT / "docs/ledger.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["campaign"] == "size" and entry["scale"] == 1.0:
            for name, values in entry["figures"].items():
                newest[name] = (values, entry["commit"][:8], name in entry["broken"])
    return newest


def page() -> str:
    """The page with the table as the ledger has it: no figure is left out, and a broken limit is named."""
    rows = ["\n| | small | large | limit | commit |\n|---|---|---|---|---|\n"]
    for name, ((small, large, unit), commit, is_broken) in figures().items():
        limit = "**broken**" if is_broken else "kept"
        values = (f"{value:,g} {unit}".strip() for value in (small, large))
        rows.append(f"| {' | '.join((name, *values, limit, commit))} |\n")
    text = PAGE.read_text()
    return text[: text.index(BEGIN) + len(BEGIN)] + "".join(rows) + "\n" + text[text.index(END) :]


if __name__ == "__main__":
    PAGE.write_text(page())
