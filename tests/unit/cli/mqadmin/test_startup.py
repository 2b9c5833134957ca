"""``mqadmin`` before a cluster is asked: names, options, usage, exit statuses, reasons."""

import ast
import inspect
import sys
import textwrap
from pathlib import Path

import pytest

from firearrow.cli.mqadmin import out_of_scope
from firearrow.cli.mqadmin.account import policies, users
from firearrow.cli.mqadmin.broker import exports, replication, settings, upkeep
from firearrow.cli.mqadmin.catalogue import MODULES, VERBS, found_verb
from firearrow.cli.mqadmin.cluster import listing, name_servers
from firearrow.cli.mqadmin.command_line import WrongOptions, read_options, usage
from firearrow.cli.mqadmin.group import changes as group_changes
from firearrow.cli.mqadmin.group import clients, offsets, progress
from firearrow.cli.mqadmin.message import lookup, reading, sending
from firearrow.cli.mqadmin.startup import reach, start
from firearrow.cli.mqadmin.topic import changes as topic_changes
from firearrow.cli.mqadmin.topic import views
from firearrow.cli.mqadmin.verb import Verb, VerbOption

APACHE = """
updateTopic updateTopicList deleteTopic updateSubGroup updateSubGroupList setConsumeMode deleteSubGroup
updateBrokerConfig updateTopicPerm topicRoute topicStatus topicClusterList addBroker removeBroker
resetMasterFlushOffset brokerStatus queryMsgById queryMsgByKey queryMsgByUniqueKey queryMsgByOffset queryMsgTraceById
printMsg printMsgByQueue sendMsgStatus brokerConsumeStats producerConnection consumerConnection consumerProgress
consumerStatus cloneGroupOffset producer clusterList topicList updateKvConfig deleteKvConfig wipeWritePerm addWritePerm
resetOffsetByTime skipAccumulatedMessage updateOrderConf cleanExpiredCQ deleteExpiredCommitLog cleanUnusedTopic
startMonitoring statsAll allocateMQ checkMsgSendRT clusterRT getNamesrvConfig updateNamesrvConfig getBrokerConfig
getConsumerConfig queryCq sendMessage consumeMessage updateStaticTopic remappingStaticTopic exportMetadata
exportConfigs exportMetrics exportMetadataInRocksDB exportPopRecord haStatus getSyncStateSet getBrokerEpoch
getControllerMetaData getControllerConfig updateControllerConfig electMaster cleanBrokerMetadata dumpCompactionLog
getColdDataFlowCtrInfo updateColdDataFlowCtrGroupConfig removeColdDataFlowCtrGroupConfig setCommitLogReadAheadMode
createUser updateUser deleteUser getUser listUser copyUser createAcl updateAcl deleteAcl getAcl listAcl copyAcl
rocksDBConfigToJson checkRocksdbCqWriteProgress switchTimerEngine getBrokerLiteInfo getParentTopicInfo getLiteTopicInfo
getLiteClientInfo getLiteGroupInfo triggerLiteDispatch
""".split()  # noqa: SIM905 - as the tool prints them
"""The commands of Apache's 5.5.0, as ``mqadmin`` without arguments lists them."""

IMPORTED = (
    topic_changes, views, group_changes, progress, clients, offsets, lookup, reading, sending, listing, name_servers,
    settings, upkeep, replication, exports, users, policies, out_of_scope,
)  # fmt: skip
STRICTLY = {"FIREARROW_MQADMIN_EXIT": "strict"}
READERS = frozenset({"text", "has", "number", "truth"})
UPDATE_TOPIC = found_verb("updateTopic")
assert UPDATE_TOPIC is not None


def test_the_catalogue_knows_where_every_command_is() -> None:
    assert [f"firearrow.cli.mqadmin.{name}" for name in MODULES] == [module.__name__ for module in IMPORTED]
    for module, names in zip(IMPORTED, MODULES.values(), strict=True):
        assert [verb.name for verb in module.VERBS] == names.split()
        assert all(found_verb(verb.name) is verb for verb in module.VERBS)


def test_every_command_of_apache_is_there() -> None:
    assert sorted(verb.name for verb in VERBS) == sorted(APACHE)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb.run is None], ids=lambda verb: verb.name)
def test_what_is_out_of_scope_says_why_and_what_instead(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    assert start([verb.name, "-n", "127.0.0.1:1", "-whatever", "x"]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith(f"mqadmin {verb.name}: ")
    assert ";" in told, "the reason, then what to do instead"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb.run is not None], ids=lambda verb: verb.name)
