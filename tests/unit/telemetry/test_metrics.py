"""The text of metrics, read back by Prometheus's own Python parser, and the numbers behind it."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from firearrow.telemetry.metrics import LINES_AT_ONCE, Family, Histogram, Registry, text
from firearrow.telemetry.readiness import Readiness


def read(page: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


@given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_any_label_and_help_reads_back(value: str, says: str, number: float) -> None:
    value = value.replace("\r", "")
    page = "".join(text([Family("m", "gauge", says.replace("\r", ""), [((("topic", value),), number)])], (("a", "b"),)))
    assert read(page) == {"m": {(("a", "b"), ("topic", value)): number}}


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 5))))
def test_a_histogram_counts_every_value_once(values: list[tuple[float, int]]) -> None:
    histogram = Histogram((1, 10, 50))
    for value, times in values:
        histogram.observe(value, times)
    found = read("".join(text([Family("h", "histogram", "", [((), histogram)])])))
    for bound in (1.0, 10.0, 50.0):
        below = sum(times for value, times in values if value <= bound)
        assert found["h_bucket"][(("le", str(bound)),)] == below
    assert found["h_count"][()] == histogram.count == sum(times for _, times in values)
    if values:
        spread = sorted(value for value, times in values for _ in range(times))
        half = spread[(len(spread) - 1) // 2]
        assert histogram.quantile(0.5) >= min(half, 50) or bisect_left(histogram.bounds, half) == 0


def test_a_registry_reads_numbers_when_it_is_asked() -> None:
    registry, held = Registry((("cluster", "c"),)), [1]
    sent = registry.counter("sent_total", "Sent")
    registry.gauge("held", "Held", lambda: held[0])
    sent.add(3)
    held[0] = 7
    found = read("".join(registry.text()))
    assert found == {"sent_total": {(("cluster", "c"),): 3.0}, "held": {(("cluster", "c"),): 7.0}}


def test_a_page_comes_in_pieces_and_samples_are_computed_in_between() -> None:
    made = []

    def samples() -> object:
        for number in range(5 * LINES_AT_ONCE):
            made.append(number)
            yield (("n", str(number)),), number

    pieces = text([Family("m", "gauge", "", samples())])  # type: ignore[arg-type]
    next(pieces)
    assert len(made) < 2 * LINES_AT_ONCE
    assert len(list(pieces)) >= 4


def test_a_server_is_ready_without_reasons() -> None:
    readiness, full = Readiness("it starts"), [""]
    readiness.add(lambda: full[0] or None)
    assert readiness.reasons() == ["it starts"]
    readiness.phase = None
    assert readiness.reasons() == []
    full[0] = "the disk is full"
    assert readiness.reasons() == ["the disk is full"]
