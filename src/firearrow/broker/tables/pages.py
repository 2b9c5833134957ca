"""Pages of the tables of topics and groups, for those who ask for a part: the largest page fits into a frame. Pure.

A page ends after the row that reaches `PAGE_BYTES`, or one row later. It has one row at least, so whoever asks on from
there gets them all. A topic is no larger than the request that made it; a group may grow by many requests, up to
`GROUP_BYTES_MAX`.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

PAGE_BYTES: Final = 4 << 20
GROUP_BYTES_MAX: Final = 2 << 20
"""The most bytes of a group that an operator puts."""


def names_of_page(names: Iterator[str], most: int, left: int, size_of: Callable[[str], int]) -> list[str]:
    """Return the names on a page that begins with the first of ``names``: at most so many.

    ``left``: how many there are in all from there on. Apache's clients take a page for the last that leaves a single
    row, so a page that ends by its bytes does not leave one. ``size_of`` returns the bytes of a row.
    """
    page: list[str] = []
    size = 0
    for name in islice(names, most):
        page.append(name)
        size += size_of(name)
        if size >= PAGE_BYTES:
            return page + list(names) if len(page) == left - 1 else page
    return page
