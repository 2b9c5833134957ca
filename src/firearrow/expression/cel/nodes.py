"""The syntax tree of a CEL expression. Pure. ``levels`` is the height of a node's tree, which is bounded."""

from msgspec import Struct

from firearrow.expression.cel.values import Value


class CelNode(Struct, frozen=True, kw_only=True):
    """A part of an expression; ``at`` is the position of its first character that says what it is."""

    at: int
    levels: int = 1


class Literal(CelNode, frozen=True, kw_only=True):
    """A value that stands in the text."""

    value: Value


class Name(CelNode, frozen=True, kw_only=True):
    """A variable or a type. A name with a dot before it is never the variable of a macro."""

    name: str
    is_absolute: bool = False


class ListNode(CelNode, frozen=True, kw_only=True):
    """``[a, b]``."""

    items: tuple[CelNode, ...]


class MapNode(CelNode, frozen=True, kw_only=True):
    """``{a: b}``."""

    entries: tuple[tuple[CelNode, CelNode], ...]


class Select(CelNode, frozen=True, kw_only=True):
    """``operand.field``."""

    operand: CelNode
    field: str


class FieldTest(CelNode, frozen=True, kw_only=True):
    """``has(operand.field)``."""

    operand: CelNode
    field: str


class FunctionCall(CelNode, frozen=True, kw_only=True):
    """``name(arguments)``, ``target.name(arguments)`` or an operator."""

    name: str
    arguments: tuple[CelNode, ...]
    is_method: bool = False


class Logic(CelNode, frozen=True, kw_only=True):
    """``a && b && c``, or the same with ``||``."""

    is_and: bool
    operands: tuple[CelNode, ...]


class Conditional(CelNode, frozen=True, kw_only=True):
    """``condition ? yes : no``."""

    condition: CelNode
    yes: CelNode
    no: CelNode


class Macro(CelNode, frozen=True, kw_only=True):
    """``range.name(variable, predicate)``; ``map`` may have a predicate and a result."""

    name: str
    range: CelNode
    variable: str
    predicate: CelNode | None
    result: CelNode | None = None
