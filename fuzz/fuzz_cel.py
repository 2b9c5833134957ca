"""CEL: an expression is refused with a reason or compiles to a program, whose verdict is bounded too.

The bytes up to the first line break are the expression, the rest is the body of the message.
"""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.expression.cel.message_view import MessageView
    from firearrow.expression.cel.meter import STEPS
    from firearrow.expression.cel.program import compile_cel
    from firearrow.expression.errors import BadExpression


def target(data: bytes) -> None:
    text, _, body = data.partition(b"\n")
    program = compile_cel(text.decode("utf-8", "replace"))
    view = MessageView("orders", {"TAGS": "new", "KEYS": "a b", "n": "1"}, lambda: body, 1, 2)
    judged = program.judge(view)
    assert judged.steps <= STEPS or judged.verdict.value == "OUT_OF_BUDGET"


SEEDS = [
    b'body.amount > 100 && properties.n == "1"\n{"amount": 150}',
    b'body.lines.exists(l, l.sku == \'a\' && l.count > 0)\n{"lines": [{"sku": "a", "count": 2}]}',
    b"has(body.a) ? size(body.a) > 1 : int(properties.n) + 1u == 2\n{}",
    b"[1, 2, 3].map(x, x > 1, x * 2)[0] in [4, 5.5, 0x1fu] || b'\\x00' == bytes('a')\n",
    b"tag.matches('^n[a-z]+$') || tag.startsWith(r'\\n') || !('''a''' in keys)\n",
    b"{'a': 1, true: 2, 3u: null}[true] != 2 || type(1) == int || -9223372036854775808 < 0\n[]",
]


def parse(data: bytes) -> None:
    """Parse as a server does when a consumer subscribes."""
    compile_cel(data.partition(b"\n")[0].decode("utf-8", "replace"))


if __name__ == "__main__":
    run(target, allowed=(BadExpression,), seeds=SEEDS, max_len=8192)
