"""The settings of quotas: what they mean, and what is refused."""

import pytest

from firearrow.broker.settings.config import CHANGEABLE, load_settings
from firearrow.errors import SettingsError
from firearrow.quotas.settings import Measure, QuotaConfig, QuotaKind
from firearrow.settings import Source
from firearrow.settings.schema import leaves


def read(text: str) -> QuotaConfig:
    return load_settings([Source.from_text("broker.conf", text)]).value.quotas


def test_nothing_is_limited_unless_it_is_set() -> None:
    assert QuotaConfig().limits() == ()
    assert all(leaf.default in (0, "") for leaf in leaves(QuotaConfig))


def test_limits_and_overrides_are_read() -> None:
    quotas = read("quotaTopicBytes=1000\nquotaOverrides=topicBytes:orders=50, topicBytes:free=0,userRequests:a:b=c=7\n")
    topic, user = sorted(quotas.limits(), key=lambda limit: limit.kind)
    assert (topic.kind, topic.measure, topic.key) == (QuotaKind.TOPIC, Measure.BYTES, "quotaTopicBytes")
    assert [topic.of(name) for name in ("orders", "free", "other")] == [50, 0, 1000]
    assert (user.kind, user.of("a:b=c"), user.of("other")) == (QuotaKind.USER, 7, 0)


def test_an_override_of_zero_alone_limits_nothing() -> None:
    assert read("quotaOverrides=topicBytes:orders=0").limits() == ()


@pytest.mark.parametrize(
    "line",
    [
        "quotaTopicBytes=-1",
        "quotaTopicBytes=1000000000001",
        "quotaClientRequests=many",
        "quotaConnectionsPerAddress=-1",
        "quotaOverrides=orders:5",
        "quotaOverrides=topicBytes:orders",
        "quotaOverrides=topicBytes:=5",
        "quotaOverrides=topicBites:orders=5",
        "quotaOverrides=topicBytes:orders=-5",
        "quotaOverrides=topicBytes:orders=1e3",
        "quotaOverrides=topicBytes:orders=1000000000001",
        "quotaOverrides=topicBytes:orders=" + "9" * 5000,
        "quotaOverrides=topicBytes:orders=" + "0" * 20 + "9" * 400,
    ],
)
def test_what_is_no_limit_is_refused(line: str) -> None:
    with pytest.raises(SettingsError, match=line.partition("=")[0]):
        read(line)


def test_every_quota_may_be_changed_while_the_broker_runs() -> None:
    assert {leaf.apache_name for leaf in leaves(QuotaConfig)} <= CHANGEABLE
