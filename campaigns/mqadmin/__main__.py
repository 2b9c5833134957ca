"""``python -m campaigns.mqadmin``: compare both tools at both clusters; with --page write the page of commands."""

import argparse
import sys
from pathlib import Path

from campaigns.mqadmin.command_lines import ABSENT_LINES, LINES
from campaigns.mqadmin.comparison import by_verb, cluster, compared, refused
from campaigns.mqadmin.page import page
from judges import Mqadmin


def main() -> int:
    """Run the comparison; the status is 1 if a command fails here that works with Apache's tool."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.mqadmin", description=__doc__)
    parser.add_argument("--page", type=Path, help="write the page of commands to this file")
    parser.add_argument("--at", choices=("ours", "apache"), help="at these servers alone")
    parser.add_argument("words", nargs="*", help="only commands that begin with one of these")
    given = parser.parse_args()
    lines = [line for line in LINES if not given.words or line.startswith(tuple(given.words))]
    absent = [line for line in ABSENT_LINES if not given.words or line.startswith(tuple(given.words))]
    found = {}
    refusals: dict[str, str] = {}
    with Mqadmin("5.5.0") as tool:
        for kind in [given.at] if given.at else ["ours", "apache"]:
            print(f"== at {kind}", file=sys.stderr)
            with cluster(kind) as place:
                found[kind] = by_verb(compared(place, lines, tool))
                if kind == "ours":
                    refusals = refused(place, absent, tool)
    if given.page:
        given.page.write_text(page(found["ours"], found["apache"], refusals))
    outcomes = [outcome for verbs in found.values() for each in verbs.values() for outcome in each]
    counts = {word: sum(each.our_word == word for each in outcomes) for word in ("same", "differs", "refused", "fails")}
    print(counts, file=sys.stderr)
    return int(bool(counts["fails"]))


if __name__ == "__main__":
    sys.exit(main())
