"""Messages on their way out."""

import random
from datetime import UTC
from typing import get_type_hints

import msgspec
import pytest

from firearrow.client.producer.outgoing import (
    Portion,
    encoded_batch,
    entry_of,
    portions,
    prepare,
    prepare_batch,
    request_for,
)
from firearrow.client.producer.result import SendStatus, read_batch_result
from firearrow.client.producer.settings import ProducerOptions, ProducerSettings, producer_settings
from firearrow.errors import IllegalMessage, SettingsError
from firearrow.model import EpochMs, Message, MessageQueue, keys
from firearrow.protocol.requests.message.send import SendAnswer
from firearrow.record.batch import decode_batch
from firearrow.record.compression import decompress
from firearrow.record.message_id import UniqueKeys
from firearrow.record.properties import parse_properties

NOW = EpochMs(1_800_000_000_000)
SETTINGS = ProducerSettings(group="g")


def unique_keys() -> UniqueKeys:
    return UniqueKeys("10.0.0.1", 7, 99, UTC)


def test_a_message_gets_a_unique_key_and_keeps_the_one_it_has() -> None:
    outgoing = prepare(Message.of("T", b"x", tag="A"), SETTINGS, unique_keys(), NOW)
    assert parse_properties(outgoing.properties) == {"TAGS": "A", "UNIQ_KEY": outgoing.unique_key}
    again = prepare(Message.of("T", b"x", properties={keys.UNIQ_KEY: "K"}), SETTINGS, unique_keys(), NOW)
    assert again.unique_key == "K"


def test_large_bodies_are_compressed_and_those_that_do_not_shrink_are_not() -> None:
    small = prepare(Message.of("T", b"x" * 4096), SETTINGS, unique_keys(), NOW)
    assert small.sys_flag == 0
    large = prepare(Message.of("T", b"x" * 4097), SETTINGS, unique_keys(), NOW)
    assert decompress(large.body, large.sys_flag, 5000) == b"x" * 4097
    noise = random.Random(1).randbytes(5000)
    assert prepare(Message.of("T", noise), SETTINGS, unique_keys(), NOW).body == noise


@pytest.mark.parametrize(
    "message",
    [
        Message.of("", b""),
        Message.of("a b", b""),
        Message.of("T" * 128, b""),
        Message.of("SCHEDULE_TOPIC_XXXX", b""),
        Message.of("T", b"x" * (4 * 1024 * 1024 + 1)),
        Message.of("T", b"", properties={"a": "b\x02c\x01d"}),
    ],
)
def test_what_no_broker_takes_is_refused_here(message: Message) -> None:
    with pytest.raises(IllegalMessage):
        prepare(message, SETTINGS, unique_keys(), NOW)


def test_the_request_says_where_it_goes() -> None:
    outgoing = prepare(Message.of("T", b"x"), SETTINGS, unique_keys(), NOW)
    request = request_for(outgoing, MessageQueue("T", "b", 3), SETTINGS)
    assert (request.queue_id, request.broker_name, request.producer_group) == (3, "b", "g")


def test_what_may_not_travel_together_is_cut_apart_in_order() -> None:
    messages = [
        Message.of("T", b"1"),
        Message.of("T", b"2"),
        Message.of("T", b"3", delay_level=1),
        Message.of("T", b"4"),
        Message.of("U", b"5"),
        Message.of("T", b"6", sharding_key="a"),
        Message.of("T", b"7", sharding_key="a"),
        Message.of("T", b"8", sharding_key="b"),
    ]
    cut = [[message.body for message in portion.messages] for portion in portions(messages, SETTINGS)]
    assert cut == [[b"1", b"2"], [b"3"], [b"4"], [b"5"], [b"6", b"7"], [b"8"]]


def test_batches_are_cut_at_the_size_limit() -> None:
    settings = producer_settings("g", ProducerOptions(max_message_bytes=1000))
    messages = [Message.of("T", b"x" * 300) for _ in range(10)]
    cut = list(portions(messages, settings))
    assert sum(len(portion.messages) for portion in cut) == 10
    assert len(cut) > 3
    for portion in cut:
        if not portion.is_alone:
            entries = [entry_of(message, settings, unique_keys(), NOW) for message in portion.messages]
            assert len(prepare_batch(entries, settings, NOW).body) <= 1000


def test_a_batch_holds_its_messages_each_with_a_key_of_its_own() -> None:
    portion = Portion(tuple(Message.of("T", b"%d" % n, tag="A") for n in range(3)))
    made = unique_keys()
    batch = prepare_batch([entry_of(message, SETTINGS, made, NOW) for message in portion.messages], SETTINGS, NOW)
    inside = decode_batch(batch.body, "T")
    assert [message.body for message in inside] == [b"0", b"1", b"2"]
    assert tuple(message.properties[keys.UNIQ_KEY] for message in inside) == batch.unique_keys
    assert len(set(batch.unique_keys)) == 3


def test_every_message_of_a_batch_has_a_result_of_its_own() -> None:
    answer = SendAnswer(msg_id="X,Y", queue_id=1, queue_offset=5)
    results = read_batch_result(10, answer, MessageQueue("T", "b", 0), ["k1", "k2"])
    assert [(r.message_id, r.offset_message_id, r.queue_offset) for r in results] == [("k1", "X", 5), ("k2", "Y", 6)]
    assert results[0].status is SendStatus.FLUSH_DISK_TIMEOUT
    assert not results[0].is_ok


def test_settings_are_checked_and_options_are_the_same_list() -> None:
    with pytest.raises(SettingsError):
        producer_settings("g", ProducerOptions(send_timeout_ms=0))
    with pytest.raises(SettingsError):
        producer_settings("bad group", ProducerOptions())
    settings = {field.name for field in msgspec.structs.fields(ProducerSettings)} - {"group"}
    assert settings == set(get_type_hints(ProducerOptions))


def test_a_batch_that_was_encoded_before_says_what_its_messages_share() -> None:
    waiting = encoded_batch("T", b"encoded", "false", NOW, SETTINGS)
    assert parse_properties(waiting.properties) == {keys.WAIT: "false"}
    assert encoded_batch("T", b"encoded", None, NOW, SETTINGS).properties == ""
    with pytest.raises(IllegalMessage, match="more than max_message_bytes"):
        encoded_batch("T", b"x" * 11, None, NOW, ProducerSettings(max_message_bytes=10))
    with pytest.raises(IllegalMessage):
        encoded_batch("no topic!", b"x", None, NOW, SETTINGS)
