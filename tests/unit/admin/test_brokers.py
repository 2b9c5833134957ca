"""Changes at several servers: all are asked, and a failure says where the change was made and where it was not."""

import asyncio
from typing import Any

import pytest

from firearrow.admin.brokers import Brokers, at_each
from firearrow.errors import ConnectionFailed, PartlyDone, RequestTimedOut
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.config import GetBrokerConfig, UpdateBrokerConfig
from firearrow.runtime.network import Address


async def done() -> int:
    return 1


async def refused() -> int:
    raise ConnectionFailed("nothing listens there")


async def late() -> int:
    raise RequestTimedOut("no answer")


def test_results_come_in_order() -> None:
    assert asyncio.run(at_each({"a": done, "b": done})) == [1, 1]


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_failure_keeps_nobody_else_from_the_change(order: tuple[str, ...]) -> None:
    acts = {"a": done, "b": refused}
    with pytest.raises(PartlyDone, match="done at a, but not at b: nothing listens there") as told:
        asyncio.run(at_each({place: acts[place] for place in order}))
    assert not told.value.retryable  # whoever is told that would read that nothing was changed


def test_what_failed_everywhere_may_have_happened_if_it_may_have_anywhere() -> None:
    with pytest.raises(RequestTimedOut) as told:
        asyncio.run(at_each({"a": refused, "b": late}))
    assert told.value.__notes__ == ["It was done neither at a nor at b."]


def test_one_server_that_fails_is_told_as_it_failed() -> None:
    with pytest.raises(ConnectionFailed) as told:
        asyncio.run(at_each({"a": refused}))
    assert not hasattr(told.value, "__notes__")


class Silent:
    """A caller whose server never answers."""

    async def call(self, *_given: object, **_named: object) -> object:
        raise RequestTimedOut("no answer")


@pytest.mark.parametrize(("request_", "may_have_happened"), [(GetBrokerConfig(), False), (UpdateBrokerConfig(), True)])
def test_a_question_without_an_answer_changed_nothing(request_: Request[Any], may_have_happened: bool) -> None:
    brokers = Brokers(Silent(), None, 1.0)  # type: ignore[arg-type]
    with pytest.raises(RequestTimedOut) as told:
        asyncio.run(brokers.ask(Address("127.0.0.1", 1), request_))
    assert told.value.may_have_happened is may_have_happened
