"""The same requests to Apache's broker and to ours: equal answers, but for what cannot be equal."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from judges import ApacheBroker, FireArrowBroker, FireArrowNameServer
from judges.server_process import wait_for
from judges.wire import ask
from tests.interop.broker.script import NOT_OFFERED, SENDS, TOPICS, Step
from tests.interop.nameserver.raw import Wire

pytestmark = pytest.mark.apache

APACHE = {"enablePropertyFilter": "true"}
"""Settings that are on by default at our broker alone."""
PLACES = ("msgId", "indexLastUpdatePhyoffset", "indexLastUpdateTimestamp")

GOES_ON = ("recall",)
"""Remarks of ours that begin with Apache's words and go on with the setting to change."""

COUNTED = ("all topics, a page",)
"""Answers that count what the brokers make by themselves, each in its own time."""

GET_RUNTIME_INFO = 28

Pair = tuple[ApacheBroker, FireArrowBroker]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Apache's broker and ours, each at a name server of its own."""
    with (
        FireArrowNameServer() as theirs,
        FireArrowNameServer() as ours,
        ApacheBroker(name_servers=[theirs.address], settings=APACHE) as apache,
        FireArrowBroker(name_servers=[ours.address]) as firearrow,
    ):
        yield apache, firearrow


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


@pytest.mark.parametrize("step", NOT_OFFERED, ids=lambda step: step.what.replace(" ", "-"))
def test_types_of_messages_that_are_not_offered_are_refused(pair: Pair, step: Step) -> None:
    apache, ours = (answer(broker, step) for broker in pair)
    answer(pair[0], Step("topic deleted", 215, {"topic": (step.ext or {})["topic"]}))
    assert apache["code"] == 0
    assert ours["code"] == 1
    assert "cannot be honoured" in ours["remark"]


@pytest.mark.parametrize("step", [*SENDS, *TOPICS], ids=lambda step: step.what.replace(" ", "-"))
def test_answers_are_equal(pair: Pair, step: Step) -> None:
    apache, firearrow = pair
    if step.what in COUNTED:  # both make a topic for a delayed message a little after they took it
        wait_for(lambda: answer(firearrow, step) == answer(apache, step), f"the same answer to {step.what!r}")
    ours, theirs = answer(firearrow, step), answer(apache, step)
    if step.what in GOES_ON:
        assert ours["remark"].startswith(f"{theirs['remark']}: ")
        ours["remark"] = theirs["remark"]
    assert ours == theirs, f"the brokers answer {step.what!r} differently"


def test_running_values_have_every_name_that_apache_s_have(pair: Pair) -> None:
    tables = [json.loads(ask(broker.address, GET_RUNTIME_INFO).body)["table"] for broker in pair]
    theirs, ours = ({re.sub(r"_/.*", "_PATH", name) for name in table} for table in tables)
    assert theirs - ours == set()
