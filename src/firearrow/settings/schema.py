"""A tree of configuration structs, flattened to its leaves."""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from firearrow.errors import BrokenInvariant

Kind = type[msgspec.Struct]


class Leaf(msgspec.Struct, frozen=True):
    """One setting: its path, its names, its type and bounds."""

    path: tuple[str, ...]
    apache_name: str
    annotation: Any
    default: Any

    @property
    def name(self) -> str:
        """Python's name, the last step of the path."""
        return self.path[-1]

    @property
    def help(self) -> str:
        """The help text of the annotation."""
        return next((m.description for m in _metas(self.annotation) if m.description), "")

    @property
    def bounds(self) -> str:
        """The limits of the annotation, in words."""
        said = []
        for meta in _metas(self.annotation):
            said += [f"{sign} {limit}" for sign, limit in _limits(meta) if limit is not None]
        return ", ".join(said)


@cache
def leaves(kind: Kind, path: tuple[str, ...] = ()) -> tuple[Leaf, ...]:
    """Return every leaf below ``kind``, in the order of declaration; worked out once for a kind."""
    return tuple(_leaves(kind, path))


def _leaves(kind: Kind, path: tuple[str, ...]) -> Iterator[Leaf]:
    hints = get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        here = (*path, field.name)
        if nested := _struct_in(hints[field.name]):
            yield from leaves(nested, here)
        else:
            yield Leaf(here, field.encode_name, hints[field.name], _default(kind, field))


def build(kind: Kind, values: dict[tuple[str, ...], Any], path: tuple[str, ...] = ()) -> msgspec.Struct:
    """Make a ``kind`` out of leaf values; absent ones keep their defaults."""
    hints = get_type_hints(kind)
    arguments = {}
    for field in msgspec.structs.fields(kind):
        here = (*path, field.name)
        if nested := _struct_in(hints[field.name]):
            arguments[field.name] = build(nested, values, here)
        elif here in values:
            arguments[field.name] = values[here]
    return kind(**arguments)


def _struct_in(annotation: Any) -> Kind | None:
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None


def _default(kind: Kind, field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    raise BrokenInvariant(f"{kind.__name__}.{field.name} has no default: every setting needs one")


def _metas(annotation: Any) -> list[msgspec.Meta]:
    return [extra for extra in get_args(annotation)[1:] if isinstance(extra, msgspec.Meta)]


_SIGNS: Final = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


def _limits(meta: msgspec.Meta) -> list[tuple[str, Any]]:
    return [(sign, getattr(meta, name)) for name, sign in _SIGNS.items()]
