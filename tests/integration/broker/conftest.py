"""Real brokers on the stock loop and on uvloop."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

Scenario = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(params=["stock", "uvloop"])
def run(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Callable[[Scenario], None]:
    """Run a scenario on a loop. What the loop or a handler raises, and would only be logged, fails it."""

    def runner(scenario: Scenario) -> None:
        errors: list[dict[str, Any]] = []

        async def checked() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
            async with asyncio.timeout(60):
                await scenario()

        with (
            caplog.at_level(logging.ERROR),
            asyncio.Runner(loop_factory=uvloop.new_event_loop if request.param == "uvloop" else None) as loop,
        ):
            loop.run(checked())
        assert not errors
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []

    return runner
