"""Bodies: whatever a peer sends is a typed body or BadBody, and what was read comes back from both forms.

The first byte chooses the type.
"""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow import fastjson
    from firearrow.protocol.bodies.admin.properties import PropertiesText
    from firearrow.protocol.bodies.admin.store import TimerCheckpoint
    from firearrow.protocol.bodies.group.offset import read_reset_offsets
    from firearrow.protocol.bodies.naming.registration import decode_registration
    from firearrow.protocol.requests import ALL

OTHER = {bytes, PropertiesText, TimerCheckpoint, None}
BODIES = [kind.request_body for kind in ALL] + [kind.answer_body for kind in ALL]
KINDS = [body for body in dict.fromkeys(BODIES) if body is not None and body not in OTHER]


def parse(data: bytes) -> None:
    """Parse as a server does, without the comparisons of the target."""
    choice, content = data[:1], data[1:]
    if choice and choice[0] < len(KINDS):
        fastjson.decode(content, KINDS[choice[0]])
    else:
        target(data)


def target(data: bytes) -> None:
    if not data:
        return
    choice, content = data[0], data[1:]
    if choice < len(KINDS):
        value = fastjson.decode(content, KINDS[choice])
        assert fastjson.decode(fastjson.encode(value), KINDS[choice]) == value
        assert fastjson.decode(fastjson.encode_java(value), KINDS[choice]) == value
    elif choice == 250:
        decode_registration(content, compressed=True, version=413)
    elif choice == 251:
        read_reset_offsets(content)
    elif choice == 252:
        body = PropertiesText.decode(content)
        assert PropertiesText.decode(body.encode()) == body
    elif choice == 253:
        TimerCheckpoint.decode(content)


def seeds() -> list[bytes]:
    import json
    from pathlib import Path

    golden = Path(__file__).parents[1] / "tests/unit/protocol/bodies/golden_5_5_0.json"
    texts = json.loads(golden.read_text())
    compressed = bytes.fromhex(texts.pop("RegisterBrokerBody.compressed"))
    found = [bytes([250]) + compressed, bytes([252]) + b"a=b\\u0041\n#c\nd : e\\\n f\n"]
    found.append(bytes([251]) + texts["ResetOffsetBody"].encode())
    found.append(bytes([251]) + texts["ResetOffsetBodyForC"].encode())
    found.append(bytes([253]) + bytes(56))
    found += [bytes([choice]) + text.encode() for choice in range(len(KINDS)) for text in fitting(choice, texts)]
    return found


def fitting(choice: int, texts: dict[str, str]) -> list[str]:
    """The golden texts whose members the chosen type has."""
    wanted = set(getattr(KINDS[choice], "__struct_encode_fields__", ()))
    found = [text for text in texts.values() if text.startswith("{") and wanted.issuperset(members(text))]
    return found or ["{}", "[]"]


def members(text: str) -> set[str]:
    return set(fastjson.read(text.encode()))


if __name__ == "__main__":
    run(target, seeds=seeds())
