"""Leaving: by saying so, by a connection's end, by silence."""

from firearrow.nameserver.effects import Notice, RemovalOutcome
from tests.unit.nameserver.cluster import Table, member


def test_the_last_member_takes_the_name_its_topics_and_its_cluster_along() -> None:
    table = Table()
    table.join(member(), "T", "U")
    table.join(member("b", cluster="D"), "T", "V")
    departed = table.leave(member())
    assert departed == RemovalOutcome(members=(member(),), names=("a",))
    assert table.routes.topics.topics() == ["T", "V"]
    assert table.addresses("T") == {"b": {"0": "b0:1"}}
    assert table.routes.clusters == {"D": {"b": None}}


def test_a_name_lives_while_it_has_a_member() -> None:
    table = Table()
    table.join(member(), "T", "U")
    table.join(member(broker_id=1), "T", "U")
    assert table.leave(member()).names == ()
    assert table.addresses("T") == {"a": {"1": "a1:1"}}
    assert table.perms("T") == {"a": 6}, "the write permission goes with acting masters only"


def test_without_its_master_an_acting_name_is_read_only() -> None:
    table = Table()
    table.join(member(acting_master=True), "T", "U")
    table.join(member(broker_id=1, acting_master=True), "T", "U")
    table.leave(member())
    assert table.perms("T") == {"a": 4}
    table.join(member(acting_master=True), "T", "U")
    assert table.perms("T") == {"a": 6}


def test_a_stranger_cannot_leave() -> None:
    table = Table()
    table.join(member(), "T", "U")
    assert table.leave(member("b")) == RemovalOutcome()
    assert table.leave(member(address="elsewhere:1")) == RemovalOutcome()
    assert table.addresses("T") == {"a": {"0": "a0:1"}}


def test_whoever_says_the_wrong_cluster_leaves_all_the_same() -> None:
    table = Table()
    table.join(member(), "T", "U")
    table.leave(member(cluster="elsewhere"))
    assert not table.routes.names
    assert not table.routes.leases
    assert not table.routes.clusters


def test_a_connection_takes_everybody_on_it_along() -> None:
    table = Table()
    wire, other = object(), object()
    table.join(member("a"), "T", "U", connection=wire)
    table.join(member("b"), "T", "U", connection=wire)
    table.join(member("c"), "T", "U", connection=other)
    assert table.routes.disconnected(wire).names == ("a", "b")
    assert table.addresses("T") == {"c": {"0": "c0:1"}}
    assert table.routes.disconnected(wire) == RemovalOutcome()


def test_an_old_connection_takes_nobody_who_came_back_on_a_new_one() -> None:
    table = Table()
    old, new = object(), object()
    table.join(member(), "T", "U", connection=old, digest=b"x")
    assert table.routes.repeats(member(), b"x")
    table.routes.renew(member(), new, table.now_ms)
    assert table.routes.disconnected(old) == RemovalOutcome()
    assert table.addresses("T") == {"a": {"0": "a0:1"}}
    assert table.routes.disconnected(new).names == ("a",)


def test_silence_ends_a_lease_after_the_members_own_timeout() -> None:
    table = Table()
    slow, fast, wire = member("slow"), member("fast", timeout_ms=5_000), object()
    table.join(slow, "T", "U")
    table.join(fast, "T", "U", connection=wire)
    assert table.routes.expire(table.now_ms + 5_000) == RemovalOutcome()
    departed = table.routes.expire(table.now_ms + 5_001)
    assert departed.members == (fast,)
    assert departed.connections == (wire,)
    assert table.addresses("T") == {"slow": {"0": "slow0:1"}}
    assert table.routes.expire(table.now_ms + 120_001).names == ("slow",)


def test_any_sign_of_life_renews_a_lease() -> None:
    table = Table()
    table.join(member(timeout_ms=5_000), "T", "U", digest=b"x")
    table.routes.heard_from("C", "a0:1", table.now_ms + 4_000)
    table.routes.heard_from("C", "nobody:1", table.now_ms + 4_000)
    assert table.routes.expire(table.now_ms + 8_000) == RemovalOutcome()
    table.routes.renew(member(timeout_ms=5_000), None, table.now_ms + 8_000)
    assert table.routes.expire(table.now_ms + 13_000) == RemovalOutcome()
    assert table.routes.expire(table.now_ms + 13_001).names == ("a",)


def test_the_rest_hear_that_the_lowest_id_went_offline() -> None:
    table = Table(notify_min_broker_id_changed=True)
    for broker_id in range(3):
        table.join(member(broker_id=broker_id, acting_master=True), "T", "U")
    assert table.leave(member(broker_id=2)).notices == ()
    notice = Notice(to=("a1:1",), min_broker_id=1, min_broker_address="a1:1", offline_address="a0:1")
    assert table.leave(member(broker_id=0)).notices == (notice,)
    assert table.leave(member(broker_id=1)).notices == ()


def test_nobody_hears_where_no_acting_master_is_wanted() -> None:
    table = Table(notify_min_broker_id_changed=True)
    for broker_id in range(2):
        table.join(member(broker_id=broker_id), "T", "U")
    assert table.leave(member(broker_id=0)).notices == ()


def test_a_slave_brings_its_own_table_once_it_stands_for_the_name() -> None:
    table = Table()
    table.register(member(), table.announce("T", "U", counter=1, read=4))
    newer = table.announce("T", "U", counter=2, read=8)
    table.register(member(broker_id=1), newer)
    assert table.route("T")["queueDatas"][0]["readQueueNums"] == 4
    table.leave(member())
    table.register(member(broker_id=1), newer)
    assert table.route("T")["queueDatas"][0]["readQueueNums"] == 8
