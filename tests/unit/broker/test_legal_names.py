"""Names in tables from elsewhere."""

import logging

import pytest

from firearrow.broker.tables.groups import SubscriptionGroups
from firearrow.broker.tables.legal_names import with_legal_names
from firearrow.broker.tables.topics import TopicTable


def test_rows_with_illegal_names_are_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    table = dict.fromkeys(["orders", "%RETRY%g", "../x", "a.b", "", "x" * 255, "x" * 256, "a\n"])
    with caplog.at_level(logging.ERROR):
        assert list(with_legal_names(table, "topics")) == ["orders", "%RETRY%g", "x" * 255]
    assert "5 topics are left out" in caplog.text
    assert "'../x'" in caplog.text


def test_a_row_has_the_name_of_its_key() -> None:
    topics, groups = TopicTable(), SubscriptionGroups()
    topics.restore(b'{"dataVersion":{},"topicConfigTable":{"orders":{"topicName":"../x"},"../y":{"topicName":"y"}}}')
    groups.restore(b'{"dataVersion":{},"subscriptionGroupTable":{"g":{"groupName":"../x"},"../y":{}}}')
    assert {name: topic.topic_name for name, topic in topics.topics.items()} == {"orders": "orders"}
    group = groups.get("g")
    assert group is not None
    assert group.group_name == "g"
    assert "../y" not in groups
