"""Named texts as values, and Apache's file of them."""

import pytest

from firearrow.errors import BadBody
from firearrow.nameserver.kv_config import KvConfig


def test_texts_come_change_and_go() -> None:
    empty = KvConfig()
    one = empty.put("N", "k", "v")
    assert (empty.get("N", "k"), empty.table("N")) == (None, None)
    assert one.get("N", "k") == "v"
    assert one.put("N", "k", "w").get("N", "k") == "w"
    assert one.get("N", "k") == "v", "values do not change in place"
    none = one.delete("N", "k")
    assert none.table("N") == {}, "the namespace stays"
    assert none.delete("N", "k") == none
    assert one.delete("M", "k") == one


def test_the_file_is_apaches() -> None:
    texts = KvConfig().put("ORDER_TOPIC_CONFIG", "T", "a:4;b:4")
    assert texts.encode() == b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"a:4;b:4"}}}'
    assert KvConfig.decode(texts.encode()) == texts


@pytest.mark.parametrize(
    "data",
    [
        b'{\n\t"configTable":{\n\t\t"N":{\n\t\t\t"k":"v"\n\t\t}\n\t}\n}',
        b"{configTable:{N:{'k':'v'}}}",
        b'{"configTable":{"N":{"k":"v","gone":null}},"later":1}',
    ],
)
def test_any_form_of_fastjsons_is_read(data: bytes) -> None:
    assert KvConfig.decode(data) == KvConfig({"N": {"k": "v"}})


@pytest.mark.parametrize("data", [b"", b"[", b'{"configTable":[]}', b'{"configTable":{"N":1}}', b"\xff"])
def test_anything_else_is_not(data: bytes) -> None:
    with pytest.raises(BadBody):
        KvConfig.decode(data)
