"""The place of a message, and a file of such places: the promises of a writer before it died.

A line is ``number physical queue_offset``, in digits.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Place(NamedTuple):
    """The place of a message."""

    physical: int
    queue_offset: int


def lines_of(places: Iterable[tuple[int, Place]]) -> str:
    """Places as text."""
    return "".join(f"{number} {place.physical} {place.queue_offset}\n" for number, place in places)


def parse_places(text: str) -> dict[int, Place]:
    """Places from text; a last line that was cut off does not count."""
    places = {}
    for line in text.split("\n")[:-1]:
        number, physical, queue_offset = map(int, line.split())
        places[number] = Place(physical, queue_offset)
    return places
