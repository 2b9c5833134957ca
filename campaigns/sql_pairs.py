"""SQL92 filters beside Apache's: pairs of an expression and a message, each judged by both.

    python -m campaigns.sql_pairs --pairs 10000 --seed 1 [--version 4.9.7] [--ledger docs/ledger.jsonl]

An expression is drawn from a grammar (comparisons of every operator, nulls, types, numbers at the borders of 32 bits,
64 bits and doubles, texts), then sometimes damaged, so that syntax errors and text behind the end occur too. A pair is
equal when both refuse the expression, or both give the same value: TRUE, FALSE, NULL or an error.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from campaigns.faults.ledger import Ledger
from firearrow.expression.errors import BadExpression
from firearrow.expression.sql import compile_sql
from judges.sql import REFUSED, Pair, verdicts

CAMPAIGN = "sql-pairs"
NAMES = ("a", "b", "c", "TAGS", "$x_1", "_n")
NUMBERS = (
    "0", "1", "2", "7", "10", "100", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808",
    "5L", "0L",
    "007", "1.5", "0.5", ".5", "5.", "1E3", "1e-3", "1.7976931348623157E308", "1E309", "4.9E-324", "1E-400", "0.0",
    "2.0", "9007199254740993", "9007199254740993.0", "2147483648L", "12e", "1.5.5",
)  # fmt: skip
PLAIN = (
    "1",
    "2",
    "7",
    "10",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "1.5",
    ".5",
    "1E3",
    "9007199254740993.0",
)
"""Numbers that compile."""
TEXTS = ("", "x", "xy", "abc", "1", "10", "true", "TRUE", "it''s", "中文", "a b", "%", "NaN", "1.5", "-1", "2147483648")
VALUES = (
    "", "0", "1", "2", "7", "10", "+7", "-1", "-0", "007", " 7", "7 ", "1.5", "1.50", "0.5", ".5", "5.", "1e3", "1E400",
    "NaN", "-NaN", "Infinity", "-Infinity", "0x1p3", "0x1.8p1", "1f", "1d", "1L", "2147483647", "2147483648",
    "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "9007199254740993", "9007199254740992",
    "0.0", "-0.0", "1_0", "true", "TRUE", "false", "null", "x", "xy", "abc", "it's", "中文", "a b", "%", "\u0661\u0662",
    "+", "-", "--1", "1e", "e1", "1e+3", "\u00a07", "0x10", "00000000000000000000000001",
)  # fmt: skip
SEARCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")
DAMAGE = (
    " ", "(", ")", "'", ",", "=", "<", "#", "--", "/*", "*/", "NOT", " AND ", " OR ", " LIKE 'x'", "+", "- ", "1", "a",
    "==", "\n",
)  # fmt: skip
WORDS_5 = frozenset(SEARCHES)


class Generator:
    """Draws pairs from one seed."""

    def __init__(self, seed: int, *, searches: bool) -> None:
        self._random = random.Random(seed)
        self._searches = searches

    def pairs(self, count: int) -> Iterator[Pair]:
        """Yield pairs; an expression is judged with several messages."""
        made = 0
        while made < count:
            expression = self._damaged(self._condition(3))
            for _ in range(min(4, count - made)):
                yield expression, self._message()
                made += 1

    def _message(self) -> dict[str, str]:
        pick = self._random
        return {name: pick.choice(VALUES) for name in NAMES if pick.random() < 0.6}

    def _condition(self, depth: int) -> str:
        pick = self._random
        if depth == 0 or pick.random() < 0.35:
            return self._comparison(depth)
        shape = pick.randrange(6)
        if shape == 0:
            return f"{self._word('NOT')} {self._condition(depth - 1)}"
        if shape == 1:
            return f"({self._condition(depth - 1)})"
        joint = self._word("AND" if shape in (2, 3) else "OR")
        return f"{self._condition(depth - 1)} {joint} {self._condition(depth - 1)}"

    def _comparison(self, depth: int) -> str:
        shapes: list[Callable[[int], str]] = [
            self._ordered, self._ordered, self._equal, self._equal, self._between, self._listed, self._null,
            self._bare,
        ]  # fmt: skip
        if self._searches:
            shapes.append(self._search)
        return self._random.choice(shapes)(depth)

    def _ordered(self, depth: int) -> str:
        symbol = self._random.choice((">", ">=", "<", "<="))
        if self._random.random() < 0.6:
            return f"{self._random.choice(NAMES)} {symbol} {self._random.choice((*PLAIN, *NAMES))}"
        return f"{self._operand(depth)} {symbol} {self._operand(depth)}"

    def _equal(self, depth: int) -> str:
        symbol = self._random.choice((" = ", "=", " <> ", "<>"))
        if self._random.random() < 0.6:
            return f"{self._random.choice(NAMES)}{symbol}{self._random.choice((*PLAIN, self._text(), 'TRUE', 'FALSE'))}"
        return f"{self._operand(depth)}{symbol}{self._operand(depth)}"

    def _between(self, depth: int) -> str:
        no = self._word("NOT") + " " if self._random.random() < 0.3 else ""
        if self._random.random() < 0.6:
            low, high = sorted(self._random.choices(PLAIN, k=2), key=float)
            return f"{self._random.choice(NAMES)} {no}{self._word('BETWEEN')} {low} {self._word('AND')} {high}"
        bounds = f"{self._operand(0)} {self._word('AND')} {self._operand(0)}"
        return f"{self._operand(depth)} {no}{self._word('BETWEEN')} {bounds}"

    def _listed(self, _depth: int) -> str:
        no = self._word("NOT") + " " if self._random.random() < 0.3 else ""
        texts = ", ".join(self._text() for _ in range(self._random.randint(1, 7)))
        return f"{self._left()} {no}{self._word('IN')} ({texts})"

    def _null(self, depth: int) -> str:
        no = self._word("NOT") + " " if self._random.random() < 0.5 else ""
        return f"{self._operand(depth)} {self._word('IS')} {no}{self._word('NULL')}"

    def _search(self, depth: int) -> str:
        no = self._word("NOT") + " " if self._random.random() < 0.4 else ""
        left = self._operand(depth) if self._random.random() < 0.3 else self._left()
        return f"{left} {no}{self._word(self._random.choice(SEARCHES))} {self._text()}"

    def _bare(self, _depth: int) -> str:
        return self._random.choice(("TRUE", "FALSE", "NULL", *NAMES))

    def _left(self) -> str:
        return self._random.choice(NAMES) if self._random.random() < 0.9 else self._operand(0)

    def _operand(self, depth: int) -> str:
        pick, chance = self._random, self._random.random()
        if chance < 0.45:
            return pick.choice(NAMES)
        if chance < 0.7:
            return pick.choice(NUMBERS)
        if chance < 0.82:
            return self._text()
        if chance < 0.88:
            return pick.choice(("TRUE", "FALSE", "NULL", "true"))
        if chance < 0.95:
            return pick.choice(("-", "+", "- ", "+-")) + self._operand(0)
        return f"({self._condition(depth - 1)})" if depth > 0 else pick.choice(NAMES)

    def _text(self) -> str:
        return f"'{self._random.choice(TEXTS)}'"

    def _word(self, word: str) -> str:
        return self._random.choice((word, word, word.lower(), word.title()))

    def _damaged(self, expression: str) -> str:
        pick = self._random
        if pick.random() < 0.8:
            return expression
        at, piece = pick.randrange(len(expression) + 1), pick.choice(DAMAGE)
        if pick.random() < 0.4:
            return expression[:at] + expression[at + pick.randint(1, 3) :]
        return expression[:at] + piece + expression[at:]


def ours(pair: Pair) -> str:
    """The answer of our filter about a pair."""
    expression, properties = pair
    try:
        return compile_sql(expression).verdict(properties).value
    except BadExpression:
        return REFUSED


def differences(pairs: list[Pair], version: str) -> tuple[list[str], Counter[str]]:
    """Return a line for every pair about which we and Apache differ, and how often every verdict was given."""
    theirs = verdicts(pairs, version)
    assert len(theirs) == len(pairs), "Apache's filter did not answer every pair"
    found = [
        f"{pair[0]!r} {dict(pair[1])!r}: Apache says {their}, we say {our}"
        for pair, their in zip(pairs, theirs, strict=True)
        if (our := ours(pair)) != their
    ]
    return found, Counter(theirs)


def known(pairs: Iterable[Pair], version: str) -> list[Pair]:
    """Leave out pairs with words that 4.9 does not have: it reads CONTAINS and its like as names."""
    if not version.startswith("4."):
        return list(pairs)
    return [pair for pair in pairs if not any(word in pair[0].upper() for word in WORDS_5)]


def main() -> int:
    """Judge pairs, print the differences, and record the run."""
    options = argparse.ArgumentParser(prog="python -m campaigns.sql_pairs", description=__doc__)
    options.add_argument("--pairs", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--version", default="5.5.0", help="the version of Apache's broker")
    options.add_argument("--ledger", help="the file in which the run is recorded")
    chosen = options.parse_args()
    generator = Generator(chosen.seed, searches=not chosen.version.startswith("4."))
    pairs = known(generator.pairs(chosen.pairs), chosen.version)
    found, counted = differences(pairs, chosen.version)
    for line in found[:50]:
        sys.stdout.write(line + "\n")
    figures = {"version": chosen.version, "seed": chosen.seed, "pairs": len(pairs), "differences": len(found)}
    entry = Ledger(CAMPAIGN, chosen.ledger).add(figures | {"verdicts": dict(sorted(counted.items()))})
    sys.stdout.write(f"{entry}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