def test_every_command_has_a_usage_and_distinct_options(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    shorts = [option.short for option in verb.options]
    assert len(shorts) == len(set(shorts))
    assert {short for group in verb.either for short in group} <= set(shorts)
    assert start([verb.name, "-h"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: mqadmin {verb.name} ")
    assert max(map(len, told.splitlines())) <= 110
    assert start(["help", verb.name]) == 0
    assert capsys.readouterr().out == told


@pytest.mark.parametrize(
    "words",
    [
        ["-t", "T", "-b", "h:1"],
        ["-tT", "-bh:1"],
        ["--topic", "T", "--brokerAddr", "h:1"],
        ["--topic=T", "--brokerAddr=h:1"],
        ["-topic", "T", "-brokerAddr", "h:1"],
        ["-t", " T ", "-b", "h:1 "],
    ],
    ids=" ".join,
)
def test_options_are_read_in_every_form_of_apache(words: list[str]) -> None:
    assert UPDATE_TOPIC is not None
    given = read_options(UPDATE_TOPIC, words)
    assert (given.text("t"), given.text("b")) == ("T", "h:1")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-t", "T"], "Missing required option"),
        (["-b", "h:1"], "Missing required option: t"),
        (["-t", "T", "-b", "h:1", "-c", "C"], "exclude each other"),
        (["-t", "T", "-b", "h:1", "-z", "1"], "Unrecognized option: -z"),
        (["-t", "T", "-b"], "expected one argument"),
    ],
)
def test_wrong_options_end_with_the_usage_and_status_1(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert UPDATE_TOPIC is not None
    with pytest.raises(WrongOptions, match=told):
        read_options(UPDATE_TOPIC, words)
    assert start(["updateTopic", *words]) == 1
    said = capsys.readouterr()
    assert told in said.err
    assert said.out == usage(UPDATE_TOPIC)


def test_no_arguments_list_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert start([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The most commonly used mqadmin commands are:"
    assert {line.split()[0] for line in lines if line.startswith("   ")} == set(APACHE)


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert start(["updateTopics"], STRICTLY) == 1
    assert capsys.readouterr().out == "The sub command updateTopics not exist. Did you mean updateTopic?\n"


def test_a_command_is_found_in_any_case() -> None:
    assert found_verb("CLUSTERLIST") is found_verb("clusterList")


@pytest.mark.parametrize(("environment", "status"), [({}, 0), ({"FIREARROW_MQADMIN_EXIT": "strict"}, 1)])
def test_a_failure_is_one_line_and_apaches_status_unless_it_shall_be_strict(
    environment: dict[str, str], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(["topicList"], environment) == status
    told = capsys.readouterr().err
    assert "write -n HOST:PORT, or set NAMESRV_ADDR" in told
    assert told.count("\n") == 1
    assert start(["noSuchCommand"], environment) == status
    assert start(["help", "noSuchCommand"], environment) == status


@pytest.mark.parametrize(
    ("verb", "option"),
    [(verb, option) for verb in VERBS for option in verb.options if option.why_not],
    ids=lambda each: each.name if isinstance(each, Verb) else f"-{each.short}",
)
def test_an_option_that_cannot_be_honoured_says_why(
    verb: Verb, option: VerbOption, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = [word for each in verb.options if each.required for word in (f"-{each.short}", "x")]
    assert start([verb.name, *needed, f"-{option.short}", "x"], {}) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"mqadmin {verb.name}: -{option.short} cannot be honoured: ")
    assert told.count("\n") == 1


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb.run is not None], ids=lambda verb: verb.name)
def test_every_option_is_read_by_its_command(verb: Verb) -> None:
    assert verb.run is not None
    read = options_read(verb.run.__module__, verb.run.__name__, set())
    for option in verb.options:
        without = option.is_idle or bool(option.why_not)
        assert (option.short in read) != without, f"-{option.short} of {verb.name}: read {sorted(read)}"


def options_read(module: str, name: str, seen: set[tuple[str, str]]) -> set[str]:
    """Return the short names of options that a function reads, itself or by functions of the package that it names."""
    found = getattr(sys.modules[module], name, None)
    home = getattr(found, "__module__", None) or ""
    if not home.startswith("firearrow.cli.mqadmin.") or (home, name) in seen or not callable(found):
        return set()
    seen.add((home, name))
    read = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(found)))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS:
            read |= {each.value for each in node.args[:1] if isinstance(each, ast.Constant)}
        if isinstance(node, ast.Name):
            read |= options_read(home, node.id, seen)
    return {each for each in read if isinstance(each, str)}


def test_keys_come_from_the_environment_or_from_apaches_file(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text('accessKey: "rocketmq2"\nsecretKey: 12345678\n')
    found = reach({"ROCKETMQ_HOME": str(tmp_path)})
    assert (found["access_key"], found["secret_key"]) == ("rocketmq2", "12345678")
    found = reach({"ROCKETMQ_HOME": str(tmp_path), "FIREARROW_ACCESS_KEY": "mine", "FIREARROW_SECRET_KEY": "own"})
    assert (found["access_key"], found["secret_key"]) == ("mine", "own")
    assert reach({"FIREARROW_TLS": "true"})["tls"].enabled
