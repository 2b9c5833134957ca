"""``firearrow recall`` on Apache 5.5.0, Apache 4.9.7 and ours."""

import pytest

from firearrow.record.recall_handle import RecallHandle, encode_handle
from judges import ApacheBroker, fresh
from judges.server_process import wait_for
from judges.wire import SUCCESS, UPDATE_BROKER_SETTINGS, ask
from tests.interop.cli.commands import Commands
from tests.interop.client.test_timers import has_no_timers

pytestmark = pytest.mark.apache


def allow(broker: ApacheBroker, *, allowed: bool) -> None:
    setting = f"recallMessageEnable={str(allowed).lower()}"
    assert ask(broker.address, UPDATE_BROKER_SETTINGS, body=setting.encode()).code == SUCCESS


def test_messages_are_recalled_until_they_are_due(command: Commands, broker: ApacheBroker) -> None:
    if has_no_timers(broker):
        pytest.skip("brokers of 4.9 have no timers")
    topic = broker.create_topic(fresh("recalled"), 1)
    allow(broker, allowed=True)
    sent = command.json_lines("produce", topic, "--delay", "1h", stdin="one\ntwo\nthree\nfour\n")
    one, two, three, four = (each["recallHandle"] for each in sent)
    assert f"1 message was recalled from {topic}" in command("recall", topic, one)
    recalled = command.json_lines("recall", topic, two, three)
    assert recalled == [{"messageId": each["messageId"], "recallHandle": each["recallHandle"]} for each in sent[1:3]]

    (late,) = command.json_lines("produce", topic, "-m", "late", "--delay", "1s")
    wait_for(lambda: command.json_lines("consume", topic) != [], "the message that was not recalled", 30)
    refused = command.fails("recall", topic, four, late["recallHandle"])
    assert "a message can be recalled until it is due, from its own topic" in refused
    assert "1 message was recalled before it." in refused
    assert len(refused.splitlines()) == 1


def test_a_recall_that_is_not_allowed_says_what_to_set(command: Commands, broker: ApacheBroker) -> None:
    if has_no_timers(broker):
        pytest.skip("brokers of 4.9 have no timers")
    topic = broker.create_topic(fresh("forbidden"), 1)
    allow(broker, allowed=False)
    (sent,) = command.json_lines("produce", topic, "-m", "x", "--delay", "5s")
    assert "set recallMessageEnable=true" in command.fails("recall", topic, sent["recallHandle"])
    allow(broker, allowed=True)


def test_a_broker_without_recalls_says_so(command: Commands, broker: ApacheBroker) -> None:
    if not has_no_timers(broker):
        pytest.skip("this broker has recalls")
    topic = broker.create_topic(fresh("old"), 1)
    handle = encode_handle(RecallHandle(topic, broker.name, "1", "key"))
    assert "brokers from 5.3 on recall messages" in command.fails("recall", topic, handle)
