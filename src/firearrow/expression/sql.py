"""SQL92 filters: from a text to a `Program`. Pure; lark parses (LALR, no backtracking). Java: ``SelectorParser.jj``.

Apache's grammar ends where an expression can end, and does not look at the text behind: ``a LIKE 'x'`` is ``a``.
`compile_sql` keeps that text in `Program.ignored`; our client refuses such an expression, our broker takes it with a
warning, because Apache's takes it.

Everything is bounded: the length, the number of tokens, levels, steps and listed texts. Apache has no such limits.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from firearrow.expression import sql_nodes as nodes
from firearrow.expression.errors import BadExpression
from firearrow.expression.program import Program
from firearrow.expression.sql_nodes import SqlNode
from firearrow.expression.sql_tokens import KEYWORDS, SYMBOLS, decoded, tokens_of

if TYPE_CHECKING:
    from lark import Lark
    from lark.parsers.lalr_interactive_parser import InteractiveParser

SQL92: Final = "SQL92"
"""The expression type on the wire."""
MOST_CHARACTERS: Final = 32_768
"""The most characters of an expression."""
MOST_TOKENS: Final = 4000
"""The most tokens of an expression."""

_GRAMMAR: Final = """
?start: disjunction -> selector
?disjunction: conjunction | disjunction OR conjunction -> either
?conjunction: equality | conjunction AND equality -> both
?equality: comparison
    | equality EQUAL comparison -> equal
    | equality UNEQUAL comparison -> unequal
    | equality IS NULL -> is_null
    | equality IS NOT NULL -> is_not_null
?comparison: unary
    | comparison (ABOVE | AT_LEAST | BELOW | AT_MOST) unary -> ordered
    | comparison (CONTAINS | STARTSWITH | ENDSWITH) TEXT -> searched
    | comparison NOT (CONTAINS | STARTSWITH | ENDSWITH) TEXT -> not_searched
    | comparison BETWEEN unary AND unary -> between
    | comparison NOT BETWEEN unary AND unary -> not_between
    | comparison IN OPEN texts CLOSE -> listed
    | comparison NOT IN OPEN texts CLOSE -> not_listed
texts: TEXT | texts COMMA TEXT
?unary: primary
    | PLUS unary -> plus
    | MINUS unary -> minus
    | NOT unary -> negated
?primary: NAME -> prop
    | TEXT -> text
    | WHOLE -> whole
    | FLOAT -> float_number
    | TRUE -> true
    | FALSE -> false
    | NULL -> null
    | OPEN disjunction CLOSE -> inside
