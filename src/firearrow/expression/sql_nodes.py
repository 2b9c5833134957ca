"""The parts of a SQL92 expression: what Apache allows to be combined, and the closure that evaluates each. Pure.

Java tells by class what may stand where: a comparison or a constant TRUE, FALSE or NULL is a ``BooleanExpression``;
a number or a text is not; a property becomes one where a boolean is needed; the negation of a number is neither a
boolean nor a constant. `SqlKind` keeps these classes. Java: ``ComparisonExpression``, ``LogicExpression``,
``UnaryExpression``, ``ConstantExpression``.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from operator import ge, gt, le, lt
from typing import Final

from msgspec import Struct

from firearrow.expression.errors import BadExpression, NoValue
from firearrow.expression.java_values import Long, Value, as_type_of, compare, compare_doubles, double, truth
from firearrow.expression.program import MeteredProperties, Properties, Run
from firearrow.expression.steps import search_steps

MOST_DEPTH: Final = 100
"""The most levels of an expression: parentheses that hold something, NOT, minus, chained comparisons."""
MOST_STEPS: Final = 2000
"""The most steps of an evaluation."""
MOST_LISTED: Final = 1000
"""The most texts in an IN list."""

LEAST_LONG: Final = 1 << 63
LEAST_BIG: Final = 1 << 31

_ORDERS: Final[dict[str, Callable[[int, int], bool]]] = {">": gt, ">=": ge, "<": lt, "<=": le}


class SqlKind(Enum):
    """The kind of a part of an expression, as Java's class of the part tells it."""

    CONSTANT = "constant"
    BOOLEAN_CONSTANT = "boolean constant"
    PROPERTY = "property"
    BOOLEAN = "boolean"
    NEGATION = "negation"


class SqlNode(Struct, eq=False):
    """A part of an expression with its closure."""

    kind: SqlKind
    run: Run
    depth: int = 1
    steps: int = 1
    value: Value = None
    """The value of a constant."""
    name: str = ""
    """The name of a property."""
    operands: list[Run] | None = None
    """The operands of a chain of AND or OR, in order; the chain's closure reads this list."""
    is_and: bool = False

    @property
    def is_constant(self) -> bool:
        return self.kind is SqlKind.CONSTANT or self.kind is SqlKind.BOOLEAN_CONSTANT


def _node(kind: SqlKind, run: Run, *parts: SqlNode) -> SqlNode:
    depth, steps = 1 + max(part.depth for part in parts), 1 + sum(part.steps for part in parts)
    if depth > MOST_DEPTH:
        raise BadExpression(f"the expression has more than {MOST_DEPTH} levels: write it with fewer")
    if steps > MOST_STEPS:
        raise BadExpression(f"the expression needs more than {MOST_STEPS} steps: write a shorter one")
    return SqlNode(kind, run, depth, steps)


# ---- leaves


def constant(value: Value) -> SqlNode:
    """Return a constant: a text, a number, TRUE, FALSE or NULL."""
    kind = SqlKind.BOOLEAN_CONSTANT if value is None or isinstance(value, bool) else SqlKind.CONSTANT
    return SqlNode(kind, lambda _properties: value, value=value)


def whole_number(image: str) -> SqlNode:
    """Return the constant of a literal like ``12`` or ``12L``; numbers beyond 32 bits are ``Long``."""
    digits = image.rstrip("lL")
    if len(digits) > 19 or int(digits) >= LEAST_LONG:
        raise BadExpression(f"{image:.40} does not fit into 64 bits; the greatest number is 9223372036854775807")
    number = int(digits)
    return constant(Long(number) if number >= LEAST_BIG else number)


def float_number(image: str) -> SqlNode:
    """Return the constant of a literal like ``1.5``. Apache refuses 0.0 and everything below the least double."""
    number = float(image)
    if not 0.0 < number < float("inf"):
        raise BadExpression(
            f"{image:.40} is not a positive double; write 0 for zero, and else numbers between 4.9E-324 and 1.79E308"
        )
    return constant(number)


def prop(name: str) -> SqlNode:
    """Return a property by its name."""
    return SqlNode(SqlKind.PROPERTY, lambda properties: properties.get(name), name=name)


def _untouched(node: SqlNode) -> Run:
    """Return the closure of a part whose value is not read to its end: a property then costs nothing by its length."""
    if node.kind is not SqlKind.PROPERTY:
        return node.run
    name = node.name
    return lambda properties: properties[name] if name in properties else None  # noqa: SIM401 - get() costs steps


