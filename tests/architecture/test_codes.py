"""Every request code has one conversation or a reason why not, and each conversation has the fields of Java's class.

``java_headers.json`` holds, for each code, the header classes of Apache RocketMQ 5.5.0 (4.9.7 for the codes that 5.x
dropped): field, Java type, and whether the class says ``@CFNotNull``. The fields that every 5.x request inherits are
left out.
"""

import json
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.conversation import Fields, Int32, Int64, Request
from firearrow.protocol.requests import ALL, BY_CODE, UNSUPPORTED

FACTS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "java_headers.json").read_text())

OURS = {RequestCode.COPY_ACCOUNTS}
"""Codes that Java does not know."""
SET_BY_HAND = "Java sets or reads it in extFields without a header class"
OURS_ALONE = "slaves and masters of ours; Java ignores it, and does not answer with it"
NOT_SENT_BY_4_9 = "Java 5.x marks it as required, 4.9 does not send it"

EXTRA = {
    (43, "since"): OURS_ALONE,
    (43, "mark"): OURS_ALONE,
    (43, "inParts"): OURS_ALONE,
    (43, "more"): OURS_ALONE,
    (1007, "replica"): OURS_ALONE,
    (1007, "epoch"): OURS_ALONE,
    (1007, "directory"): OURS_ALONE,
    (1007, "taken"): OURS_ALONE,
    (1007, "known"): OURS_ALONE,
    (1007, "tables"): OURS_ALONE,
    (10, "MSG_REGION"): SET_BY_HAND,
    (10, "TRACE_ON"): SET_BY_HAND,
    (310, "MSG_REGION"): SET_BY_HAND,
    (310, "TRACE_ON"): SET_BY_HAND,
    (320, "MSG_REGION"): SET_BY_HAND,
    (320, "TRACE_ON"): SET_BY_HAND,
    (324, "MSG_REGION"): SET_BY_HAND,
    (324, "TRACE_ON"): SET_BY_HAND,
    (325, "MSG_REGION"): SET_BY_HAND,
    (325, "TRACE_ON"): SET_BY_HAND,
    (370, "MSG_REGION"): SET_BY_HAND,
    (12, "_UNIQUE_KEY_QUERY"): SET_BY_HAND,
    (34, "IS_SUPPORT_HEART_BEAT_V2"): SET_BY_HAND,
    (34, "IS_SUB_CHANGE"): SET_BY_HAND,
    (103, "__ZONE_NAME"): SET_BY_HAND,
    (105, "__ZONE_NAME"): SET_BY_HAND,
    (105, "__ZONE_MODE"): SET_BY_HAND,
    (2004, "READ_AHEAD_MODE"): SET_BY_HAND,
    (5001, "E_T"): SET_BY_HAND,
    (207, "removeOffset"): "4.9's name of cleanOffset",
    (11, "firearrowLarge"): "ours: answers larger than Apache's limits",
    (361, "firearrowLarge"): "ours: answers larger than Apache's limits",
    (11, "firearrowHidden"): "ours: queues that a topic has lost by shrinking",
    (361, "firearrowHidden"): "ours: queues that a topic has lost by shrinking",
    (202, "firearrowHidden"): "ours: queues that a topic has lost by shrinking",
}
OPTIONAL_HERE = {
    (21, "topicSeq"): NOT_SENT_BY_4_9,
    (201, "groupSeq"): NOT_SENT_BY_4_9,
    (201, "totalGroupNum"): NOT_SENT_BY_4_9,
    (53, "aclFileFullPath"): "clients before 4.9.4 do not send it",
}
JAVA_TYPES = {
    "String": str,
    "int": Int32,
    "Integer": Int32,
    "long": Int64,
    "Long": Int64,
    "boolean": bool,
    "Boolean": bool,
    "double": float,
    "BoundaryType": Enum,
}


def test_every_code_is_a_conversation_or_has_a_reason() -> None:
    assert set(BY_CODE) | set(UNSUPPORTED) == set(RequestCode)
    assert not set(BY_CODE) & set(UNSUPPORTED)
    assert all(UNSUPPORTED.values())


def test_no_code_has_two_conversations() -> None:
    assert len({kind.code for kind in ALL}) == len(ALL)
    assert [kind.code for kind in ALL] == sorted(kind.code for kind in ALL)


def subclasses(kind: type) -> set[type]:
    below: list[type] = type.__subclasses__(kind)
    return set(below).union(*map(subclasses, below))


def test_every_subclass_of_request_with_a_code_is_listed() -> None:
    ours = {kind for kind in subclasses(Request) if kind.__module__.startswith("firearrow.")}
    assert {kind for kind in ours if hasattr(kind, "code")} == set(ALL)


def test_response_codes_are_the_ones_of_java() -> None:
    assert [code.value for code in ResponseCode if code < 10] == [-1006, -1004, -1002, -1000, 0, 1, 2, 3, 4]
    assert len(ResponseCode) == 68


@pytest.mark.parametrize(
    "kind", [kind for kind in ALL if kind.code not in OURS], ids=lambda kind: f"{kind.code.value}-{kind.__name__}"
)
def test_fields_are_those_of_java(kind: type[Request[Any]]) -> None:
    facts = FACTS[str(kind.code.value)]
    compare(kind.code, kind, facts["fields"])
    compare(kind.code, kind.answer, facts["answerFields"])


def compare(code: int, kind: type[Fields], java: list[list[Any]]) -> None:
    ours = {info.encode_name: info for info in msgspec.structs.fields(kind)}
    extra = {name for allowed, name in EXTRA if allowed == code}
    assert ours.keys() - extra == {name for name, _, _ in java}
    for name, java_type, required in java:
        assert ours[name].required == (required and (code, name) not in OPTIONAL_HERE), name
        assert is_java_type(ours[name].type, java_type), name


def is_java_type(kind: Any, java_type: str) -> bool:
    wanted = JAVA_TYPES[java_type]
    parts = {kind} | {part for part in get_args(kind) if part is not type(None)}
    if wanted is Enum:
        return any(isinstance(part, type) and issubclass(part, Enum) for part in parts)
    return wanted in parts


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: f"{kind.code.value}-{kind.__name__}")
def test_a_conversation_is_a_frozen_leaf_of_the_garbage_collector(kind: type[Request[Any]]) -> None:
    for struct in (kind, kind.answer):
        config = struct.__struct_config__
        assert config.frozen
        assert not config.gc, "headers hold no containers: the garbage collector need not look at them"


def test_exceptions_are_still_needed() -> None:
    java = {
        (int(code), name): required
        for code, facts in FACTS.items()
        for name, _, required in facts["fields"] + facts["answerFields"]
    }
    assert not EXTRA.keys() & java.keys()
    assert all(java[exception] for exception in OPTIONAL_HERE)
