"""The conformance vectors of CEL's specification, run with our implementation.

Every file of the specification is run. A vector *applies* if it needs only what we offer: files for protobuf messages,
extensions and type checking do not apply as a whole (`NOT_OFFERED`), and neither do single vectors that declare
functions, compare messages, or call what is not offered. Every vector that applies must pass.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from campaigns.cel.textproto import Message, parse_textproto
from firearrow.expression.cel.meter import CostMeter
from firearrow.expression.cel.program import compile_cel
from firearrow.expression.cel.values import BoolKey, TypeValue, Uint, key_of
from firearrow.expression.errors import BadExpression, NoValue, OutOfBudget

NOT_OFFERED: Final = {
    "bindings_ext": "extension: cel.bind",
    "block_ext": "extension: cel.block",
    "encoders_ext": "extension: base64",
    "macros2": "extension: macros with two variables",
    "math_ext": "extension: math",
    "network_ext": "extension: network addresses",
    "optionals": "extension: optional values",
    "proto2_ext": "extension: protobuf",
    "string_ext": "extension: strings",
    "dynamic": "protobuf messages",
    "enums": "protobuf messages",
    "proto2": "protobuf messages",
    "proto3": "protobuf messages",
    "wrappers": "protobuf messages",
    "timestamps": "timestamps and durations",
    "type_deduction": "type checking before evaluation",
    "unknowns": "partial evaluation",
}
"""Files that do not apply, and why."""
_MOST_STEPS: Final = 1_000_000
_UNKNOWN: Final = re.compile(r"is not offered|are not offered|is not a variable")


class Outcome(NamedTuple):
    """The outcome of one vector: ``passed``, ``failed`` or ``not offered``, and why."""

    file: str
    section: str
    name: str
    expression: str
    result: str
    reason: str = ""


def outcomes(directory: Path) -> Iterator[Outcome]:
    """Run every vector of a directory of ``.textproto`` files."""
    for path in sorted(directory.glob("*.textproto")):
        for section in parse_textproto(path.read_text(encoding="utf-8")).get("section", []):
            for test in section.get("test", []):
                yield _run(path.stem, _text(section, "name"), test)


def _text(message: Message, field: str) -> str:
    given = message.get(field, [b""])[0]
    return given.decode("utf-8") if isinstance(given, bytes) else str(given)


def _run(file: str, section: str, test: Message) -> Outcome:
    expression = _text(test, "expr")
    about = (file, section, _text(test, "name"), expression)
    reason = NOT_OFFERED.get(file) or _why_not(test)
    if reason:
        return Outcome(*about, "not offered", reason)
    bindings = {entry["key"][0].decode(): _bound(entry["value"][0]) for entry in test.get("bindings", [])}
    wants_error = "eval_error" in test or "any_eval_errors" in test
    try:
        found = _evaluated(expression, bindings)
    except BadExpression as refused:
        if wants_error:
            return Outcome(*about, "passed", "refused when compiled")
        is_unknown = _UNKNOWN.search(str(refused))
        return Outcome(*about, "not offered" if is_unknown else "failed", str(refused))
    except (NoValue, OutOfBudget) as error:
        return Outcome(*about, "passed" if wants_error else "failed", f"{type(error).__name__}: {error}")
    if wants_error:
        return Outcome(*about, "failed", f"an error is expected, {found!r} came")
    expected = _expected(test)
    same = _is_same(found, expected)
    return Outcome(*about, "passed" if same else "failed", "" if same else f"{expected!r} is expected, {found!r} came")


def _evaluated(expression: str, bindings: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a value of CEL
    readers = {name: partial(_read, name) for name in bindings}
    return compile_cel(expression, readers).value(bindings, _MOST_STEPS)


def _read(name: str, meter: CostMeter) -> Any:  # noqa: ANN401 - a value of CEL
    return meter.subject[name]


def _why_not(test: Message) -> str:
    if "check_only" in test:
        return "type checking before evaluation"
    if "disable_macros" in test:
        return "expressions without macros"
    if "unknown" in test or "any_unknowns" in test:
        return "partial evaluation"
    if "container" in test:
        return "containers (namespaces)"
    if any(b"." in entry["key"][0] for entry in test.get("bindings", [])):
        return "variables with dots in their names"
    if any("function" in declared for declared in test.get("type_env", [])):
        return "functions of the application"
    if "object_value" in str(test):
        return "protobuf messages"
    declared = {_text(each, "name") for each in test.get("type_env", []) if "ident" in each}
    if declared - {entry["key"][0].decode() for entry in test.get("bindings", [])}:
        return "variables without a value"
    return ""


def _bound(expression_value: Message) -> Any:  # noqa: ANN401 - a value of CEL
    return _value(expression_value["value"][0])


def _expected(test: Message) -> Any:  # noqa: ANN401 - a value of CEL
    if "typed_result" in test:
        return _value(test["typed_result"][0]["result"][0])
    return _value(test["value"][0]) if "value" in test else True


def _value(message: Message) -> Any:  # noqa: ANN401 - a value of CEL
    ((kind, (given, *_)),) = message.items()
    if kind == "map_value":
        entries = given.get("entries", [])
        return {key_of(_value(entry["key"][0])): _value(entry["value"][0]) for entry in entries}
    if kind == "list_value":
        return [_value(each) for each in given.get("values", [])]
    return _SCALARS[kind](given)


_SCALARS: Final[dict[str, Any]] = {
    "null_value": lambda _given: None,
    "bool_value": lambda given: given == "true",
    "int64_value": lambda given: int(given, 0),
    "uint64_value": lambda given: Uint(int(given, 0)),
    "double_value": lambda given: float(given.rstrip("f") if given[-1:] == "f" and given[-3:] != "inf" else given),
    "string_value": lambda given: given.decode("utf-8", "surrogatepass"),
    "bytes_value": bytes,
    "type_value": lambda given: TypeValue(given.decode()),
}


def _is_same(found: Any, expected: Any) -> bool:  # noqa: ANN401 - values of CEL
    """Whether two values are the same, types included; NaN is NaN."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, float) and math.isnan(found):
        return math.isnan(expected)
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(_is_same, found, expected))
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(_is_same(found[key], expected[key]) for key in found)
    return bool(found == expected) or (isinstance(found, BoolKey) and found is expected)


def table(found: list[Outcome]) -> list[str]:
    """Return the counts by file as rows of a Markdown table."""
    rows = ["| vectors | all | apply | pass | not offered, and why |", "|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    for file in dict.fromkeys(each.file for each in found):
        mine = [each for each in found if each.file == file]
        results = Counter(each.result for each in mine)
        why = Counter(_shortened(each) for each in mine if each.result == "not offered")
        rows.append(_row(file, results, ", ".join(f"{reason} ({count})" for reason, count in why.most_common())))
        total += results
    rows.append(_row("all", total, ""))
    return rows


def _row(name: str, results: Counter[str], why: str) -> str:
    apply = results["passed"] + results["failed"]
    return f"| {name} | {results.total()} | {apply} | {results['passed']} | {why} |"


def _shortened(outcome: Outcome) -> str:
    match = re.match(r"(?:function|method) ('\w+')", outcome.reason)
    if match:
        return f"function {match.group(1)}".replace("'", "`")
    if "is not a variable" in outcome.reason:
        return "names that are not declared"
    return "protobuf messages" if outcome.reason.startswith("messages ") else outcome.reason