# ---- logic


def as_boolean(node: SqlNode) -> SqlNode:
    """Return a part where a boolean is needed; a property counts as false there when it is set, else as null."""
    if node.kind is SqlKind.PROPERTY:
        name = node.name
        cast = SqlNode(SqlKind.BOOLEAN, lambda properties: False if name in properties else None)
        cast.steps, cast.depth = node.steps, node.depth
        return cast
    if node.kind is SqlKind.BOOLEAN or node.kind is SqlKind.BOOLEAN_CONSTANT:
        return node
    raise BadExpression("a number or a text stands where a condition is needed; compare it with something")


def both(left: SqlNode, right: SqlNode) -> SqlNode:
    """Return ``left AND right``."""
    return _chain(as_boolean(left), as_boolean(right), is_and=True)


def either(left: SqlNode, right: SqlNode) -> SqlNode:
    """Return ``left OR right``."""
    return _chain(as_boolean(left), as_boolean(right), is_and=False)


def _chain(left: SqlNode, right: SqlNode, *, is_and: bool) -> SqlNode:
    """Join two parts; a long chain is one closure with many operands, so that its depth does not grow."""
    if left.operands is not None and left.is_and is is_and:
        node = _node(SqlKind.BOOLEAN, left.run, right)
        node.depth = max(node.depth, left.depth)
        node.steps += left.steps
        if node.steps > MOST_STEPS:
            raise BadExpression(f"the expression needs more than {MOST_STEPS} steps: write a shorter one")
        operands = left.operands
        operands.append(right.run)
    else:
        operands = [left.run, right.run]
        node = _node(SqlKind.BOOLEAN, _until(operands, decides=not is_and), left, right)
    node.operands, node.is_and = operands, is_and
    return node


def _until(operands: Sequence[Run], *, decides: bool) -> Run:
    """Evaluate operands up to one whose value decides: False for AND, True for OR."""

    def run(properties: Properties) -> Value:
        result: Value = not decides
        for operand in operands:
            value = operand(properties)
            if value is decides:
                return decides
            if value is None:
                result = None
        return result

    return run


def negated(node: SqlNode) -> SqlNode:
    """Return ``NOT node``."""
    return _not(as_boolean(node))


def _not(node: SqlNode) -> SqlNode:
    inner = node.run

    def run(properties: Properties) -> Value:
        value = inner(properties)
        return None if value is None else not value

    return _node(SqlKind.BOOLEAN, run, node)


def minus(node: SqlNode) -> SqlNode:
    """Return ``- node``: the negative of a number, null for everything else."""
    inner = node.run

    def run(properties: Properties) -> Value:
        value = inner(properties)
        if value is None or isinstance(value, (str, bool)):
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return _node(SqlKind.NEGATION, run, node)


# ---- equality


def equal(left: SqlNode, right: SqlNode) -> SqlNode:
    """Return ``left = right``."""
    for node in (left, right):
        if node.is_constant and node.value is None:
            raise BadExpression("NULL cannot be compared with = or <>; write IS NULL or IS NOT NULL")
    if left.kind is SqlKind.BOOLEAN_CONSTANT and right.kind is SqlKind.CONSTANT:
        raise BadExpression("TRUE or FALSE cannot be compared with a number or a text")
    return _equal(left, right)


def unequal(left: SqlNode, right: SqlNode) -> SqlNode:
    """Return ``left <> right``."""
    return _not(equal(left, right))


def is_null(node: SqlNode) -> SqlNode:
    """Return ``node IS NULL``."""
    inner = _untouched(node)

    def run(properties: Properties) -> Value:
        return inner(properties) is None

    return _node(SqlKind.BOOLEAN, run, node)


def is_not_null(node: SqlNode) -> SqlNode:
    """Return ``node IS NOT NULL``."""
    return _not(is_null(node))


def _equal(left: SqlNode, right: SqlNode) -> SqlNode:
    run = _property_equals(left.name, right.value) if left.kind is SqlKind.PROPERTY and right.is_constant else None
    return _node(SqlKind.BOOLEAN, run or _values_equal(left.run, right.run), left, right)


