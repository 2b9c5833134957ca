"""The same requests to Apache's name servers and to ours give the same answers.

Equal to 5.5.0's entirely: code, fields, body, and the remark where a step says so. Equal to 4.9.7's in the members that
4.9.7 has. JSON is compared as values, lists in any order. Where a difference is meant, a step names the reason, and
then the answers must differ.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from judges import Server
from tests.interop.nameserver.raw import Said, Wire
from tests.interop.nameserver.scripts import NEW, OLD, REASONS, SCRIPTS, Step, broker

pytestmark = pytest.mark.apache

HANG_UP = 0
REGISTER, UNREGISTER, CLUSTER_INFO = 103, 104, 106
MAPS = {"brokerAddrTable", "clusterAddrTable", "brokerAddrs", "filterServerTable", "table"}
SETTLE_S = 3.0
FORGETTING_S = 15.0
POLL_S = 0.05


class Asking:
    """A script in progress at one server, over as many connections as it wants."""

    def __init__(self, address: str, stack: ExitStack) -> None:
        self._address = address
        self._stack = stack
        self._wires: dict[object, Wire] = {}

    def ask(self, step: Step, *, silent: bool = False) -> Said:
        # A broker has a connection of its own, as in life.
        wanted = (step.ext or {}).get("brokerAddr") if step.code in (REGISTER, HANG_UP) else None
        if step.code == HANG_UP:
            self._wires.pop(wanted).__exit__(None, None, None)
            return Said(0, {}, None, None)
        if wanted not in self._wires:
            self._wires[wanted] = self._stack.enter_context(Wire(self._address))
        wire = self._wires[wanted]
        return wire.ask(step.code, step.ext, step.body, version=step.version, encoding=step.encoding, silent=silent)


@contextmanager
def asking(server: Server) -> Iterator[Asking]:
    """Ask over fresh connections, and see to it afterwards that the server has forgotten all brokers."""
    with ExitStack() as stack:
        yield Asking(server.address, stack)
    deadline = time.monotonic() + FORGETTING_S
    with Wire(server.address) as wire:
        # A server of Apache's that drops a broker at this moment may fail to list them, and answers without a body.
        while (said := wire.ask(CLUSTER_INFO)).body is None or said.body["brokerAddrTable"]:
            assert time.monotonic() < deadline, f"{server.address} still has brokers: {said}"
            left = {} if said.body is None else said.body["brokerAddrTable"]
            for name, data in left.items():
                for broker_id, address in (data["brokerAddrs"] or {"0": "nobody:0"}).items():
                    wire.ask(UNREGISTER, broker(name, address, data["cluster"], broker_id))
            time.sleep(POLL_S)


@pytest.mark.parametrize("script", SCRIPTS)
def test_answers_are_apaches(script: str, ours: Server, apache: dict[str, Server]) -> None:
    with ExitStack() as stack:
        mine = stack.enter_context(asking(ours))
        theirs = {version: stack.enter_context(asking(server)) for version, server in apache.items()}
        complaints = []
        for step in SCRIPTS[script]:
            said = mine.ask(step)
            for version, peer in theirs.items():
                complaints += compare(step, version, said, peer)
        assert not complaints, "\n".join(complaints)


def compare(step: Step, version: str, said: Said, peer: Asking) -> list[str]:
    reason = step.differs.get(version)
    theirs = peer.ask(step, silent=reason == "unknown-code-4.9")
    deadline = time.monotonic() + SETTLE_S
    while step.settles and not agrees(step, version, said, theirs) and time.monotonic() < deadline:
        time.sleep(POLL_S)
        theirs = peer.ask(step)
    if agrees(step, version, said, theirs) != (reason is not None):
        return []
    if reason is not None:
        return [f"{step.label}: {version} agrees, so it is no longer true that {REASONS[reason]!r}"]
    return [f"{step.label}: we say   {said}\n{' ' * len(step.label)}  {version} says {theirs}"]


def agrees(step: Step, version: str, said: Said, theirs: Said) -> bool:
    if (said.code, said.fields) != (theirs.code, theirs.fields) or (step.remark and said.remark != theirs.remark):
        return False
    return said.body == theirs.body if version == NEW else contains(said.body, theirs.body)


def contains(ours: Any, theirs: Any, *, is_map: bool = False) -> bool:
    """Whether every member of theirs is in ours and the same there; maps, whose keys are data, have the same keys."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if is_map and ours.keys() != theirs.keys():
            return False
        return all(key in ours and contains(ours[key], value, is_map=key in MAPS) for key, value in theirs.items())
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(contains, ours, theirs))
    return bool(ours == theirs)


def test_every_reason_is_known() -> None:
    used = {reason for steps in SCRIPTS.values() for step in steps for reason in step.differs.values()}
    assert used == set(REASONS)
    assert {version for steps in SCRIPTS.values() for step in steps for version in step.differs} == {NEW, OLD}


def test_every_reason_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/name-server-differences.md").read_text()
    assert [reason for reason in REASONS if f"| {reason} |" not in page] == []
