"""Hypothesis strategies for commands: arbitrary header structs, arbitrary requests, arbitrary chops of a stream.

``fields_of(T)`` makes values of any header struct from its type, so new conversations are tested without a change here.
Texts are limited to what both header encodings carry: no lone surrogates, and not empty where the compact encoding
would drop them.
"""

from enum import Enum
from typing import Any, TypeVar

from hypothesis import strategies as st

from firearrow.protocol.command import Encoding
from firearrow.protocol.conversation import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, Fields, Request
from firearrow.protocol.layout import FieldLayout, layout

F = TypeVar("F", bound=Fields)

encodings = st.sampled_from(Encoding)
opaques = st.integers(INT32_MIN, INT32_MAX)
_EDGES_32 = [INT32_MIN, -1, 0, 1, 9, 10, 999, 1000, INT32_MAX]
_EDGES_64 = [*_EDGES_32, INT64_MIN, INT64_MAX]
texts = st.one_of(
    st.text(min_size=1, max_size=20),
    st.sampled_from(
        ["T", '"', "\\", "a\x01b\x02", "%d%b", "\x00", "中文", "\U0001f525", "x" * 255, "x" * 256, "x" * 70_000]
    ),
)


def fields_of(kind: type[F]) -> st.SearchStrategy[F]:
    """Values of a header struct."""
    return st.builds(kind, **{field.name: _values(field) for field in layout(kind)})


def requests_of(kinds: list[type[Request[Any]]]) -> st.SearchStrategy[Request[Any]]:
    """Requests of any of these types."""
    return st.sampled_from(kinds).flatmap(fields_of)


def _values(field: FieldLayout) -> st.SearchStrategy[Any]:
    present = _present(field)
    # None where something else is the default has no form on the wire: absent means the default.
    return st.none() | present if field.default is None else present


def _present(field: FieldLayout) -> st.SearchStrategy[Any]:
    if issubclass(field.kind, Enum):
        return st.sampled_from(list(field.kind))
    if field.kind is bool:
        return st.booleans()
    if field.kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if field.kind is str:
        return texts
    if field.is_int32:
        return st.sampled_from(_EDGES_32) | st.integers(INT32_MIN, INT32_MAX)
    return st.sampled_from(_EDGES_64) | st.integers(INT64_MIN, INT64_MAX)


@st.composite
def chopped(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Return the bytes cut into arbitrary pieces, empty ones included."""
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=12).map(sorted))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
