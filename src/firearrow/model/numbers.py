"""Numbers in texts that anyone may have written, such as properties of messages. Pure.

``str.isdigit`` is true for texts that ``int`` refuses, such as a superscript two, and ``int`` raises for a text of
thousands of digits. A reader of stored messages that raises stops for good, so such texts are not numbers here.
"""

from typing import Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_LONG_DIGITS: Final = 19


def whole_number(text: str | None, most: int = LONG_MAX) -> int | None:
    """Return the number from 0 to ``most`` in a text of ASCII digits; None for any other text."""
    if not text or len(text) > _LONG_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number <= most else None
