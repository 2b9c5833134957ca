"""Tells of records that were just appended whether they are written."""

import asyncio
from typing import TypeAlias

from firearrow.errors import FireArrowError
from firearrow.store.placement import WRITTEN
from firearrow.store.store import Store

Outcome: TypeAlias = asyncio.Future[FireArrowError | None]
"""The reason why records were not written, once that is known; None when they were written."""


def outcome_of(store: Store, end: int) -> Outcome:
    """Return the outcome of records that end at an offset.

    It must be asked for in the turn of the append: other records may take the place of records that are taken back.
    """
    outcome: Outcome = asyncio.get_running_loop().create_future()

    def settle(error: FireArrowError | None) -> None:
        if not outcome.done():
            outcome.set_result(error)

    store.on_reached(end, WRITTEN, settle)
    return outcome
