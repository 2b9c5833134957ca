"""Joining: who is seated where, and which topics are taken over."""

from firearrow.nameserver.effects import Notice, RegistrationOutcome
from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingInfo
from tests.unit.nameserver.cluster import Table, member


def test_a_master_with_its_topics_makes_a_route() -> None:
    table = Table()
    assert table.join(member(), "T", "U") == RegistrationOutcome(is_new=True)
    assert table.route("T") == {
        "brokerDatas": [
            {"brokerAddrs": {"0": "a0:1"}, "brokerName": "a", "cluster": "C", "enableActingMaster": False},
        ],
        "filterServerTable": {},
        "queueDatas": [{"brokerName": "a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}],
    }
    assert table.route("V") is None


def test_a_slave_is_told_where_its_master_is() -> None:
    table = Table()
    assert table.join(member(broker_id=1), "T", "U") == RegistrationOutcome(is_new=True)
    table.join(member(), "T", "U")
    answer = table.join(member(broker_id=1), "T", "U")
    assert answer == RegistrationOutcome(master_address="a0:1", ha_address="a0:1ha", is_new=False)
    assert table.addresses("T") == {"a": {"0": "a0:1", "1": "a1:1"}}


def test_an_old_slave_brings_no_topics_but_a_new_one_without_master_does() -> None:
    table = Table()
    table.join(member(broker_id=1, acting_master=None), "T", "U")
    assert table.route("T") is None
    table.join(member(broker_id=1, acting_master=False), "T", "U", counter=2)
    assert table.perms("T") == {"a": 6}
    table.join(member(broker_id=2, acting_master=False), "V", "W")
    assert table.route("V") is None, "2 is not the lowest id"


def test_an_acting_master_brings_its_topics_read_only() -> None:
    table = Table()
    table.join(member(broker_id=1, acting_master=True), "T", "U")
    assert table.perms("T") == {"a": 4}
    table.join(member(acting_master=True), "T", "U")
    assert table.perms("T") == {"a": 6}


def test_a_stranger_with_a_single_topic_is_refused_without_a_trace() -> None:
    table = Table()
    assert table.join(member(), "T") is None
    assert not table.routes.names
    assert not table.routes.clusters
    assert not table.routes.leases
    table.join(member(), "T", "U")
    assert table.join(member(), "V", counter=2) is not None
    assert set(table.routes.topics.topics()) == {"T", "U", "V"}
    assert table.join(member(broker_id=1), "T") is None, "an id not seen before is a stranger too"


def test_a_registration_adds_and_never_removes() -> None:
    table = Table()
    table.join(member(), "T", "U")
    table.join(member(), "U", "V", counter=2)
    assert table.routes.topics.topics() == ["T", "U", "V"]


def test_a_registration_is_the_whole_table_when_it_is_configured_so() -> None:
    table = Table(delete_topic_with_broker_registration=True)
    table.join(member(), "T", "U")
    table.join(member("b"), "T", "U")
    table.join(member(), "U", "V")
    assert list(table.routes.topics.at("a")) == ["U", "V"]
    assert table.addresses("T") == {"b": {"0": "b0:1"}}
    static = {"S": TopicQueueMappingInfo(topic="S", bname="a")}
    table.register(member(), table.announce("V", "W", counter=2, mappings=static))
    assert list(table.routes.topics.at("a")) == ["U", "V", "W"], "not while it has static topics"


def test_queues_are_rewritten_only_in_a_new_edition() -> None:
    table = Table()
    table.join(member(), "T", "U")
    table.routes.topics.wipe_write("a")
    table.join(member(), "T", "U")
    assert table.perms("T") == {"a": 4}, "the same edition does not undo what an operator did"
    table.join(member(), "T", "U", counter=2)
    assert table.perms("T") == {"a": 6}


def test_a_topic_deleted_here_comes_back_with_the_next_registration() -> None:
    table = Table()
    table.join(member(), "T", "U", digest=b"x")
    table.routes.delete_topic("T")
    assert not table.routes.repeats(member(), b"x")
    table.join(member(), "T", "U", digest=b"x")
    assert table.perms("T") == {"a": 6}


def test_the_same_words_again_are_a_repetition_until_something_changes() -> None:
    table = Table()
    table.join(member(), "T", "U", digest=b"x")
    assert table.routes.repeats(member(), b"x")
    assert not table.routes.repeats(member(), b"y")
    assert not table.routes.repeats(member(zone="z"), b"x")
    assert not table.routes.repeats(member("b"), b"x")
    table.routes.topics.wipe_write("a")
    assert table.routes.repeats(member(), b"x"), "an operator's doing is not undone by a repetition"
    table.join(member(broker_id=1), "T", "U")
    assert not table.routes.repeats(member(), b"x"), "a member came"
    table.join(member(), "T", "U", digest=b"x")
    table.routes.add_topic("N", {"a": table.routes.topics.queues(1, 1, 6, 0)})
    assert not table.routes.repeats(member(), b"x"), "a topic came"
    table.join(member(), "T", "U", digest=b"x")
    table.leave(member())
    assert not table.routes.repeats(member(), b"x"), "it left"


def test_an_address_has_one_id() -> None:
    table = Table()
    table.join(member(broker_id=1, address="x:1"), "T", "U")
    table.join(member(broker_id=0, address="x:1"), "T", "U")
    assert table.routes.names["a"].addresses == {0: "x:1"}


def test_an_address_has_one_name() -> None:
    table = Table()
    table.join(member("old", address="x:1"), "T", "U")
    table.join(member("new", address="x:1"), "T", "U")
    assert list(table.routes.names) == ["new"]
    assert table.addresses("T") == {"new": {"0": "x:1"}}
    assert table.routes.clusters == {"C": {"new": None}}


def test_an_id_moves_to_the_address_with_the_newer_state() -> None:
    table = Table()
    table.register(member(address="x:1"), table.announce("T", "U", state=5))
    assert table.register(member(address="y:1"), table.announce("T", "U", state=4)) == RegistrationOutcome()
    assert table.addresses("T") == {"a": {"0": "x:1"}}
    assert table.routes.version("C", "y:1") is None
    table.register(member(address="y:1"), table.announce("T", "U", state=5))
    assert table.addresses("T") == {"a": {"0": "y:1"}}
    assert table.routes.version("C", "x:1") is None


def test_an_overruled_member_loses_the_seat_it_had() -> None:
    table = Table()
    table.register(member(address="x:1"), table.announce("T", "U", state=5))
    table.register(member(address="y:1", broker_id=1), table.announce("T", "U", state=4))
    table.register(member(address="y:1", broker_id=0), table.announce("T", "U", state=4))
    assert table.routes.names["a"].addresses == {0: "x:1"}
    assert list(table.routes.leases) == [("C", "x:1")]


def test_a_cluster_renamed_while_its_broker_runs_leaves_one_lease() -> None:
    table = Table()
    table.join(member(cluster="C1"), "T", "U")
    table.join(member(cluster="C2"), "T", "U")
    assert list(table.routes.leases) == [("C2", "a0:1")]
    table.leave(member(cluster="C2"))
    assert not table.routes.clusters
    assert not table.routes.names


def test_the_others_hear_of_a_lower_id() -> None:
    table = Table(notify_min_broker_id_changed=True)
    table.join(member(broker_id=2), "T", "U")
    table.join(member(broker_id=3), "T", "U")
    answer = table.join(member(broker_id=1), "T", "U")
    assert answer is not None
    notice = Notice(to=("a2:1", "a3:1"), min_broker_id=1, min_broker_address="a1:1", ha_address="a1:1ha")
    assert answer.notices == (notice,)
    quiet = Table()
    quiet.join(member(broker_id=2), "T", "U")
    answer = quiet.join(member(broker_id=1), "T", "U")
    assert answer is not None
    assert not answer.notices


def test_static_topics_are_shown_by_broker() -> None:
    table = Table()
    mapping = TopicQueueMappingInfo(topic="T", bname="a", total_queues=2, epoch=3, curr_id_map={0: 0, 1: 1})
    table.register(member(), table.announce("T", "U", mappings={"T": mapping}))
    shown = table.route("T")["topicQueueMappingByBroker"]
    assert shown["a"]["currIdMap"] == {"0": 0, "1": 1}
    assert "topicQueueMappingByBroker" not in table.route("U")


def test_filter_servers_come_and_go() -> None:
    table = Table()
    table.register(member(), table.announce("T", "U", filter_servers=["f:1"]))
    assert table.route("T")["filterServerTable"] == {"a0:1": ["f:1"]}
    table.register(member(), table.announce("T", "U", filter_servers=[]))
    assert table.route("T")["filterServerTable"] == {}