"""


class _Builder:
    """Builds nodes while lark parses; the methods are named as the rules of the grammar."""

    def selector(self, parts: list[Any]) -> SqlNode:
        return nodes.as_boolean(parts[0])

    def either(self, parts: list[Any]) -> SqlNode:
        return nodes.either(parts[0], parts[-1])

    def both(self, parts: list[Any]) -> SqlNode:
        return nodes.both(parts[0], parts[-1])

    def equal(self, parts: list[Any]) -> SqlNode:
        return nodes.equal(parts[0], parts[2])

    def unequal(self, parts: list[Any]) -> SqlNode:
        return nodes.unequal(parts[0], parts[2])

    def is_null(self, parts: list[Any]) -> SqlNode:
        return nodes.is_null(parts[0])

    def is_not_null(self, parts: list[Any]) -> SqlNode:
        return nodes.is_not_null(parts[0])

    def ordered(self, parts: list[Any]) -> SqlNode:
        return nodes.ordered(parts[0], str(parts[1]), parts[2])

    def searched(self, parts: list[Any]) -> SqlNode:
        return nodes.searched(parts[0], parts[1].type, decoded(parts[2]), wanted=True)

    def not_searched(self, parts: list[Any]) -> SqlNode:
        return nodes.searched(parts[0], parts[2].type, decoded(parts[3]), wanted=False)

    def between(self, parts: list[Any]) -> SqlNode:
        return nodes.between(parts[0], parts[2], parts[4])

    def not_between(self, parts: list[Any]) -> SqlNode:
        return nodes.not_between(parts[0], parts[3], parts[5])

    def listed(self, parts: list[Any]) -> SqlNode:
        return nodes.listed(parts[0], parts[3], inside=True)

    def not_listed(self, parts: list[Any]) -> SqlNode:
        return nodes.listed(parts[0], parts[4], inside=False)

    def texts(self, parts: list[Any]) -> list[str]:
        if len(parts) == 1:
            return [decoded(parts[0])]
        texts: list[str] = parts[0]
        texts.append(decoded(parts[2]))
        return texts

    def plus(self, parts: list[Any]) -> SqlNode:
        return parts[1]  # type: ignore[no-any-return]

    def minus(self, parts: list[Any]) -> SqlNode:
        return nodes.minus(parts[1])

    def negated(self, parts: list[Any]) -> SqlNode:
        return nodes.negated(parts[1])

    def prop(self, parts: list[Any]) -> SqlNode:
        return nodes.prop(str(parts[0]))

    def text(self, parts: list[Any]) -> SqlNode:
        return nodes.constant(decoded(parts[0]))

    def whole(self, parts: list[Any]) -> SqlNode:
        return nodes.whole_number(parts[0])

    def float_number(self, parts: list[Any]) -> SqlNode:
        return nodes.float_number(parts[0])

    def true(self, _parts: list[Any]) -> SqlNode:
        return nodes.constant(True)

    def false(self, _parts: list[Any]) -> SqlNode:
        return nodes.constant(False)

    def null(self, _parts: list[Any]) -> SqlNode:
        return nodes.constant(None)

    def inside(self, parts: list[Any]) -> SqlNode:
        return parts[1]  # type: ignore[no-any-return]


@cache
def sql_parser() -> "Lark":
    """Return lark's parser; making it takes about 100 ms, so a broker makes it before it serves."""
    from lark import Lark

    kinds = sorted({*KEYWORDS, *SYMBOLS.values(), "NAME", "TEXT", "WHOLE", "FLOAT"})
    grammar = _GRAMMAR + "%declare " + " ".join(kinds)
    return Lark(grammar, parser="lalr", lexer="basic", transformer=_Builder(), keep_all_tokens=True)


def compile_sql(text: str) -> Program:
    """Compile an expression; raise `BadExpression`, which says what is wrong."""
    if len(text) > MOST_CHARACTERS:
        raise BadExpression(f"the expression has {len(text)} characters; at most {MOST_CHARACTERS} are allowed")
    from lark import Token
    from lark.exceptions import UnexpectedToken

    parsing = sql_parser().parse_interactive()
    ignored, names = "", set()
    for number, (kind, image, at) in enumerate(tokens_of(text)):
        if number >= MOST_TOKENS:
            raise BadExpression(f"the expression has more than {MOST_TOKENS} words and signs: write a shorter one")
        try:
            parsing.feed_token(Token(kind, image, at))
        except UnexpectedToken as error:
            if "$END" not in parsing.accepts():  # type: ignore[no-untyped-call]
                raise BadExpression(f"{image!r:.60} at character {at + 1} does not belong there") from error
            ignored = text[at:]
            break
        if kind == "NAME":
            names.add(image)
    return _finished(parsing, text, ignored, names)


def _finished(parsing: "InteractiveParser", text: str, ignored: str, names: set[str]) -> Program:
    from lark.exceptions import UnexpectedToken

    try:
        node: SqlNode = parsing.feed_eof()  # type: ignore[no-untyped-call]
    except UnexpectedToken as error:
        what = "the expression is empty" if not text.strip() else "the expression ends too early"
        raise BadExpression(f"{what}: write a condition on the properties of a message") from error
    return Program(text, ignored, tuple(sorted(names)), node.steps, node.run)
