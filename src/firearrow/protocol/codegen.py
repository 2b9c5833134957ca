"""The one place that turns generated source into a function.

Header codecs are generated from the fields of their structs, as ``dataclasses`` does it, because a loop over a
description of the fields costs three times as much per request. The source is built from attribute names, wire names
and types that this package declares; nothing that a peer sends ever becomes part of it.
"""

from collections.abc import Callable, Mapping
from typing import Any


def compile_function(source: str, names: Mapping[str, object]) -> Callable[..., Any]:
    """Compile source that defines one function and return it; ``names`` are its globals."""
    scope: dict[str, Any] = dict(names)
    before = set(scope)
    exec(compile(source, "<generated header codec>", "exec"), scope)  # noqa: S102 - source made from our declarations
    (name,) = scope.keys() - before - {"__builtins__"}
    function: Callable[..., Any] = scope[name]
    return function
