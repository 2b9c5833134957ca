"""Classes are nouns, and a class name stands once.

A participle (``Parked``, ``Owed``, ``Seen``, ``Waiting``) says what happened to a thing, and not which thing it is:
``ParkedPull`` does. Exceptions are named for the fact that they report, and events of the protocol for what arrived.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

SOURCE: Final = Path(__file__).parents[2] / "src"
NOUNS: Final = frozenset((
    "Encoding", "Ending", "Feed", "Finding", "Greeting", "Heading", "Mapping", "Need", "Opening", "Processing",
    "Setting", "Shedding", "Wiring",
))  # fmt: skip
"""Words that end like a participle and are nouns."""
STRONG: Final = frozenset((
    "About", "Ahead", "Asleep", "Bad", "Broken", "Chosen", "Done", "Drawn", "Due", "Empty",
    "Fails", "Found", "Frozen", "Given", "Gone", "Grown", "Held", "Hidden", "Kept", "Known",
    "Left", "Lost", "Made", "Met", "Own", "Quiet", "Refuses", "Seen", "Sent", "Shown",
    "Slow", "Spent", "Taken", "Told", "Unread", "Unsent", "Woken", "Written", "Wrong", "Young",
))  # fmt: skip
"""Participles without the ending, and other words that are no nouns."""
EVENTS: Final = frozenset(("AnswerArrived", "RequestArrived", "RequestDeclined", "SendsArrived", "StreamBroken"))
WIRE: Final = ("firearrow.protocol.requests.", "firearrow.protocol.bodies.")
"""Conversations and bodies have the names that RocketMQ gave them."""
TWINS: Final = ("firearrow.blocking.", "firearrow.testing.blocking")
"""Classes that have the name of their asynchronous twins."""
FOUND_BY_NAME: Final = frozenset(("DefaultSource",))
"""Classes that Spark looks for, one in each of its modules."""


class Definition(NamedTuple):
    """A class of the product."""

    module: str
    name: str
    bases: tuple[str, ...]


def definitions_of(module: str, text: str) -> Iterator[Definition]:
    """The classes of a module, nested ones included."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            yield Definition(module, node.name, tuple(ast.unparse(base).partition("[")[0] for base in node.bases))


def definitions() -> list[Definition]:
    """The classes of the product."""
    found: list[Definition] = []
    for path in sorted(SOURCE.rglob("*.py")):
        found += definitions_of(".".join(path.relative_to(SOURCE).with_suffix("").parts), path.read_text())
    return found


def errors_of(classes: list[Definition]) -> set[str]:
    """The names of exceptions, at whatever depth."""
    errors = {"Exception", "BaseException", "KeyboardInterrupt", "ValueError", "AssertionError", "RuntimeError"}
    while more := {each.name for each in classes if not errors.isdisjoint(each.bases)} - errors:
        errors |= more
    return errors


def is_participle(name: str) -> bool:
    """Whether the last word of a name, which says what the thing is, is no noun."""
    words = re.findall(r"[A-Z][a-z0-9]*", name)
    last = words[-1] if words else name
    return last not in NOUNS and (last in STRONG or last.endswith(("ed", "ing")))


def participles(classes: list[Definition]) -> list[str]:
    """The classes that are called by a participle."""
    errors = errors_of(classes)
    return [
        f"{each.module}.{each.name}"
        for each in classes
        if is_participle(each.name) and each.name not in errors | EVENTS and not each.module.startswith(WIRE)
    ]


def doubles(classes: list[Definition]) -> dict[str, list[str]]:
    """The names that several classes have, with their modules."""
    modules = defaultdict(list)
    for each in classes:
        if not each.module.startswith(TWINS) and each.name not in FOUND_BY_NAME:
            modules[each.name].append(each.module)
    return {name: places for name, places in modules.items() if len(places) > 1}


def test_a_class_is_a_noun() -> None:
    assert participles(definitions()) == [], "name the thing: ParkedPull, not Parked"


def test_a_class_name_stands_once() -> None:
    assert doubles(definitions()) == {}, "say which: LogTail and DurableLog, not Log twice"


@pytest.mark.parametrize("name", ["Parked", "Given", "QueueSeen", "_Kept", "Waiting", "SegmentAhead", "Done", "Empty"])
def test_a_participle_is_found(name: str) -> None:
    assert participles(list(definitions_of("m", f"class {name}:\n    pass"))) == [f"m.{name}"]


@pytest.mark.parametrize(
    "text",
    [
        "class ParkedPull:\n    pass",
        "class Heading:\n    pass",
        "class ConnectionLost(Exception):\n    pass",
        "class FireArrowError(Exception):\n    pass\nclass LockHeld(FireArrowError):\n    pass",
    ],
)
def test_a_noun_and_an_error_are_none(text: str) -> None:
    assert participles(list(definitions_of("m", text))) == []


def test_a_name_of_two_classes_is_found() -> None:
    classes = [*definitions_of("a", "class Log:\n    pass"), *definitions_of("b", "class Log:\n    pass")]
    assert doubles(classes) == {"Log": ["a", "b"]}
    twins = [Definition("firearrow.client.producer", "P", ()), Definition("firearrow.blocking.producer", "P", ())]
    assert doubles(twins) == {}
