"""The table of commands: every one of Apache's ``mqadmin`` 5.5.0, and the module that has it.

A command is imported when it runs, so that its first output does not wait for the others.
"""

import difflib
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from firearrow.cli.mqadmin.verb import Verb

if TYPE_CHECKING:
    VERBS: tuple[Verb, ...]

MODULES: Final = {
    "topic.changes": "updateTopic updateTopicList updateTopicPerm deleteTopic updateOrderConf",
    "topic.views": "topicRoute topicStatus topicClusterList topicList allocateMQ statsAll",
    "group.changes": "updateSubGroup updateSubGroupList deleteSubGroup setConsumeMode getConsumerConfig",
    "group.progress": "consumerProgress brokerConsumeStats",
    "group.clients": "producerConnection consumerConnection consumerStatus producer",
    "group.offsets": "cloneGroupOffset resetOffsetByTime skipAccumulatedMessage",
    "message.lookup": "queryMsgById queryMsgByKey queryMsgByUniqueKey queryMsgByOffset queryMsgTraceById",
    "message.reading": "printMsg printMsgByQueue consumeMessage queryCq",
    "message.sending": "sendMsgStatus checkMsgSendRT clusterRT sendMessage",
    "cluster.listing": "clusterList",
    "cluster.name_servers": """
        updateKvConfig deleteKvConfig wipeWritePerm addWritePerm getNamesrvConfig updateNamesrvConfig""",
    "broker.settings": "updateBrokerConfig brokerStatus getBrokerConfig",
    "broker.upkeep": """
        cleanExpiredCQ cleanUnusedTopic deleteExpiredCommitLog resetMasterFlushOffset setCommitLogReadAheadMode
        getColdDataFlowCtrInfo updateColdDataFlowCtrGroupConfig removeColdDataFlowCtrGroupConfig exportPopRecord""",
    "broker.replication": "haStatus getBrokerEpoch",
    "broker.exports": "exportMetadata exportConfigs exportMetrics",
    "account.users": "createUser updateUser deleteUser getUser listUser copyUser",
    "account.policies": "createAcl updateAcl deleteAcl getAcl listAcl copyAcl",
    "out_of_scope": """
        addBroker removeBroker startMonitoring updateStaticTopic remappingStaticTopic exportMetadataInRocksDB
        getSyncStateSet getControllerMetaData getControllerConfig updateControllerConfig electMaster
        cleanBrokerMetadata dumpCompactionLog rocksDBConfigToJson checkRocksdbCqWriteProgress switchTimerEngine
        getBrokerLiteInfo getParentTopicInfo getLiteTopicInfo getLiteClientInfo getLiteGroupInfo
        triggerLiteDispatch""",
}
"""The modules of this package, in the order of the list of commands, and the names of their commands."""

_PLACES: Final = {name.lower(): module for module, names in MODULES.items() for name in names.split()}
_NAMES: Final = {name.lower(): name for names in MODULES.values() for name in names.split()}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Return all commands, which imports all modules."""
    if name != "VERBS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return tuple(verb for module in MODULES for verb in _verbs(module))


@cache
def _verbs(module: str) -> tuple[Verb, ...]:
    found: tuple[Verb, ...] = import_module(f"firearrow.cli.mqadmin.{module}").VERBS
    return found


def found_verb(name: str) -> Verb | None:
    """Return the command with a name, in any case."""
    module = _PLACES.get(name.lower())
    return None if module is None else next(verb for verb in _verbs(module) if verb.name.lower() == name.lower())


def near_verbs(name: str) -> list[str]:
    """Return the names of commands that are spelt nearly so."""
    return [_NAMES[near] for near in difflib.get_close_matches(name.lower(), _NAMES, n=1)]
