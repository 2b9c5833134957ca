"""The same requests to Apache's broker and to ours: equal answers, but for what cannot be equal."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from judges import ApacheBroker, FireArrowBroker, FireArrowNameServer
from judges.wire import ask
from tests.interop.broker.script import SENDS, TOPICS, Step
from tests.interop.nameserver.raw import Wire

pytestmark = pytest.mark.apache

OFF = {"rejectTransactionMessage": "true", "timerWheelEnable": "false", "enablePropertyFilter": "false"}
BOTH_OFF = {"timerWheelEnable": "false"}
"""What ours offers, and the differences of which other tests look at."""
PLACES = ("msgId", "indexLastUpdatePhyoffset", "indexLastUpdateTimestamp")

GET_RUNTIME_INFO = 28

Pair = tuple[ApacheBroker, FireArrowBroker]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Apache's broker with everything off that ours does not offer, and ours, each at a name server of its own."""
    with (
        FireArrowNameServer() as theirs,
        FireArrowNameServer() as ours,
        ApacheBroker(name_servers=[theirs.address], settings=OFF) as apache,
        FireArrowBroker(name_servers=[ours.address], settings=BOTH_OFF) as firearrow,
    ):
        yield apache, firearrow


DIFFERS = {
    "topic deleted": "Apache's cannot delete a topic without the timers that are switched off here",
    "topic deleted that is not there": "the same",
}


def answer(broker: ApacheBroker, step: Step) -> dict[str, Any]:
    with Wire(broker.address) as wire:
        said = wire.ask(step.code, step.ext, step.body, version=step.version)
    fields = {key: value for key, value in said.fields.items() if key not in PLACES}
    fields |= {key: "a place" for key in PLACES if key in said.fields}
    if not step.ext or "UNIQ_KEY" not in str(step.ext.get("i", step.ext.get("properties", ""))):
        fields = {key: "made up" if key == "transactionId" else value for key, value in fields.items()}
    return {
        "code": said.code,
        "remark": _comparable(said.remark or ""),
        "fields": fields,
        "body": said.body if step.body_matters else None,
    }


def _comparable(remark: str) -> str:
    if remark.startswith("java.lang.NullPointerException"):
        return "java.lang.NullPointerException"
    return re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", remark)


@pytest.mark.parametrize("step", [*SENDS, *TOPICS], ids=lambda step: step.what.replace(" ", "-"))
def test_answers_are_equal(pair: Pair, step: Step) -> None:
    apache, firearrow = pair
    if step.what in DIFFERS:
        assert answer(firearrow, step)["code"] == 0
        assert "TimerMessageStore" in answer(apache, step)["remark"]
        return
    assert answer(firearrow, step) == answer(apache, step)


def test_running_values_have_every_name_that_apache_s_have(pair: Pair) -> None:
    tables = [json.loads(ask(broker.address, GET_RUNTIME_INFO).body)["table"] for broker in pair]
    theirs, ours = ({re.sub(r"_/.*", "_PATH", name) for name in table} for table in tables)
    assert theirs - ours == set()
