"""Widths: the collaborators and the attributes of a class, and the parameters of a function.

A class that takes many collaborators, or holds many attributes, does two things. Whatever is wider than a limit is
listed here with its width, as a debt: a test fails when a listed one grows, and when one that got narrower keeps its
old number. Nothing new is listed.
"""

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2] / "src" / "firearrow"
COLLABORATORS_MAX: Final = 8
ATTRIBUTES_MAX: Final = 12
PARAMETERS_MAX: Final = 8
VALUES: Final = frozenset({"str", "int", "float", "bool", "bytes", "None", "tzinfo", "Identity"})
"""Types whose parameters are no collaborators; an `Identity` is the name and the addresses of a broker."""
ROOTS: Final = {
    "broker/assembly.py::Assembly": "makes what the parts of a broker share; its attributes are that",
    "broker/broker.py::Broker": "starts and stops the parts of a broker",
    "nameserver/server.py::NameServer": "makes, starts and stops the parts of a name server",
}
"""Composition roots and the reason why each may be wide: they make and start parts, and decide nothing."""
COLLABORATORS: Final[dict[str, int]] = {
    "broker/handlers/message/send_checked.py::CheckedSends": 14,
    "client/consumer/group_member.py::GroupMember": 9,
    "remoting/server.py::Server": 9,
}
ATTRIBUTES: Final[dict[str, int]] = {
    "access/audit_log.py::AuditLog": 17,
    "access/guard.py::Guard": 16,
    "access/plain/access.py::PlainAccess": 13,
    "admin/admin.py::Admin": 15,
    "broker/dedup/row_windows.py::RowWindows": 17,
    "broker/failover/group_master.py::GroupMaster": 15,
    "broker/failover/membership.py::ReplicaMembership": 22,
    "broker/gate/waiting_answers.py::Acks": 13,
    "broker/handlers/message/pull.py::PullHandlers": 20,
    "broker/handlers/message/send_checked.py::CheckedSends": 20,
    "broker/replication/feed.py::Feed": 18,
    "broker/replication/metadata.py::Metadata": 17,
    "broker/replication/slave.py::Slave": 16,
    "broker/send/admission.py::Admission": 27,
    "broker/state/state_file.py::StateFile": 18,
    "broker/statistics/counters.py::BrokerStats": 15,
    "broker/timer/slot_delivery.py::SlotDelivery": 14,
    "broker/transaction/journal.py::Journal": 15,
    "client/consumer/group_member.py::GroupMember": 15,
    "client/consumer/queue/intake.py::Receiver": 15,
    "client/consumer/queue/owned_queue.py::OwnedQueue": 24,
    "client/instance.py::Instance": 22,
    "protocol/connection.py::Connection": 16,
    "remoting/endpoint.py::Endpoint": 30,
    "remoting/turns.py::Turns": 16,
    "remoting/wire.py::Wire": 24,
    "runtime/disk/real_disk.py::RealDisk": 14,
    "runtime/tls.py::TlsLayer": 16,
    "store/index/active_file.py::ActiveIndex": 14,
    "store/log/commit_log.py::CommitLog": 23,
    "store/queue/consume_queue.py::ConsumeQueue": 14,
    "store/retention.py::Retention": 20,
    "store/store.py::Store": 17,
    "store/timer/files.py::TimerFiles": 17,
    "store/views/views.py::Views": 14,
    "testing/sim/endpoint.py::SimEndpoint": 20,
    "testing/sim/network.py::SimNetwork": 13,
    "testing/sim/world.py::Node": 14,
}
PARAMETERS: Final[dict[str, int]] = {
    "admin/topics.py::create": 9,
    "admin/topics.py::update": 9,
    "cli/consume.py::_take_part": 9,
    "model/message.py::__call__": 10,
    "model/message.py::of": 9,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed() -> list[tuple[str, ast.AST]]:
    """Every node of the source, with the name of its file."""
    paths = [(path.relative_to(ROOT).as_posix(), path) for path in sorted(ROOT.rglob("*.py"))]
    return [(name, node) for name, path in paths for node in ast.walk(ast.parse(path.read_text()))]


def parameters(function: Function) -> list[ast.arg]:
    given = function.args
    return [each for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.arg not in ("self", "cls")]


def is_value(annotation: ast.expr | None) -> bool:
    """Whether an annotation names plain values alone."""
    return annotation is not None and {n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)} <= VALUES


def fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    """The fields of a Struct or dataclass that may change; a frozen one is data, and its width is its content's."""
    decorators = " ".join(map(ast.unparse, node.decorator_list))
    is_frozen = "frozen=True" in decorators or any(
        each.arg == "frozen" and ast.unparse(each.value) == "True" for each in node.keywords
    )
    is_data = "dataclass" in decorators or "Struct" in map(ast.unparse, node.bases)
    return [each for each in node.body if isinstance(each, ast.AnnAssign)] if is_data and not is_frozen else []


def collaborators(node: ast.ClassDef) -> int:
    """The number of collaborators that an object is made with."""
    makes = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    taken = [each.annotation for make in makes[-1:] for each in parameters(make)]  # before the last are overloads
    return sum(not is_value(each) for each in [*taken, *(field.annotation for field in fields(node))])


def attributes(node: ast.ClassDef) -> int:
    """The number of attributes that the methods of a class assign on ``self``, and the fields of data that may
    change."""
    assigned = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }
    return len(assigned | {ast.unparse(field.target) for field in fields(node)})


def is_command(function: Function) -> bool:
    """Whether a function is a command of the CLI: its parameters are the command's options."""
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    return ".command(" in decorators or ".callback(" in decorators or "typer.Option(" in ast.unparse(function.args)


def wide_collaborators() -> dict[str, int]:
    found = {f"{name}::{node.name}": collaborators(node) for name, node in parsed() if isinstance(node, ast.ClassDef)}
    return {name: width for name, width in found.items() if width > COLLABORATORS_MAX and name not in ROOTS}


def wide_attributes() -> dict[str, int]:
    found = {f"{name}::{node.name}": attributes(node) for name, node in parsed() if isinstance(node, ast.ClassDef)}
    return {name: width for name, width in found.items() if width > ATTRIBUTES_MAX and name not in ROOTS}


def wide_parameters() -> dict[str, int]:
    """Functions with too many parameters; those of ``__init__`` are counted as collaborators."""
    functions = [(name, node) for name, node in parsed() if isinstance(node, Function) and node.name != "__init__"]
    found = {f"{name}::{node.name}": len(parameters(node)) for name, node in functions if not is_command(node)}
    return {name: width for name, width in found.items() if width > PARAMETERS_MAX}


def test_no_class_takes_too_many_collaborators() -> None:
    assert wide_collaborators() == COLLABORATORS, f"the limit is {COLLABORATORS_MAX}: split the class by what it does"


def test_no_class_has_too_many_attributes() -> None:
    assert wide_attributes() == ATTRIBUTES, f"the limit is {ATTRIBUTES_MAX}: split the class by what it does"


def test_no_function_has_too_many_parameters() -> None:
    assert wide_parameters() == PARAMETERS, f"the limit is {PARAMETERS_MAX}: pass a noun that has them together"


def test_every_composition_root_is_there() -> None:
    known = {f"{name}::{node.name}" for name, node in parsed() if isinstance(node, ast.ClassDef)}
    assert set(ROOTS) <= known


def test_nothing_but_composition_roots_knows_the_assembly() -> None:
    roots = {"broker/broker.py", "broker/consumer_side.py", "broker/guarded.py", "broker/operator_side.py"}
    imports = [(name, node) for name, node in parsed() if isinstance(node, ast.ImportFrom)]
    assert {name for name, node in imports if node.module == "firearrow.broker.assembly"} == roots


@pytest.mark.parametrize(
    ("source", "widths"),
    [
        (
            "class A:\n    def __init__(self, store: Store, name: str, clock: Clock | None):\n        self.a = 1",
            (2, 1),
        ),
        ("class A(Struct):\n    store: Store\n    name: str", (1, 2)),
        ("class A(Struct, frozen=True):\n    store: Store", (0, 0)),
        ("class A:\n    def f(self) -> None:\n        self.a, self.b = 1, 2\n        self.a += other.c", (0, 2)),
    ],
)
def test_widths_are_counted(source: str, widths: tuple[int, int]) -> None:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.ClassDef)
    assert (collaborators(node), attributes(node)) == widths
