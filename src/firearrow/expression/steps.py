"""The cost of an operation on a long text, in steps: the same for SQL92 and CEL, and on every machine. Pure."""

from typing import Final

CHARACTERS_A_STEP: Final = 64
"""Characters of texts, or bytes, that one step reads or copies."""
COMPARISONS_A_STEP: Final = 4096
"""Comparisons of characters that one step of a search makes."""
_LONG_TEXT: Final = 30_000
_LONG_PART: Final = 100
_SHORT_TEXT: Final = 2500


def search_steps(text: int, part: int) -> int:
    """Return the steps of a search for a part in a text, by their lengths.

    Python searches short texts, and longer ones for short parts, with up to one comparison for every character of the
    text and of the part; the rest in one pass. Python: ``stringlib/fastsearch.h``.
    """
    steps = (text + part) // CHARACTERS_A_STEP
    if text < _SHORT_TEXT or (part < _LONG_PART and text < _LONG_TEXT):
        steps += text * part // COMPARISONS_A_STEP
    return steps
