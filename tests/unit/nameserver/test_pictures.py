"""The tables that a name server shows: routes with acting masters, zones and order, clusters, lists, and what is kept
encoded."""

import json

from firearrow import fastjson
from firearrow.nameserver import pictures
from firearrow.nameserver.answers import EncodedRoutes
from firearrow.nameserver.config import NameServerConfig
from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingInfo
from firearrow.protocol.bodies.naming.route import ClusterInfo, TopicRouteData
from tests.unit.nameserver.cluster import Table, member


def test_both_forms_of_a_route_say_the_same() -> None:
    table = Table()
    mapping = TopicQueueMappingInfo(topic="T", bname="a", curr_id_map={0: 3})
    table.register(member(), table.announce("T", 'q"uote', mappings={"T": mapping}))
    table.join(member(broker_id=1, zone="z"), "T", "U")
    bare = pictures.route(table.routes, "T", bare=True)
    standard = pictures.route(table.routes, "T", bare=False)
    assert bare is not None
    assert standard is not None
    assert b'{0:"a0:1",1:"a1:1"}' in bare
    assert b'{"0":"a0:1","1":"a1:1"}' in standard
    assert b'"zoneName":"z"' in bare
    assert b" " not in standard, "the Go client splits addresses by hand"
    assert fastjson.decode(bare, TopicRouteData) == fastjson.decode(standard, TopicRouteData)
    assert pictures.route(table.routes, "T", bare=False) is standard, "kept"


def test_names_with_quotes_stay_json() -> None:
    table = Table()
    table.join(member('b"\\r', cluster="C\u00e9"), "T", "U")
    assert table.route("T")["brokerDatas"][0]["brokerName"] == 'b"\\r'
    assert table.route("T")["queueDatas"][0]["brokerName"] == 'b"\\r'


def test_an_acting_master_is_shown_as_master_when_it_is_configured_so() -> None:
    for supported in (False, True):
        table = Table(support_acting_master=supported)
        for broker_id in (0, 1, 2):
            table.join(member(broker_id=broker_id, acting_master=True), "T", "rmq_sys_SYNC_BROKER_MEMBER_a")
        table.leave(member())
        plain = {"1": "a1:1", "2": "a2:1"}
        assert table.addresses("T") == {"a": {"0": "a1:1", "2": "a2:1"} if supported else plain}
        assert table.addresses("rmq_sys_SYNC_BROKER_MEMBER_a") == {"a": plain}
        table.routes.topics.add_write("a")
        assert table.addresses("T") == {"a": plain}, "writable: an operator says there is a master"


def test_zones_keep_to_themselves_unless_a_master_is_down() -> None:
    table = Table()
    table.join(member("near", zone="Z1"), "T", "U")
    table.join(member("far", zone="z2"), "T", "U")
    table.join(member("none"), "T", "U")
    table.join(member("slave", broker_id=1, zone="z2"), "T", "U")
    shown = table.route("T", zone="z1")
    assert [b["brokerName"] for b in shown["brokerDatas"]] == ["near", "slave"]
    assert [q["brokerName"] for q in shown["queueDatas"]] == ["near", "slave"]
    assert table.route("nothing", zone="z1") is None
    assert len(table.addresses("T")) == 4


def test_order_is_shown_when_it_is_configured_so() -> None:
    table = Table()
    table.join(member(), "T", "U")
    order = {"T": "a:4"}
    table.routes.reconfigure(NameServerConfig(), order)
    assert "orderTopicConf" not in table.route("T")
    table.routes.reconfigure(NameServerConfig(order_message_enable=True), order)
    assert table.route("T")["orderTopicConf"] == "a:4"
    assert "orderTopicConf" not in table.route("U")


def test_clusters_are_shown_with_bare_ids() -> None:
    table = Table()
    assert pictures.cluster_info(table.routes) == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    table.join(member(), "T", "U")
    table.join(member("b", cluster="D"), "T", "U")
    info = fastjson.decode(pictures.cluster_info(table.routes), ClusterInfo)
    assert info.cluster_addr_table == {"C": ["a"], "D": ["b"]}
    assert info.broker_addr_table is not None
    assert info.broker_addr_table["a"].broker_addrs == {0: "a0:1"}


