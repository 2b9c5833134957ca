"""Hostile expressions and bodies: each is refused or judged within 50 ms of CPU."""

import time
from functools import partial

import pytest

from firearrow.expression.cel.message_view import MessageView
from firearrow.expression.cel.program import CelVerdict, compile_cel
from firearrow.expression.errors import BadExpression
from tests.yardstick import least_s

LIMIT_S = 0.05
MANY = 100_000
NINE = "[1, 2, 3, 4, 5, 6, 7, 8, 9]"
EXPRESSIONS = {
    "parens": "(" * MANY + "1" + ")" * MANY,
    "parens within the length": "(" * 4000 + "1" + ")" * 4000,
    "open parens": "(" * 8000,
    "brackets": "[" * 4000 + "]" * 4000,
    "braces": "{1:" * 1000 + "1" + "}" * 1000,
    "ands": " && ".join(["true"] * MANY),
    "ands within the length": "&&".join(["true"] * 900),
    "ors of errors": "||".join(["1/0>0"] * 300),
    "sums": "+".join(["1"] * 4000),
    "in a huge list": "topic in [" + ",".join(["'a'"] * 1900) + "]",
    "unbalanced quote": "topic == '" + "a" * 8000,
    "many quotes": "'" * 8001,
    "triple quotes": "'''" + "\\'" * 4000,
    "backslashes": "'" + "\\" * 8001,
    "comments": "//" * 4000,
    "comment after comment": "//\n" * 2700,
    "relations": "==".join(["topic"] * 900),
    "deep not": "!" * 8000 + "true",
    "minuses": "-" * 8000 + "1",
    "choices": "true?1:" * 1100 + "1",
    "digits": "1" * 8000 + " > 1",
    "double overflow": "1e" + "9" * 4000 + " > 1.0",
    "hexadecimal": "0x" + "f" * 8000 + " > 1",
    "1 MiB name": "a" * (1 << 20),
    "name": "a" * 8000,
    "fields": "body" + ".a" * 2000,
    "indices": "keys" + "[0]" * 600,
    "calls": "size(" * 1000 + "keys" + ")" * 1000,
    "nested macros": f"{NINE}.all(a, {NINE}.all(b, {NINE}.all(c, {NINE}.all(d, {NINE}.all(e, {NINE}.all(f, true))))))",
    "macro over a long body": "body.numbers.all(a, body.numbers.all(b, a >= 0.0 && b >= 0.0))",
    "contains on a long text": "body.numbers.all(a, !body.text.contains('aaaaaaaaaaaaaaab'))",
    "regex on a long text": "body.numbers.all(a, !body.text.matches('(a+)+b'))",
    "regex with repetitions": "body.text.matches('((a{1,30}){1,30}){1,30}b')",
    "regex with many states": "body.text.matches('(a?){500}b(.*a){20}')",
    "regex made of the message": "body.text.matches(body.text)",
    "many regexes": "||".join(["topic.matches('[a-zé-ῼ]{90}')"] * 200),
    "regexes of many characters": "||".join(["topic.matches('[a-zé-ῼ]{90}')"] * 15) + "||topic.matches('(\\\\pL){40}')",
    "slow regex": "body.numbers.all(a, !body.text.matches('(a?){80}b(.*a){5}'))",
    "slow regex on a short text": "body.numbers.all(a, !body.short.matches('(a?){80}b(.*a){5}'))",
    "doubled text": "['aaaaaaaa']" + ".map(x, x + x)" * 62 + "[0].size() > 0",
    "doubled lists": "['a']" + ".map(x, [x, x])" * 60 + " == ['a']" + ".map(x, [x, x])" * 60,
    "long text compared": "body.numbers.all(a, body.text == body.text + '')",
    "lone surrogate": "body.lone.matches('a') || bytes(body.lone).size() > 0",
    "null characters": "\0" * 8000,
    "right to left": "topic == '\u202e" + "\u0661" * 1000 + "'",
}
BODY = (
    b'{"numbers": [' + b",".join(b"%d" % number for number in range(20_000)) + b'], "text": "' + b"a" * 100_000
    + b'", "short": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "lone": "\\ud800"}'
)  # fmt: skip
BODIES = {
    "depth": b"[" * 100_000 + b"]" * 100_000,
    "depth of maps": b'{"a":' * 40_000 + b"1" + b"}" * 40_000,
    "digits": b'{"a": ' + b"9" * 4301 + b"}",
    "many digits": b'{"a": ' + b"9" * 250_000 + b"}",
    "exponent": b'{"a": 1e' + b"9" * 4301 + b"}",
    "duplicate keys": b"{" + b'"a": 1,' * 30_000 + b'"a": 2}',
    "__proto__": b'{"__proto__": {"a": 1}, "__class__": 1}',
    "NaN": b'{"a": NaN}',
    "surrogates": b'{"a": "\\ud800"}',
    "many keys": b"{" + b",".join(b'"%d": 1' % number for number in range(25_000)) + b"}",
    "empty lists": b"[" + b"[]," * 80_000 + b"[]]",
    "BOM": b"\xef\xbb\xbf{}",
    "white space": b" " * 262_144,
    "escapes": b'{"a": "' + b"\\u0061" * 43_000 + b'"}',
}


def judge(text: str, body: bytes) -> tuple[CelVerdict | None, float]:
    """Return the verdict (None: refused) and the seconds of CPU."""
    begun = time.process_time()
    try:
        program = compile_cel(text)
        given = MessageView("orders", {"KEYS": "a b"}, lambda: body, 0, 0)
        verdict: CelVerdict | None = program.judge(given).verdict
    except BadExpression:
        verdict = None
    return verdict, time.process_time() - begun


def judged_s(text: str, body: bytes) -> float:
    return judge(text, body)[1]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_hostile_expressions_are_refused_or_bounded(name: str) -> None:
    compile_cel("topic.matches('warm')")
    assert least_s(partial(judged_s, EXPRESSIONS[name], BODY), LIMIT_S) < LIMIT_S


@pytest.mark.parametrize("name", BODIES)
def test_hostile_bodies_are_refused_or_bounded(name: str) -> None:
    for text in ("body.a == 1", "body.all(x, x == 1)", "has(body.__class__) || body == [1]"):
        assert least_s(partial(judged_s, text, BODIES[name]), LIMIT_S) < LIMIT_S
