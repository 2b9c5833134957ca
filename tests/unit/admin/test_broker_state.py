"""The state of a broker, read from the table that Apache's and our brokers answer."""

from firearrow.admin.broker_state import BrokerState, read_state
from firearrow.admin.brokers import BrokerMember

MEMBER = BrokerMember("c", "broker-a", 0, "10.0.0.1:10911")


def test_figures_are_read_by_apaches_names() -> None:
    table = {
        "brokerVersionDesc": "V5_5_0",
        "putTps": "12.5 11.0 10.0",
        "getTransferedTps": "3.25 2 1",
        "msgPutTotalTodayNow": "42",
        "commitLogDiskRatio": "0.75",
        "dispatchBehindBytes": "100",
        "bootTimestamp": "1700000000000",
        "commitLogMaxOffset": "4096",
    }
    assert read_state(MEMBER, table) == BrokerState(
        MEMBER, "", "5.5.0", 12.5, 3.25, 42, 0.75, 100, 1_700_000_000_000, 4096
    )


def test_a_value_that_is_missing_or_no_number_counts_as_nothing() -> None:
    assert read_state(MEMBER, {"putTps": "", "commitLogDiskRatio": "-"}) == BrokerState(MEMBER)


def test_the_longest_step_is_read_with_its_time() -> None:
    state = read_state(MEMBER, {"firearrowLongestStep": "41.2 ms of CPU, share lookup, query.QueryHandlers._by_place"})
    assert (state.longest_step_ms, state.longest_step.endswith("_by_place")) == (41.2, True)
    assert BrokerState(MEMBER).longest_step_ms == 0
