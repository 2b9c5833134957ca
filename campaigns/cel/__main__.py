"""Runs the conformance vectors of CEL's specification: ``python -m campaigns.cel`` prints the table of the page.

``--write`` puts the table into ``docs/reference/cel.md`` between its marks. The exit status is 1 if a vector that
applies fails.
"""

import argparse
import sys
from pathlib import Path

from campaigns.cel.vectors import outcomes, table
from judges.install.artifacts import CEL_VECTORS, cel_vectors

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cel.md"
BEGIN, END = "<!-- vectors: begin -->", "<!-- vectors: end -->"


def page_with(text: str, rows: list[str]) -> str:
    """Return the page with the table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join(
        [f"{before}{BEGIN}", "", f"Vectors of `cel.dev/expr` {CEL_VECTORS}.", "", *rows, "", f"{END}{after}"]
    )


def main() -> int:
    """Run the vectors; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    arguments = parser.parse_args()
    found = list(outcomes(cel_vectors().install()))
    rows = table(found)
    if arguments.write:
        PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    sys.stdout.write("\n".join(rows) + "\n")
    failed = [each for each in found if each.result == "failed"]
    for each in failed:
        sys.stderr.write(f"failed: {each.file} {each.section} {each.name}: {each.expression!r}: {each.reason}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
