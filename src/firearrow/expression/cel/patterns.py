"""Regular expressions of ``matches``: RE2's syntax and its linear time. Pure.

They need the package ``google-re2`` (extra ``server``); without it an expression with ``matches`` is refused. Python's
``re`` is no substitute, because a pattern can take it exponential time. A pattern stands in the expression as a text,
so it is compiled once; its size is bounded, and a match costs steps by the length of the text and the size of the
pattern.
"""

from typing import Any, Final

from firearrow.expression.cel.meter import CostMeter
from firearrow.expression.cel.operators import no_overload
from firearrow.expression.cel.values import Value
from firearrow.expression.errors import BadExpression, NoValue

MOST_PATTERNS: Final = 16
"""The most patterns of an expression."""
MOST_CHARACTERS: Final = 256
"""The most characters of a pattern."""
MOST_STATES: Final = 1000
"""The most states of a compiled pattern."""
_MEMORY: Final = 256 * 1024
_WORK_A_STEP: Final = 16
"""Characters times states of one step: RE2 takes at most about 85 ns for one of them."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise BadExpression(f"a pattern has {len(text)} characters; the most is {MOST_CHARACTERS}")
        self._compiled = _compiled(text)
        self._states: Final[int] = self._compiled.programsize
        if self._states > MOST_STATES:
            raise BadExpression(
                f"the pattern {text!r} is too large: it has {self._states} states, {MOST_STATES} at most"
            )

    def is_in(self, meter: CostMeter, text: Value) -> bool:
        """Whether a part of a text matches."""
        if type(text) is not str:
            raise no_overload("matches", text)
        meter.charge(len(text) * self._states // _WORK_A_STEP)
        try:
            return self._compiled.search(text) is not None
        except UnicodeEncodeError:
            raise NoValue("the text is not valid Unicode") from None


def _compiled(text: str) -> Any:  # noqa: ANN401 - a pattern of re2, which has no types
    try:
        import re2
    except ImportError:
        raise BadExpression(
            "matches needs the package google-re2, which is not installed; pip install 'firearrow[server]', or use "
            "contains, startsWith or endsWith"
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(text, options=options)
    except (re2.error, UnicodeEncodeError) as wrong:
        reason = wrong.args[0] if wrong.args else wrong
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise BadExpression(f"{text!r} is not a pattern of RE2: {said}") from None
