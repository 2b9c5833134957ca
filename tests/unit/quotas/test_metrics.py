"""The metrics of quotas: a row for every quota, whatever is limited."""

from firearrow.quotas.metrics import QuotaMetrics
from firearrow.quotas.settings import QuotaConfig
from firearrow.quotas.throttle import Throttle
from firearrow.remoting.endpoint import AddressCounts


def test_every_quota_has_its_limit_and_its_refusals() -> None:
    throttle, per_address = Throttle(lambda: None, lambda _peer: None), AddressCounts()
    throttle.configure(QuotaConfig(quota_topic_bytes=7, quota_overrides="userRequests:a=3"))
    per_address.limit = 2
    shown = {
        family.name: dict(filter(None, family.samples)) for family in QuotaMetrics(throttle, per_address).families()
    }
    limits = {tuple(value for _, value in labels): sample for labels, sample in shown["firearrow_quota_limit"].items()}
    assert len(limits) == len(shown["firearrow_quota_throttled_total"]) == 9
    assert {name: limit for name, limit in limits.items() if limit} == {
        ("topic", "bytes"): 7.0,
        ("address", "connections"): 2.0,
    }
