"""From the text of a CEL expression to its syntax tree. Pure; no backtracking, every token is looked at once.

Levels are bounded, those of brackets as well as those of the tree, so neither parsing nor evaluating exhausts the
stack. The grammar: ``cel-spec/doc/langdef.md``, Syntax. Messages (``Type{field: value}``) are not offered.
"""

from typing import Final, TypeVar

from firearrow.expression.cel.nodes import (
    CelNode,
    Conditional,
    FieldTest,
    FunctionCall,
    ListNode,
    Literal,
    Logic,
    Macro,
    MapNode,
    Name,
    Select,
)
from firearrow.expression.cel.tokens import RESERVED, Token, tokens_of
from firearrow.expression.cel.values import MAX_INT
from firearrow.expression.errors import BadExpression

MOST_LEVELS: Final = 64
"""The most levels of brackets, and of the syntax tree."""
MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
_RELATIONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!=", "in"})
_SUMS: Final = frozenset({"+", "-"})
_PRODUCTS: Final = frozenset({"*", "/", "%"})
_MAP_WITH_FILTER: Final = 3

N = TypeVar("N", bound=CelNode)


def parse(text: str) -> CelNode:
    """Return the syntax tree of an expression; raise `BadExpression` if it is not one."""
    return _Parser(tokens_of(text)).whole()


