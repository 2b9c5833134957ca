"""Hypothesis strategies for bodies, made from their own types, so that a body added tomorrow is under test already."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.bodies.admin.store import TimerCheckpoint
from firearrow.protocol.bodies.body import Body
from firearrow.protocol.bodies.group.offset import ResetOffsetBodyForC
from firearrow.protocol.requests import ALL

TEXTS = st.text(max_size=12) | st.sampled_from(["", "{", '{"', '"', "\\", "0", "true", "null", "中文", "\U0001f525"])
SEVERAL = 3


def json_bodies() -> list[Any]:
    """Every JSON body that a conversation names, in the order of the codes."""
    named = [body for kind in ALL for body in (kind.request_body, kind.answer_body)]
    other = {bytes, PropertiesText, TimerCheckpoint, None}
    return list(dict.fromkeys(body for body in [*named, ResetOffsetBodyForC] if body not in other))


def body_structs() -> list[type[Body]]:
    """Every struct that bodies are made of."""
    return sorted(Body.__subclasses__(), key=lambda kind: kind.__name__)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a body type."""
    return _values(inspect.type_info(kind))


def _values(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: _values(field.type) for field in fields})
        case inspect.UnionType(types=types):
            return st.one_of([_values(part) for part in types])
        case inspect.ListType(item_type=item):
            return st.lists(_values(item), max_size=SEVERAL)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values(key), _values(value), max_size=SEVERAL)
        case inspect.IntType(ge=least, le=most):
            return st.integers(least, most) if least is not None else st.integers(0, 100)
        case _:
            return _SCALARS[type(info)]


_SCALARS: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.StrType: TEXTS,
    inspect.BoolType: st.booleans(),
    inspect.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    inspect.BytesType: st.binary(max_size=9),
    inspect.NoneType: st.none(),
}


def members_in_order(kind: type[Body]) -> list[str]:
    """The wire names of a struct's members, as they are declared."""
    return [field.encode_name for field in msgspec.structs.fields(kind)]
