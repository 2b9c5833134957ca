"""What a JSON body is: a frozen struct whose members are Java's.

Invariants, all of them what fastjson does with Java's classes:

* names are camelCase on the wire, or what ``msgspec.field(name=...)`` says;
* a member that may be null defaults to ``None`` and is left out when it is null;
* every other member is always written, whatever its value: its default is given by ``always``;
* members are declared in the alphabetical order of their wire names, so that they leave in that order;
* unknown members are ignored, absent ones take Java's default.

A body leaves as standard JSON, which every peer reads, but for one thing: a map keyed by queues. fastjson 1 (in 4.9)
takes a string that contains the queue's JSON for such a key, fastjson 2 (in 5.5) takes nothing but its own
``{{..}:..}``. Types that contain such a map say ``keyed_by_queues``, and ``encode_body`` writes them in Java's form.

``msgspec`` leaves a member out when it is its plain default, or an empty container made by the type itself. ``always``
hands the default over from a function, which is neither, so the member stays.
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
