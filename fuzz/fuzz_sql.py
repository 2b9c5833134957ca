"""SQL92: an expression is refused with a reason or compiles to a program, whose verdict is bounded too."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.expression.errors import BadExpression
    from firearrow.expression.sql import compile_sql

MESSAGE = {"a": "1", "b": "x", "c": "1.5e3", "TAGS": "true"}

compile_sql("a = 1")


def target(data: bytes) -> None:
    program = compile_sql(data.decode("utf-8", "replace"))
    program.verdict(MESSAGE)
    program.verdict({})


SEEDS = [
    b"a > 1 AND b = 'x' OR NOT c",
    b"a BETWEEN 1 AND 2.5 AND b IN ('x', 'it''s') AND c IS NOT NULL",
    b"a NOT CONTAINS 'x' OR b STARTSWITH 'y' OR c ENDSWITH ''",
    b"-(a) = +1L -- comment\n AND /* b */ TRUE <> c",
    b"(((((a)))))",
    b"a LIKE 'x'",
]


def parse(data: bytes) -> None:
    """Parse as a server does when a consumer subscribes."""
    compile_sql(data.decode("utf-8", "replace"))


if __name__ == "__main__":
    run(target, allowed=(BadExpression,), seeds=SEEDS, max_len=8192)
