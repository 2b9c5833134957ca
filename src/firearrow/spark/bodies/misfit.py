"""Misfits: the reasons why a body is not a row of its schema. Pure.

A `Misfit` is a fact about one body and is the same in every attempt: its row goes where the error mode says. Errors of
the world around (a registry that does not answer) are never misfits, since another attempt may succeed.
"""

from typing import Any, Final, NamedTuple

MOST_SHOWN: Final = 60


class Misfit(ValueError):
    """A body that is not a row of the schema; the text is the reason in the quarantine."""


class DecodedBody(NamedTuple):
    """A body as values of the schema's fields, in their order, and the rest of it as JSON (None: nothing is left)."""

    values: tuple[Any, ...]
    rescued: str | None = None
    is_deleted: bool = False
    """Whether the body says that its row is deleted."""


def shown(value: object) -> str:
    """A value in a reason, cut to a readable length."""
    text = str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
