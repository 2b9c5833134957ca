"""From a syntax tree to closures. Pure; nothing is evaluated as Python.

A closure takes the meter of an evaluation and returns a value, or raises `NoValue`. Beside it stands its cost in steps,
without what macros and long values add while it runs.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from firearrow.expression.cel import nodes
from firearrow.expression.cel.functions import FUNCTIONS, METHODS
from firearrow.expression.cel.meter import ITEMS_A_STEP, CostMeter
from firearrow.expression.cel.operators import OPERATORS, has_field, keys_of, no_overload, selected
from firearrow.expression.cel.patterns import MOST_PATTERNS, Pattern
from firearrow.expression.cel.values import TypeValue, Value, new_key
from firearrow.expression.errors import BadExpression, NoValue

Run = Callable[[CostMeter], Value]
"""Evaluates a part of an expression."""
Part = tuple[Run, int]
"""A closure and its cost in steps."""
_TYPE_NAMES: Final = {kind.value: kind for kind in TypeValue}
_ONE, _TWO = 1, 2


class Closures:
    """Turns syntax trees into closures, for one set of variables."""

    def __init__(self, variables: Mapping[str, Run]) -> None:
        self._variables = variables
        self._scope: list[str] = []
        self._patterns = 0
        self.names: set[str] = set()
        """The variables that are used."""
        self.slots = 0
        """The most macros that run inside one another."""

    def part(self, node: nodes.CelNode) -> Part:
        """Return the closure of a node and its cost."""
        return _BUILDERS[type(node)](self, node)

    def parts(self, given: Collection[nodes.CelNode]) -> tuple[tuple[Run, ...], int]:
        """Return the closures of several nodes, and what they cost together."""
        built = [self.part(node) for node in given]
        return tuple(run for run, _ in built), sum(cost for _, cost in built)

    # -- values and names

    def literal(self, node: nodes.Literal) -> Part:
        """A value that stands in the text."""
        value = node.value
        return lambda _meter: value, 1

    def name(self, node: nodes.Name) -> Part:
        """The variable of a macro, a variable of the message, or a type."""
        name = node.name
        if name in self._scope and not node.is_absolute:
            slot = len(self._scope) - 1 - self._scope[::-1].index(name)
            return lambda meter: meter.slots[slot], 1
        reader = self._variables.get(name)
        if reader is not None:
            self.names.add(name)
            return reader, 1
        if name in _TYPE_NAMES:
            kind = _TYPE_NAMES[name]
            return lambda _meter: kind, 1
        raise BadExpression(
            f"{name!r} at character {node.at + 1} is not a variable; there are {', '.join(sorted(self._variables))}"
        )

    def list_of(self, node: nodes.ListNode) -> Part:
        """``[a, b]``."""
        runs, cost = self.parts(node.items)
        return lambda meter: [run(meter) for run in runs], 1 + cost

    def map_of(self, node: nodes.MapNode) -> Part:
        """``{a: b}``."""
        keys, key_cost = self.parts([key for key, _ in node.entries])
        values, value_cost = self.parts([value for _, value in node.entries])
        entries = tuple(zip(keys, values, strict=True))

        def run(meter: CostMeter) -> Value:
            made: dict[Any, Value] = {}
            for key_run, value_run in entries:
                key = new_key(key_run(meter))
                if key in made:
                    raise NoValue("a map has the same key twice")
                made[key] = value_run(meter)
            return made

        return run, 1 + key_cost + value_cost

    # -- fields and functions

    def select(self, node: nodes.Select) -> Part:
        """``operand.field``."""
        operand, cost = self.part(node.operand)
        field = node.field
        return lambda meter: selected(operand(meter), field), 1 + cost

    def has(self, node: nodes.FieldTest) -> Part:
        """``has(operand.field)``."""
        operand, cost = self.part(node.operand)
        field = node.field
        return lambda meter: has_field(operand(meter), field), 1 + cost

    def call(self, node: nodes.FunctionCall) -> Part:
        """A function, a method or an operator."""
        if node.name == "matches" and len(node.arguments) == _TWO:
            return self._matches(node)
        function = OPERATORS.get(node.name) if not node.is_method else None
        if function is None:
            function = self._function(node)
        runs, cost = self.parts(node.arguments)
        if len(runs) == _ONE:
            (only,) = runs
            return lambda meter: function(meter, only(meter)), 1 + cost
        if len(runs) == _TWO:
            first, second = runs
            return lambda meter: function(meter, first(meter), second(meter)), 1 + cost
        return lambda meter: function(meter, *(run(meter) for run in runs)), 1 + cost

    def _function(self, node: nodes.FunctionCall) -> Callable[..., Value]:
        known = METHODS if node.is_method else FUNCTIONS
        count = len(node.arguments)
        function = known.get((node.name, count))
        what = "method" if node.is_method else "function"
        if function is None and any(name == node.name for name, _ in known):
            raise BadExpression(f"{what} {node.name} at character {node.at + 1} has a wrong number of arguments")
        if function is None:
            offered = ", ".join(sorted({"matches", *(name for name, _ in known)}))
            raise BadExpression(f"{what} {node.name!r} at character {node.at + 1} is not offered; there are {offered}")
        return function

    def _matches(self, node: nodes.FunctionCall) -> Part:
        """``text.matches(pattern)``."""
        pattern = node.arguments[1]
        if not isinstance(pattern, nodes.Literal) or type(pattern.value) is not str:
            raise BadExpression(
                f"matches at character {node.at + 1} takes a pattern that stands in the expression, as in "
                "tag.matches('^new-[0-9]+$')"
            )
        self._patterns += 1
        if self._patterns > MOST_PATTERNS:
            raise BadExpression(f"the expression has more than {MOST_PATTERNS} patterns, which is the most")
        compiled = Pattern(pattern.value)
        text, cost = self.part(node.arguments[0])
        return lambda meter: compiled.is_in(meter, text(meter)), 1 + cost

    # -- decisions

    def logic(self, node: nodes.Logic) -> Part:
        """``&&`` and ``||``: a value that decides makes up for an error, on either side."""
        runs, cost = self.parts(node.operands)
        decisive = not node.is_and
        name = "&&" if node.is_and else "||"

        def run(meter: CostMeter) -> Value:
            error: NoValue | None = None
            for operand in runs:
                try:
                    value = operand(meter)
                    if type(value) is not bool:
                        raise no_overload(name, value)
                except NoValue as wrong:
                    error = error or wrong
                else:
                    if value is decisive:
                        return decisive
            if error is not None:
                raise error
            return not decisive

        return run, 1 + cost

    def choice(self, node: nodes.Conditional) -> Part:
        """``condition ? yes : no``."""
        condition, condition_cost = self.part(node.condition)
        yes, yes_cost = self.part(node.yes)
        no, no_cost = self.part(node.no)

        def run(meter: CostMeter) -> Value:
            value = condition(meter)
            if type(value) is not bool:
                raise no_overload("?:", value)
            return yes(meter) if value else no(meter)

        return run, 1 + condition_cost + max(yes_cost, no_cost)

    # -- macros

    def macro(self, node: nodes.Macro) -> Part:
        """``all``, ``exists``, ``exists_one``, ``filter`` and ``map``."""
        container, cost = self.part(node.range)
        slot = len(self._scope)
        self._scope.append(node.variable)
        self.slots = max(self.slots, len(self._scope))
        bodies = [self.part(body) for body in (node.predicate, node.result) if body is not None]
        self._scope.pop()
        round_cost = 1 + sum(body_cost for _, body_cost in bodies)
        predicate = bodies[0][0] if node.predicate is not None else None
        result = bodies[-1][0] if node.result is not None else None
        return partial(_LOOPS[node.name], container, slot, round_cost, predicate, result), 1 + cost


def _holds(run: Run, meter: CostMeter, name: str) -> bool:
    value = run(meter)
    if type(value) is not bool:
        raise no_overload(name, value)
    return value


def _items(container: Run, meter: CostMeter) -> list[Value]:
    items = keys_of(container(meter))
    meter.charge(len(items) // ITEMS_A_STEP)
    return items


def _quantified(
    decisive: bool,
    name: str,
    container: Run,
    slot: int,
    cost: int,
    predicate: Run,
    _result: Run | None,
    meter: CostMeter,
) -> bool:
    """``all`` and ``exists``: an item that decides makes up for the errors of others."""
    error: NoValue | None = None
    for item in _items(container, meter):
        meter.charge(cost)
        meter.slots[slot] = item
        try:
            if _holds(predicate, meter, name) is decisive:
                return decisive
        except NoValue as wrong:
            error = error or wrong
    if error is not None:
        raise error
    return not decisive


def _exists_one(container: Run, slot: int, cost: int, predicate: Run, _result: Run | None, meter: CostMeter) -> bool:
    found = 0
    for item in _items(container, meter):
        meter.charge(cost)
        meter.slots[slot] = item
        found += _holds(predicate, meter, "exists_one")
    return found == 1


def _filter(container: Run, slot: int, cost: int, predicate: Run, _result: Run | None, meter: CostMeter) -> Value:
    kept: list[Value] = []
    for item in _items(container, meter):
        meter.charge(cost)
        meter.slots[slot] = item
        if _holds(predicate, meter, "filter"):
            kept.append(item)
    return kept


def _map(container: Run, slot: int, cost: int, predicate: Run | None, result: Run, meter: CostMeter) -> Value:
    made: list[Value] = []
    for item in _items(container, meter):
        meter.charge(cost)
        meter.slots[slot] = item
        if predicate is None or _holds(predicate, meter, "map"):
            made.append(result(meter))
    return made


_LOOPS: Final[dict[str, Callable[..., Value]]] = {
    "all": partial(_quantified, False, "all"),
    "exists": partial(_quantified, True, "exists"),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
}
_BUILDERS: Final[dict[type, Callable[[Closures, Any], Part]]] = {
    nodes.Literal: Closures.literal,
    nodes.Name: Closures.name,
    nodes.ListNode: Closures.list_of,
    nodes.MapNode: Closures.map_of,
    nodes.Select: Closures.select,
    nodes.FieldTest: Closures.has,
    nodes.FunctionCall: Closures.call,
    nodes.Logic: Closures.logic,
    nodes.Conditional: Closures.choice,
    nodes.Macro: Closures.macro,
}
