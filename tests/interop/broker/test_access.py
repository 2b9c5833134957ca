"""Apache's own mqadmin, which signs as stock clients do, at our broker with access on: right keys and wrong ones."""

import re
from collections.abc import Iterator

import pytest

from judges import FireArrowBroker, FireArrowNameServer, Mqadmin
from tests.interop.client.secured import OWNER

pytestmark = pytest.mark.apache

SHOP = ("shop", "shop-secret")
ACCESS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": f'{{"username":"{OWNER[0]}","password":"{OWNER[1]}"}}',
    "innerClientAuthenticationCredentials": f'{{"accessKey":"{OWNER[0]}","secretKey":"{OWNER[1]}"}}',
}
STEPS: list[tuple[tuple[str, str], str]] = [
    (OWNER, "updateTopic -b {b} -t orders -r 1 -w 1"),
    (OWNER, "createUser -b {b} -u shop -p shop-secret"),
    (OWNER, "createUser -b {b} -u shop -p other"),
    (OWNER, "createUser -b {b} -u second -p s -t Super"),
    (OWNER, "listUser -b {b}"),
    (OWNER, "getUser -b {b} -u shop"),
    (SHOP, "updateTopic -b {b} -t mine -r 1 -w 1"),
    (OWNER, "createAcl -b {b} -s User:shop -r Topic:mine*,Group:g -a Create,Get -i 127.0.0.1 -d Allow"),
    (OWNER, "createAcl -b {b} -s User:nobody -r Topic:x -a Pub -d Allow"),
    (OWNER, "createAcl -b {b} -s User:shop -r Topic:x -a Pub -d Perhaps"),
    (OWNER, "getAcl -b {b} -s User:shop"),
    (SHOP, "updateTopic -b {b} -t mine -r 1 -w 1"),
    (SHOP, "updateTopic -b {b} -t orders -r 1 -w 1"),
    (OWNER, "updateAcl -b {b} -s User:shop -r Topic:mine* -a Create -d Deny"),
    (OWNER, "listAcl -b {b}"),
    (SHOP, "updateTopic -b {b} -t mine -r 1 -w 1"),
    (OWNER, "deleteAcl -b {b} -s User:shop -r Topic:mine*"),
    (OWNER, "listAcl -b {b}"),
    (("shop", "wrong"), "updateTopic -b {b} -t mine -r 1 -w 1"),
    (("nobody", "x"), "updateTopic -b {b} -t mine -r 1 -w 1"),
    (OWNER, "updateUser -b {b} -u shop -s disable"),
    (SHOP, "updateTopic -b {b} -t mine -r 1 -w 1"),
    (OWNER, "deleteUser -b {b} -u shop"),
    (OWNER, "listUser -b {b}"),
]


NO_RULE = "User:shop has no permission to access Topic:{} from 127.0.0.1, {}"
REASONS = {
    2: "The user is existed",
    6: NO_RULE.format("mine", "no matched policies."),
    8: "The subject of User:nobody is not exist.",
    9: "The decision is null or illegal.",
    12: NO_RULE.format("orders", "no matched policies."),
    15: NO_RULE.format("mine", "the decision is deny."),
    18: "check signature failed.",
    19: "User:nobody is not found.",
    21: "User:shop is disabled.",
}
REFUSALS = {number: str([("16", reason)]) for number, reason in REASONS.items()}
LISTS = (4, 5, 10, 14, 17, 23)


class OurSecuredBroker(FireArrowBroker):
    """Our broker with access on; ready when its name server lists it."""

    def __init__(self, name_server: str) -> None:
        super().__init__(name_servers=[name_server], settings=ACCESS)

    def _ready(self) -> bool:
        return all(map(self._listed_by, self.name_servers))


def told(mqadmin: Mqadmin, broker: str) -> Iterator[tuple[str, str]]:
    """What every step printed: refusals by code and reason, without addresses, times and passwords."""
    for (access, secret), line in STEPS:
        (mqadmin.home / "conf" / "tools.yml").write_text(f"accessKey: {access}\nsecretKey: {secret}\n")
        reply = mqadmin.execute(line.format(b=broker))
        refusals = sorted(
            set(re.findall(r"CODE: (\d+)\s+DESC: ([^\n]*?)(?: BROKER|\s+For more|\n|$)", reply.err + reply.out))
        )
        printed = "\n".join(" ".join(row.split()) for row in reply.out.replace(broker, "BROKER").splitlines())
        yield f"{access}: {line}", str(refusals) if refusals else masked(printed)


def masked(text: str) -> str:
    for password in (*(secret for _, secret in (OWNER, SHOP)), "******"):
        text = text.replace(password, "PASSWORD")
    return re.sub(r"^second s ", "second PASSWORD ", text, flags=re.MULTILINE)


def test_stock_tools_sign_at_our_broker() -> None:
    with FireArrowNameServer() as names, Mqadmin() as mqadmin, OurSecuredBroker(names.address) as ours:
        answers = [printed for _, printed in told(mqadmin, ours.address)]
    refusals = {number: answer for number, answer in enumerate(answers) if answer.startswith("[(")}
    assert refusals == REFUSALS
    assert answers[4].splitlines()[1:] == [
        "firearrow PASSWORD Super enable",
        "second PASSWORD Super enable",
        "shop PASSWORD Normal enable",
    ]
    assert answers[14].splitlines()[1:] == [
        "User:shop Custom Topic:mine* [Create] null Deny",
        "User:shop Custom Group:g [Create, Get] [127.0.0.1] Allow",
    ]
    assert answers[17].splitlines()[1:] == ["User:shop Custom Group:g [Create, Get] [127.0.0.1] Allow"]
    assert answers[23].splitlines()[1:] == ["firearrow PASSWORD Super enable", "second PASSWORD Super enable"]
    assert all("success" in answer for number, answer in enumerate(answers) if number not in {*REFUSALS, *LISTS})