def _values_equal(left: Run, right: Run) -> Run:
    def run(properties: Properties) -> Value:
        one, other = left(properties), right(properties)
        if one is None:
            return True if other is None else None
        if other is None:
            return False
        return compare(one, other) == 0

    return run


def _property_equals(name: str, value: Value) -> Run | None:
    """Return the closure for a property beside a text or a truth value; None for other constants."""
    if isinstance(value, str):

        def run(properties: Properties) -> Value:
            return properties[name] == value if name in properties else None

    elif isinstance(value, bool):

        def run(properties: Properties) -> Value:
            return truth(properties[name]) is value if name in properties else None

    else:
        return None
    return run


# ---- order


def ordered(left: SqlNode, symbol: str, right: SqlNode) -> SqlNode:
    """Return ``left > right``, or another order."""
    for node in (left, right):
        if node.kind is SqlKind.BOOLEAN:
            raise BadExpression(f"a condition cannot be compared with {symbol}")
        if node.is_constant and (isinstance(node.value, (str, bool)) or node.value is None):
            raise BadExpression(f"only numbers and properties can be compared with {symbol}")
    return _node(SqlKind.BOOLEAN, _order(left, symbol, right), left, right)


def _order(left: SqlNode, symbol: str, right: SqlNode) -> Run:
    holds = _ORDERS[symbol]
    if left.kind is SqlKind.PROPERTY and right.kind is SqlKind.CONSTANT:
        return _property_order(left.name, holds, right.value)
    one, other = left.run, right.run

    def run(properties: Properties) -> Value:
        first = one(properties)
        if first is None:
            return None
        second = other(properties)
        if second is None:
            return None
        if isinstance(first, str) and isinstance(second, str):
            return holds(compare_doubles(double(first), double(second)), 0)
        return holds(compare(first, second), 0)

    return run


def _property_order(name: str, holds: Callable[[int, int], bool], value: Value) -> Run:
    if isinstance(value, (str, bool)) or value is None:
        raise NoValue("only numbers have an order")
    number = value

    def run(properties: Properties) -> Value:
        text = properties.get(name)
        if text is None:
            return None
        return holds(compare(as_type_of(text, number), number), 0)

    return run


def between(value: SqlNode, low: SqlNode, high: SqlNode) -> SqlNode:
    """Return ``value BETWEEN low AND high``."""
    if low.is_constant and high.is_constant:
        _check_bounds(low.value, high.value)
    return both(ordered(value, ">=", low), ordered(value, "<=", high))


def _check_bounds(low: Value, high: Value) -> None:
    if low is None or high is None:
        raise BadExpression("the bounds of BETWEEN cannot be NULL")
    try:
        if compare(high, low) < 0:
            raise BadExpression(f"the bounds of BETWEEN must be in order: {low} is greater than {high}")
    except NoValue as error:
        raise BadExpression(f"the bounds of BETWEEN cannot be compared: {error}") from error


def not_between(value: SqlNode, low: SqlNode, high: SqlNode) -> SqlNode:
    """Return ``value NOT BETWEEN low AND high``."""
    return either(ordered(value, "<", low), ordered(value, ">", high))


# ---- texts


def listed(node: SqlNode, texts: Sequence[str], *, inside: bool) -> SqlNode:
    """Return ``node IN (...)``, or NOT IN."""
    if node.kind is not SqlKind.PROPERTY:
        raise BadExpression("IN needs the name of a property on its left")
    if len(texts) > MOST_LISTED:
        raise BadExpression(f"an IN list has at most {MOST_LISTED} texts; this one has {len(texts)}")
    name, wanted = node.name, frozenset(texts)

    def run(properties: Properties) -> Value:
        return (properties[name] in wanted) is inside if name in properties else None

    return _node(SqlKind.BOOLEAN, run, node)


def searched(node: SqlNode, how: str, text: str, *, wanted: bool) -> SqlNode:
    """Return ``node CONTAINS text``, STARTSWITH or ENDSWITH, or NOT of one of them. An empty text is never found."""
    inner, find, is_whole = _untouched(node), _SEARCHES[how], how == "CONTAINS"

    def run(properties: Properties) -> Value:
        if not text:
            return False
        value = inner(properties)
        if not isinstance(value, str):
            return False
        if is_whole and isinstance(properties, MeteredProperties):
            properties.charge(search_steps(len(value), len(text)))
        return find(value, text) is wanted

    return _node(SqlKind.BOOLEAN, run, node)


_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
