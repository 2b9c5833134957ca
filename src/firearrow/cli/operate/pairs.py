"""Names with values: ``NAME=VALUE`` arguments, and tables of two columns."""

from collections.abc import Iterable, Mapping

import typer

from firearrow.cli.cluster import fail
from firearrow.cli.tables import print_table


def pairs_of(context: typer.Context, given: Iterable[str] | None, option: str = "") -> dict[str, str]:
    """Read ``NAME=VALUE`` texts of arguments, or of an option; fail for one without a value."""
    found, named = {}, f"{option} " if option else ""
    for text in given or ():
        name, sign, value = text.partition("=")
        if not (name and sign):
            fail(context, f"{named}{text} has no value; write NAME=VALUE")
        found[name] = value
    return found


def print_pairs(title: str, pairs: Mapping[str, object]) -> None:
    """Print a table of names and values."""
    print_table(title, ["name", "value"], list(pairs.items()))
