"""The codes that a broker serves are those that the page of request codes names."""

import re
from pathlib import Path
from typing import Any

import pytest

from firearrow.protocol.codes import RequestCode
from firearrow.remoting.handlers import Handlers
from tests.unit.broker.whole import simulate

PAGE = Path(__file__).parents[3] / "docs/reference/request-codes.md"
ROW = re.compile(r"^\| (\d+) \| \w+<br>`[\w.]+` \| ([^|]+) \|", re.MULTILINE)


def test_a_broker_serves_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Handlers] = []

    class Seen(Handlers):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr("firearrow.broker.broker.Handlers", Seen)
    simulate(nothing)
    said = {int(code) for code, served in ROW.findall(PAGE.read_text()) if "broker" in served.split(", ")}
    (served,) = made
    assert {RequestCode(code).name for code in served.by_code} == {RequestCode(code).name for code in said}