def _levels(at: int, *parts: CelNode) -> int:
    levels = 1 + max((part.levels for part in parts), default=0)
    if levels > MOST_LEVELS:
        raise BadExpression(
            f"the expression has more than {MOST_LEVELS} levels at character {at + 1}, which is the most"
        )
    return levels


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._brackets = 0

    @property
    def _now(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _takes(self, kind: str) -> bool:
        if self._tokens[self._next].kind != kind:
            return False
        self._next += 1
        return True

    def _expect(self, kind: str, what: str) -> Token:
        if self._now.kind != kind:
            raise self._wrong(f"{kind} {what}")
        return self._take()

    def _wrong(self, expected: str) -> BadExpression:
        now = self._now
        if now.kind == "{":
            return BadExpression("messages such as Type{field: value} are not offered; use a map: {'field': value}")
        found = "the end of the expression" if now.kind == "end" else f"{now.text[:40]!r} at character {now.at + 1}"
        return BadExpression(f"{found} stands where {expected} is expected")

    def whole(self) -> CelNode:
        """Read the whole expression."""
        node = self._expression()
        if self._now.kind != "end":
            raise self._wrong("an operator or the end")
        return node

    def _expression(self) -> CelNode:
        self._brackets += 1
        if self._brackets > MOST_LEVELS:
            raise BadExpression(f"character {self._now.at + 1} is inside more than {MOST_LEVELS} brackets or choices")
        node = self._either()
        if self._now.kind == "?":
            at = self._take().at
            yes = self._either()
            self._expect(":", "between the two results of a choice")
            no = self._expression()
            node = Conditional(at=at, levels=_levels(at, node, yes, no), condition=node, yes=yes, no=no)
        self._brackets -= 1
        return node

    # -- operators, from the weakest to the strongest

    def _either(self) -> CelNode:
        operands, at = [self._both()], self._now.at
        while self._takes("||"):
            operands.append(self._both())
        return _logic(operands, at, is_and=False)

    def _both(self) -> CelNode:
        operands, at = [self._relation()], self._now.at
        while self._takes("&&"):
            operands.append(self._relation())
        return _logic(operands, at, is_and=True)

    def _relation(self) -> CelNode:
        node = self._sum()
        while self._now.kind in _RELATIONS:
            operator = self._take()
            node = _call(operator.at, operator.kind, node, self._sum())
        return node

    def _sum(self) -> CelNode:
        node = self._product()
        while self._now.kind in _SUMS:
            operator = self._take()
            node = _call(operator.at, operator.kind, node, self._product())
        return node

    def _product(self) -> CelNode:
        node = self._unary()
        while self._now.kind in _PRODUCTS:
            operator = self._take()
            node = _call(operator.at, operator.kind, node, self._unary())
        return node

    def _unary(self) -> CelNode:
        signs: list[Token] = []
        while self._now.kind in ("!", "-") and (not signs or self._now.kind == signs[0].kind):
            signs.append(self._take())
        is_negative = bool(signs) and signs[-1].kind == "-" and self._is_number(self._now)
        if is_negative:
            signs.pop()
        node = self._member(is_negative=is_negative)
        for sign in reversed(signs):
            node = _call(sign.at, "!" if sign.kind == "!" else "negate", node)
        return node

    @staticmethod
    def _is_number(token: Token) -> bool:
        return token.kind == "literal" and type(token.value) in (int, float)

    def _member(self, *, is_negative: bool) -> CelNode:
        node = self._primary(is_negative=is_negative)
        while True:
            now = self._now
            if self._takes("."):
                node = self._selected(node)
            elif self._takes("["):
                node = _call(now.at, "[]", node, self._expression())
                self._expect("]", "after an index")
            else:
                return node

    def _selected(self, node: CelNode) -> CelNode:
        field = self._take()
        if field.kind not in ("name", "quoted") and not field.text.isidentifier():
            self._next -= 1
            raise self._wrong("the name of a field or a method after the dot")
        if field.kind == "quoted" or not self._takes("("):
            return Select(at=field.at, levels=_levels(field.at, node), operand=node, field=field.text)
        arguments = self._items(")")
        if field.text in MACROS:
            return _macro(field, node, arguments)
        return _call(field.at, field.text, node, *arguments, is_method=True)

    # -- the smallest parts

    def _primary(self, *, is_negative: bool) -> CelNode:
        token = self._now
        if token.kind == "literal":
            self._take()
            return _literal(token, is_negative=is_negative)
        if self._takes("("):
            node = self._expression()
            self._expect(")", "for an open bracket")
            return node
        if self._takes("["):
            items = self._items("]")
            return ListNode(at=token.at, levels=_levels(token.at, *items), items=tuple(items))
        if self._takes("{"):
            return self._map(token)
        is_absolute = self._takes(".")
        if self._now.kind == "name":
            return self._named(self._take(), is_absolute=is_absolute)
        raise self._wrong("a value")

    def _named(self, token: Token, *, is_absolute: bool) -> CelNode:
        if token.text in RESERVED:
            raise BadExpression(f"{token.text!r} at character {token.at + 1} is a word that CEL reserves")
        if not self._takes("("):
            return Name(at=token.at, name=token.text, is_absolute=is_absolute)
        arguments = self._items(")")
        if token.text == "has":
            return _has(token, arguments)
        return _call(token.at, token.text, *arguments)

    def _items(self, closing: str) -> list[CelNode]:
        """Read items up to a closing bracket; a comma may stand after the last item of a list."""
        items: list[CelNode] = []
        while not self._takes(closing):
            if items:
                self._expect(",", f"or {closing} after an item")
                if closing == "]" and self._takes(closing):
                    break
            items.append(self._expression())
        return items

    def _map(self, opening: Token) -> CelNode:
        entries: list[tuple[CelNode, CelNode]] = []
        while not self._takes("}"):
            if entries:
                self._expect(",", "or } after an entry of a map")
                if self._takes("}"):
                    break
            key = self._expression()
            self._expect(":", "between a key and its value")
            entries.append((key, self._expression()))
        parts = (part for entry in entries for part in entry)
        return MapNode(at=opening.at, levels=_levels(opening.at, *parts), entries=tuple(entries))


def _logic(operands: list[CelNode], at: int, *, is_and: bool) -> CelNode:
    if len(operands) == 1:
        return operands[0]
    return Logic(at=at, levels=_levels(at, *operands), is_and=is_and, operands=tuple(operands))


def _call(at: int, name: str, *arguments: CelNode, is_method: bool = False) -> FunctionCall:
    return FunctionCall(at=at, levels=_levels(at, *arguments), name=name, arguments=arguments, is_method=is_method)


def _literal(token: Token, *, is_negative: bool) -> Literal:
    value = -token.value if is_negative else token.value
    if type(value) is int and value > MAX_INT:
        raise BadExpression(f"{token.text} at character {token.at + 1} does not fit into 64 bits")
    return Literal(at=token.at, value=value)


def _has(token: Token, arguments: list[CelNode]) -> FieldTest:
    field = arguments[0] if len(arguments) == 1 else None
    if not isinstance(field, Select):
        raise BadExpression(f"has at character {token.at + 1} takes a field, as in has(body.amount)")
    return FieldTest(at=token.at, levels=field.levels, operand=field.operand, field=field.field)


def _macro(token: Token, target: CelNode, arguments: list[CelNode]) -> Macro:
    has_filter = token.text == "map" and len(arguments) == _MAP_WITH_FILTER
    if len(arguments) != 2 and not has_filter:
        raise BadExpression(
            f"{token.text} at character {token.at + 1} takes a variable and an expression, as in "
            f"list.{token.text}(each, each > 0)"
        )
    first, *rest = arguments
    if not isinstance(first, Name) or first.is_absolute:
        raise BadExpression(f"the first argument of {token.text} at character {token.at + 1} is the name of a variable")
    levels = _levels(token.at, target, *rest)
    predicate = rest[0] if token.text != "map" or has_filter else None
    result = rest[-1] if token.text == "map" else None
    name = "exists_one" if token.text == "existsOne" else token.text
    return Macro(
        at=token.at, levels=levels, name=name, range=target, variable=first.name, predicate=predicate, result=result
    )
