"""The metrics of quotas."""

from collections.abc import Iterator

from firearrow.quotas.throttle import Throttle
from firearrow.remoting.endpoint import AddressCounts
from firearrow.telemetry.metrics import Family

PER_ADDRESS = (("quota", "address"), ("measure", "connections"))


class QuotaMetrics:
    """The metrics of quotas: refusals since the start, and the limits in force."""

    def __init__(self, throttle: Throttle, per_address: AddressCounts) -> None:
        self._throttle = throttle
        self._per_address = per_address

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        throttle, per_address = self._throttle, self._per_address
        refused = [
            ((("quota", kind.value), ("measure", measure.value)), float(count))
            for (kind, measure), count in throttle.throttled.items()
        ]
        refused.append((PER_ADDRESS, float(per_address.refused.total)))
        says = "Requests and connections refused because a quota was used up"
        yield Family("firearrow_quota_throttled_total", "counter", says, refused)
        limits = dict.fromkeys(throttle.throttled, 0)
        limits |= {(buckets.limit.kind, buckets.limit.measure): buckets.limit.default for buckets in throttle.buckets()}
        rows = [
            ((("quota", kind.value), ("measure", measure.value)), float(rate))
            for (kind, measure), rate in limits.items()
        ]
        rows.append((PER_ADDRESS, float(per_address.limit)))
        yield Family("firearrow_quota_limit", "gauge", "Limits of names without one of their own; 0: none", rows)
        held = [((), float(throttle.held.count))]
        yield Family("firearrow_quota_held", "gauge", "Requests of stock clients that are held back now", held)
        names = [((), float(sum(map(len, throttle.buckets()))))]
        yield Family("firearrow_quota_names", "gauge", "Users, clients, topics and groups that are counted now", names)