def test_members_of_a_name() -> None:
    table = Table()
    table.join(member(broker_id=1), "T", "U")
    shown = pictures.member_group(table.routes, "C", "a")
    assert shown == b'{"brokerMemberGroup":{"brokerAddrs":{1:"a1:1"},"brokerName":"a","cluster":"C"}}'
    assert b'"brokerAddrs":{}' in pictures.member_group(table.routes, "C", "b")


def test_lists_of_topics() -> None:
    table = Table()
    assert pictures.system_topics(table.routes) == (None, [])
    table.join(member(), "T", "U")
    table.register(member("b", cluster="D"), table.announce("T", "unit", sys_flag=1))
    table.register(member("c", cluster="D"), table.announce("sub", "sub2", sys_flag=2))
    table.register(member("d", cluster="D"), table.announce("both", "both2", sys_flag=3))
    topics = table.routes.topics
    assert pictures.system_topics(table.routes) == ("a0:1", ["C", "a", "D", "b", "c", "d"])
    assert topics.topics_at(table.routes.clusters["D"]) == ["T", "unit", "sub", "sub2", "both", "both2"]
    assert topics.units(unit=True, unit_sub=None) == ["unit", "both", "both2"]
    assert topics.units(unit=None, unit_sub=True) == ["sub", "sub2", "both", "both2"]
    assert topics.units(unit=False, unit_sub=True) == ["sub", "sub2"]


def test_permissions_of_a_broker() -> None:
    table = Table()
    table.join(member(), "T", "U")
    table.join(member("b"), "T", "V")
    assert table.routes.topics.wipe_write("a") == 2
    assert table.perms("T") == {"a": 4, "b": 6}
    assert table.routes.topics.add_write("a") == 2
    assert table.perms("T") == {"a": 6, "b": 6}
    assert table.routes.topics.wipe_write("nobody") == 0


def test_topics_deleted_and_added_by_hand() -> None:
    table = Table()
    table.join(member(), "T", "U")
    table.join(member("b", cluster="D"), "T", "V")
    table.routes.delete_topic("T", "nowhere")
    table.routes.delete_topic("T", "C")
    assert table.addresses("T") == {"b": {"0": "b0:1"}}
    table.routes.delete_topic("T", "D")
    assert table.route("T") is None
    table.routes.delete_topic("never was")
    queues = table.routes.topics.queues(3, 3, 6, 0)
    assert table.routes.add_topic("N", {"a": queues, "b": queues})
    assert set(table.addresses("N")) == {"a", "b"}
    assert not table.routes.add_topic("M", {"a": queues, "nobody": queues})
    assert table.route("M") is None


def test_answers_are_dropped_whenever_they_would_be_wrong() -> None:
    table = Table()
    table.join(member(), "T", "U")
    before = table.route("T")
    table.join(member(broker_id=1), "T", "U")
    assert table.route("T") != before
    table.leave(member(broker_id=1))
    assert table.route("T") == before
    table.join(member(zone="z"), "T", "U")
    assert table.route("T")["brokerDatas"][0]["zoneName"] == "z"


def test_kept_answers_stay_within_their_limit() -> None:
    answers = EncodedRoutes(limit_bytes=100)
    for number in range(10):
        answers.keep(f"T{number}", b"x" * 30, bare=number % 2 == 0)
        assert sum(map(len, [*answers.standard.values(), *answers.bare.values()])) <= 100
    answers.keep("huge", b"x" * 101, bare=False)
    assert "huge" not in answers.standard
    answers.drop("T9")
    answers.clear()
    assert not answers.standard
    assert not answers.bare


def test_equal_queues_are_one_object() -> None:
    table = Table()
    topics = table.routes.topics
    assert topics.queues(4, 4, 6, 0) is topics.queues(4, 4, 6, 0)
    assert json.loads(b"{" + topics.queues(1, 2, 6, 0).tail[1:]) == {
        "perm": 6,
        "readQueueNums": 1,
        "topicSysFlag": 0,
        "writeQueueNums": 2,
    }
