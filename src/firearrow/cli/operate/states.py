"""The printed form of the states of brokers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firearrow.cli.tables import print_table, time_text

if TYPE_CHECKING:
    from firearrow.admin.broker_state import BrokerState

COLUMNS = ["cluster", "broker", "id", "address", "version", "in/s", "out/s", "disk", "not dispatched", "started"]


def print_states(title: str, states: "Sequence[BrokerState]") -> None:
    """Print a row for every broker; one that does not answer says why."""
    print_table(title, COLUMNS, [_row(state) for state in states])


def _row(state: "BrokerState") -> tuple[object, ...]:
    member = state.member
    head = (member.cluster, member.name, member.broker_id, member.address)
    if state.fault:
        return (*head, f"does not answer: {state.fault}", "-", "-", "-", "-", "-")
    return (
        *head,
        state.version,
        f"{state.put_rate:.1f}",
        f"{state.get_rate:.1f}",
        f"{state.disk_ratio:.0%}",
        state.behind_bytes,
        time_text(state.booted_ms),
    )


def state_fields(state: "BrokerState") -> dict[str, object]:
    """Return the state of a broker for JSON."""
    member = state.member
    head = {"cluster": member.cluster, "broker": member.name, "brokerId": member.broker_id, "address": member.address}
    if state.fault:
        return {**head, "fault": state.fault}
    return {
        **head,
        "version": state.version,
        "inRate": state.put_rate,
        "outRate": state.get_rate,
        "diskRatio": state.disk_ratio,
        "notDispatchedBytes": state.behind_bytes,
        "started": state.booted_ms,
    }
