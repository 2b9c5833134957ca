"""The public surface as text: every public name with its arguments, members and values.

    python -m tests.architecture.surface          writes surface.txt, after a change that is meant: make surface

What is not in there is private, whatever it is called.
"""

import enum
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec

FILE = Path(__file__).parent / "surface.txt"
MODULES = (
    "firearrow",
    "firearrow.client",
    "firearrow.blocking",
    "firearrow.admin",
    "firearrow.errors",
    "firearrow.serializers",
    "firearrow.testing",
    "firearrow.testing.blocking",
    "firearrow.testing.pytest_plugin",
)
OPTIONS = (
    ("firearrow.client.producer.settings", "ProducerOptions"),
    ("firearrow.client.consumer.settings", "ConsumerOptions"),
)
"""Keyword arguments that are spelled out elsewhere."""
OPENING = {"__aenter__", "__aexit__", "__aiter__", "__anext__", "__enter__", "__exit__", "__iter__", "__next__"}


def surface() -> str:
    """The whole of it."""
    lines: list[str] = []
    for name in MODULES:
        lines.append(f"{name}")
        lines += [f"    {line}" for line in _module(name)]
    for module, name in OPTIONS:
        lines.append(f"{module}.{name}")
        lines += [f"    {key}" for key in sorted(getattr(import_module(module), name).__annotations__)]
    return "\n".join(lines) + "\n"


def _module(name: str) -> Iterator[str]:
    module = import_module(name)
    names = getattr(module, "__all__", None) or [
        each for each, value in vars(module).items() if not each.startswith("_") and _is_from(value, name)
    ]
    for each in sorted(names):
        value = getattr(module, each)
        home = getattr(value, "__module__", name)
        if inspect.isclass(value) and home != name and name == "firearrow":
            yield f"{each} = {home}.{value.__qualname__}"
        else:
            yield from _thing(each, value)


def _is_from(value: object, module: str) -> bool:
    if type(value).__name__ == "FixtureFunctionDefinition":
        return True
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module


def _thing(name: str, value: object) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
        yield from (f"    {line}" for line in sorted(_members(value)))
    elif inspect.isfunction(value):
        yield f"def {name}({_arguments(value)})"
    else:
        yield name


def _members(kind: type) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        yield from (f"{member.name} = {member.value!r}" for member in kind)
        return
    if issubclass(kind, msgspec.Struct):
        yield from (f"{field.name}" for field in msgspec.structs.fields(kind))
    elif hasattr(kind, "_fields"):
        yield from kind._fields
    for name, value in _attributes(kind).items():
        if name.startswith("_") and name not in OPENING and name != "__init__":
            continue
        yield from _member(name, value)


def _attributes(kind: type) -> dict[str, object]:
    """The attributes of a class, with those of the consumers' common part, which has no name of its own here."""
    shared = [base for base in kind.__bases__ if base.__name__ == "GroupConsumer"]
    return {name: value for each in (*shared, kind) for name, value in vars(each).items()}


def _member(name: str, value: object) -> Iterator[str]:
    if isinstance(value, classmethod | staticmethod):
        yield f"{type(value).__name__} {name}({_arguments(value.__func__)})"
    elif isinstance(value, property):
        yield f"property {name}"
    elif inspect.isfunction(value):
        kind = "async def" if inspect.iscoroutinefunction(value) else "def"
        yield f"{kind} {name}({_arguments(value)})"
    elif isinstance(value, bool):
        yield f"{name} = {value}"


def _arguments(function: object) -> str:
    """Names, kinds and whether there is a default: annotations are mypy's to watch."""
    assert callable(function)
    parts, starred = [], False
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        prefix = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        default = "" if each.default is each.empty else f"={_shown(each.default)}"
        parts.append(f"{prefix}{each.name}{default}")
    return ", ".join(part for part in parts if part not in ("self", "cls"))


def _shown(default: object) -> str:
    return repr(default) if isinstance(default, str | int | float | tuple | None) else "..."


def main() -> None:
    """Write it down."""
    FILE.write_text(surface(), encoding="utf-8")
    sys.stdout.write(f"{FILE.name}: {len(surface().splitlines())} lines\n")


if __name__ == "__main__":
    main()
