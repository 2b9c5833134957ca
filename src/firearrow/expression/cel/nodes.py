"""The syntax tree of a CEL expression. Pure. ``levels`` is the height of a node's tree, which is bounded."""

from msgspec import Struct

from firearrow.expression.cel.values import Value


class Node(Struct, frozen=True, kw_only=True):
    """A part of an expression; ``at`` is the position of its first character that says what it is."""

    at: int
    levels: int = 1


class Literal(Node, frozen=True, kw_only=True):
    """A value that stands in the text."""

    value: Value


class Name(Node, frozen=True, kw_only=True):
    """A variable or a type. A name with a dot before it is never the variable of a macro."""

    name: str
    is_absolute: bool = False


class ListOf(Node, frozen=True, kw_only=True):
    """``[a, b]``."""

    items: tuple[Node, ...]


class MapOf(Node, frozen=True, kw_only=True):
    """``{a: b}``."""

    entries: tuple[tuple[Node, Node], ...]


class Select(Node, frozen=True, kw_only=True):
    """``operand.field``."""

    operand: Node
    field: str


class Has(Node, frozen=True, kw_only=True):
    """``has(operand.field)``."""

    operand: Node
    field: str


class Call(Node, frozen=True, kw_only=True):
    """``name(arguments)``, ``target.name(arguments)`` or an operator."""

    name: str
    arguments: tuple[Node, ...]
    is_method: bool = False


class Logic(Node, frozen=True, kw_only=True):
    """``a && b && c``, or the same with ``||``."""

    is_and: bool
    operands: tuple[Node, ...]


class Choice(Node, frozen=True, kw_only=True):
    """``condition ? yes : no``."""

    condition: Node
    yes: Node
    no: Node


class Macro(Node, frozen=True, kw_only=True):
    """``range.name(variable, predicate)``; ``map`` may have a predicate and a result."""

    name: str
    range: Node
    variable: str
    predicate: Node | None
    result: Node | None = None
