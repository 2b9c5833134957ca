"""A JSON body: a frozen struct with the members of Java's class.

Invariants, which agree with fastjson on Java's classes:

* names are camelCase on the wire, or the name in ``msgspec.field(name=...)``;
* a member that may be null defaults to ``None`` and is left out when it is null;
* every other member is always written, whatever its value: its default is given by ``always``;
* members are declared, and so written, in the alphabetical order of their wire names;
* unknown members are ignored, absent ones take Java's default.

A body is written as standard JSON, which every peer reads, except for a map keyed by queues. fastjson 1 (in 4.9) also
accepts a string with the queue's JSON as such a key, fastjson 2 (in 5.5) accepts only its own ``{{..}:..}``. Types
with such a map set ``keyed_by_queues``, and ``encode_body`` writes them in Java's form.

``msgspec`` leaves a member out when it equals a plain default, or an empty container made by the type itself.
``always`` gives the default by a function, which is neither, so the member is written.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import msgspec

from firearrow import fastjson

T = TypeVar("T")


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The typed content of a JSON body, or a part of one."""

    keyed_by_queues: ClassVar[bool] = False


def encode_body(body: Body) -> bytes:
    """Return the bytes of a body in the form that every peer reads."""
    return fastjson.encode_java(body) if body.keyed_by_queues else fastjson.encode(body)


def always(value: T) -> T:
    """A member that defaults to ``value`` (which must be immutable) and is written even then."""
    return msgspec.field(default_factory=lambda: value)


def fresh(make: Callable[[], T]) -> T:
    """A member that defaults to what ``make`` returns, a new one for each body, and is written even then."""

    def new() -> T:
        return make()

    return msgspec.field(default_factory=new)


def empty_list() -> list[Any]:
    """A member that defaults to an empty list and is written even then."""
    return fresh(list)


def empty_map() -> dict[Any, Any]:
    """A member that defaults to an empty map and is written even then."""
    return fresh(dict)
