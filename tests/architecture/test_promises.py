"""Every request that a broker serves has a row that says what its success waits for, and no handler goes past the gate.

The types say that a handler of a KEPT request returns what the gate made. These tests say that there is no way round
the types: every such handler is registered where they are checked, and only the gate makes their results.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from firearrow.broker.gate import gate
from firearrow.broker.gate.promises import PROMISES, RequestTarget, Success, SuccessStep
from firearrow.protocol.requests import ALL

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "firearrow"
BY_NAME = {kind.__name__: kind.code for kind in ALL}
OF_ACCESS = {
    code for code, promise in PROMISES.items() if "AUTH_" in code.name or "ACL" in code.name or "WHITE" in code.name
}
"""Requests of the package `access`, which stands below the gate and hands it its successes (`ChangeGate`)."""


def registrations(room: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of conversations that a package registers, and what they are registered with."""
    for file in sorted(room.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "on"
            if is_call and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name):
                assert isinstance(node.func, ast.Attribute)
                if node.args[0].id in BY_NAME:
                    yield node.args[0].id, ast.unparse(node.func.value)


@cache
def served() -> dict[str, str]:
    """Return what a broker serves, by name, with the registry that it is registered with."""
    return dict([*registrations(SOURCE / "broker"), *registrations(SOURCE / "access")])


def test_every_request_that_a_broker_serves_has_a_promise_and_no_other() -> None:
    assert {BY_NAME[name] for name in served()} == set(PROMISES)


@pytest.mark.parametrize("name", sorted(served()))
def test_a_request_whose_success_is_kept_is_answered_by_the_gate(name: str) -> None:
    code, registry = BY_NAME[name], served()[name]
    if code in OF_ACCESS:
        assert PROMISES[code].placed in (SuccessStep.ACCOUNTS, SuccessStep.OWN, SuccessStep.NOWHERE)
        return
    is_gate = registry == "kept" or registry.endswith("gate.before(handlers)")
    assert is_gate == (PROMISES[code].success is Success.KEPT), f"{name} is registered with {registry}"


def test_only_the_gate_makes_successes_of_kept_requests() -> None:
    makers = {
        str(file.relative_to(SOURCE))
        for file in sorted((SOURCE / "broker").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("PlainSuccess", "GatedAnswer", "cast")
        if ast.unparse(node.func) != "cast" or "GatedAnswer" in ast.unparse(node.args[0])
    }
    assert makers == {"broker/gate/gate.py"}


def test_access_hands_its_successes_to_the_gate() -> None:
    answering = {
        str(file.relative_to(SOURCE))
        for file in sorted((SOURCE / "access").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "answer"
    }
    assert answering == {"access/change_gate.py"}, "a change of users must not be answered past the gate"


def test_what_is_kept_says_where_and_what_is_answered_when_that_is_not_known() -> None:
    for code, promise in PROMISES.items():
        assert (promise.success is Success.KEPT) == (promise.placed is not SuccessStep.NOWHERE), code.name
        is_send = promise is PROMISES[BY_NAME["SendMessage"]]
        may_be_unknown = promise.placed in (SuccessStep.LOG, SuccessStep.TABLE, SuccessStep.ACCOUNTS) and not is_send
        assert bool(promise.unknown) == may_be_unknown, code.name


def test_a_slave_takes_no_record_and_no_change_of_a_table_of_its_group() -> None:
    for code, promise in PROMISES.items():
        if promise.placed in (SuccessStep.LOG, SuccessStep.TABLE):
            assert promise.asked_of is RequestTarget.MASTER, code.name


def test_a_refusal_cannot_say_success() -> None:
    with pytest.raises(ValueError, match="cannot say success"):
        gate.Refusal(code=0)
