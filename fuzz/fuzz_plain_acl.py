"""``plain_acl.yml`` of 4.9: a file is refused, or its accounts are users with rules; white lists judge any address."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.access.accounts import Accounts
    from firearrow.access.decide import NO_RULES, Need, decide
    from firearrow.access.plain.acl import add_accounts, matches_address, read_plain_acl
    from firearrow.access.plain.changes import plain_acl_text
    from firearrow.access.rules import Action, ResourceKind, UserType
    from firearrow.errors import SettingsError

NEED = Need(ResourceKind.TOPIC, "orders", (Action.PUB,))
ADDRESSES = ("10.0.0.7", "fe80::1")


def target(data: bytes) -> None:
    if data[:1] == b"\x00":
        pattern, _, address = data[1:].decode(errors="replace").partition("\x00")
        matches_address(pattern, address)
        return
    acl = read_plain_acl(data)
    accounts = add_accounts(Accounts(), acl)
    if accounts.users:
        assert read_plain_acl(plain_acl_text(acl)).accounts == acl.accounts
    for name, user in accounts.users.items():
        verdict = decide(user, accounts.rules.get(name, NO_RULES), NEED, ADDRESSES[0])
        assert not verdict.allowed or verdict.rule is not None or user.kind is UserType.SUPER
        for address in ADDRESSES:
            acl.is_white(address, name)


SEEDS = [
    b"accounts:\n- {accessKey: a, secretKey: b, admin: true}\n",
    b"accounts:\n- accessKey: shop\n  secretKey: secret\n  topicPerms:\n  - orders=PUB|SUB\n  groupPerms: [g=SUB]\n",
    b"accounts:\n- {accessKey: a, secretKey: b, defaultTopicPerm: DENY, whiteRemoteAddress: 10.0.0-5.*}\n",
    b"dataVersion:\n- {counter: 1, timestamp: 2}\n",
    b"globalWhiteRemoteAddresses:\n- 10.10.103.*\n- 192.168.0.{1,2}\naccounts:\n",
    b"a: &a [x]\nb: [*a, *a]\n",
    b"",
    b"\x0010.0.{1,2}.1-9\x0010.0.1.5",
    b"\x00fe80::*,1:2:3:4:5:6:7:{8,9}\x00fe80::1",
]

if __name__ == "__main__":
    run(target, seeds=SEEDS, allowed=(SettingsError,))
