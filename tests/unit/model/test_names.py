import pytest

from firearrow.model import names


@pytest.mark.parametrize("name", ["T", "a-b_c|d%e", "0", "x" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250])
def test_legal_topics(name: str) -> None:
    assert names.topic_fault(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "..",
        "../x",
        "a/b",
        "a\x00b",
        "a\n",
        "a.b",
        "x" * 128,
        "%RETRY%" + "g" * 249,
        "\uff21",
        "\u202ea",
        "a b",
    ],
)
def test_illegal_topics(name: str) -> None:
    assert names.topic_fault(name) is not None


def test_group_limits() -> None:
    assert names.group_fault("g" * 120) is None
    fault = names.group_fault("g" * 121)
    assert fault is not None
    assert "120" in fault
    assert names.group_fault("a\n") is not None
    assert names.group_fault("") == "the group name is empty; write one with letters, digits, _ and -"


def test_a_long_name_is_not_repeated_in_full() -> None:
    assert len(names.topic_fault("x" * 100_000) or "") < 300


def test_system_topics() -> None:
    assert names.is_system_topic("TBW102")
    assert names.is_system_topic("rmq_sys_anything")
    assert not names.is_system_topic("Orders")
    assert "TBW102" not in names.UNSENDABLE_TOPICS
    assert names.SCHEDULE_TOPIC in names.UNSENDABLE_TOPICS
    assert names.is_system_group("CID_RMQ_SYS_TRANS")
    assert not names.is_system_group("orders")


def test_topics_derived_from_a_group() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.retry_topic("%RETRY%g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.is_retry_topic("%RETRY%g")
    assert names.is_dlq_topic("%DLQ%g")
    assert not names.is_dlq_topic("%RETRY%g")
    assert names.reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"
