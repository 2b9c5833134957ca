"""Access: files of users, bodies of rules and names of resources are read or refused, and what was read is kept.

The first byte chooses: a file behind its right checksum, a whole file, a body of rules, a resource.
"""

from fuzz.harness import instrumented, run

with instrumented():
    import hashlib

    from firearrow import fastjson
    from firearrow.access.account_file import decode_accounts, encode_accounts
    from firearrow.access.accounts import Accounts
    from firearrow.access.bodies import acl_info, rules_in
    from firearrow.access.decide import Need, decide
    from firearrow.access.rules import Action, ResourceKind, User, UserType, parse_resource
    from firearrow.errors import FireArrowError
    from firearrow.protocol.bodies.admin.auth import AclInfo

NEED = Need(ResourceKind.TOPIC, "orders", (Action.PUB,))
KNOWN = Accounts().create_user(User("root", "r", UserType.SUPER)).create_user(User("alice", "a"))


def target(data: bytes) -> None:
    if not data:
        return
    choice, content = data[0], data[1:]
    if choice == 0:
        head = b"firearrow-access 1 " + hashlib.sha256(content).hexdigest().encode() + b"\n"
        accounts = decode_accounts(head + content)
        assert decode_accounts(encode_accounts(accounts)) == accounts
    elif choice == 1:
        decode_accounts(content)
    elif choice == 2:
        _rules(content)
    else:
        _resource(content.decode(errors="replace"))


def _rules(content: bytes) -> None:
    rules = rules_in(fastjson.decode(content, AclInfo))
    assert rules_in(acl_info("alice", rules)) == rules
    kept = KNOWN.put_rules("User:alice", rules.custom, rules.default)
    verdict = decide(kept.users["alice"], kept.rules["alice"], NEED, "10.0.0.7")
    assert not verdict.allowed or verdict.rule is not None


def _resource(text: str) -> None:
    resource = parse_resource(text)
    if resource is not None and resource.kind is not ResourceKind.ANY:
        again = parse_resource(str(resource))
        assert again == resource
        assert resource.matches(resource.kind, resource.name)


def seeds() -> list[bytes]:
    rules = rules_in(
        fastjson.decode(
            b'{"subject":"User:alice","policies":[{"policyType":"Custom","entries":[{"resource":"Topic:o*",'
            b'"actions":["Pub","Sub"],"sourceIps":["10.0.0.0/8","fe80::1"],"decision":"Allow"}]}]}',
            AclInfo,
        )
    )
    file = encode_accounts(KNOWN.put_rules("User:alice", rules.custom))
    body = fastjson.encode(acl_info("alice", rules))
    texts = (b"*", b"Topic:*", b"Topic:o*", b"Group:g", b"Cluster:c", b"User:u", b"")
    return [b"\x00" + file.partition(b"\n")[2], b"\x01" + file, b"\x02" + body, *(b"\x03" + text for text in texts)]


if __name__ == "__main__":
    run(target, seeds=seeds(), allowed=(FireArrowError,))
