"""A plain send goes through a bounded number of calls and files, as `benchmarks.versus.walk` counts them."""

import asyncio
from typing import Any

import pytest

from benchmarks.versus.walk import Step, files_of, shortest_of, walks_of_sends
from firearrow.broker.handlers.message.send import SendHandlers
from firearrow.broker.send.replies import SendReplies

CALLS_MAX = 47
FILES_MAX = 23


def walk() -> list[Step]:
    return shortest_of(asyncio.run(walks_of_sends(warm_up=40, count=10)))


@pytest.fixture(scope="module")
def steps() -> list[Step]:
    return walk()


def test_a_plain_send_goes_through_few_calls_and_files(steps: list[Step]) -> None:
    shown = "\n".join(f"{'  ' * step.depth}{step.function}  {step.file}" for step in steps)
    assert len(steps) <= CALLS_MAX, f"{len(steps)} calls:\n{shown}"
    assert files_of(steps) <= FILES_MAX, f"{files_of(steps)} files:\n{shown}"


def test_another_call_on_the_way_is_counted(steps: list[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    send = SendHandlers.send

    def sends(self: SendHandlers, *asked: Any) -> Any:
        self.replies.ids_of([1])
        return send(self, *asked)

    monkeypatch.setattr(SendHandlers, "send", sends)
    after = walk()
    assert SendReplies.ids_of.__qualname__ in {step.function for step in after}
    assert len(after) > len(steps)
    assert files_of(after) > files_of(steps)
