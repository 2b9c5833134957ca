"""Apache's own mqadmin and ours at our broker with access on: the verbs for users and rules, right keys and wrong ones.

Apache's mqadmin signs as stock clients do. Both tools must print the same, but for passwords, which our broker masks.
"""

import contextlib
import io
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from firearrow.cli.mqadmin.catalogue import VERBS
from firearrow.cli.mqadmin.startup import start
from judges import FireArrowBroker, FireArrowNameServer, Mqadmin
from judges.process import Child
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
    (OWNER, "copyAcl -f {b} -t {b} -s User:shop"),
    (OWNER, "copyUser -f {b} -t {b} -u shop"),
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
    15: "****** stands for a password that is not shown: passwords cannot be copied between brokers; create the user "
    "there with its password",
    17: NO_RULE.format("mine", "the decision is deny."),
    20: "check signature failed.",
    21: "check signature failed.",  # Apache names the user that it does not know; ours tells strangers nothing
    23: "User:shop is disabled.",
}
REFUSALS = {number: str([("16", reason)]) for number, reason in REASONS.items()}
LISTS = (4, 5, 10, 16, 19, 25)
WORDS_OF_REFUSALS = (
    r"CODE: (\d+)\s+DESC: ([^\n]*?)(?: BROKER|\s+For more|\n|$)",  # Apache's tool
    r"was refused by \S+ with code (\d+): ([^\n]*)",  # ours
)

Execute = Callable[[str], tuple[str, str]]
"""Runs a line with a tool; returns what it printed on its two streams."""


class OurSecuredBroker(FireArrowBroker):
    """Our broker with access on; ready when its name server lists it."""

    def __init__(self, name_server: str) -> None:
        super().__init__(name_servers=[name_server], settings=ACCESS)

    def _ready(self) -> bool:
        return all(map(self._listed_by, self.name_servers))


def told(
    execute: Execute, home: Path, broker: str, steps: Sequence[tuple[tuple[str, str], str]] = STEPS
) -> Iterator[tuple[str, str]]:
    """The output of every step: refusals by code and reason, without addresses, times and passwords."""
    for (access, secret), line in steps:
        (home / "conf" / "tools.yml").write_text(f"accessKey: {access}\nsecretKey: {secret}\n")
        out, err = execute(line.format(b=broker))
        refusals = sorted({found for words in WORDS_OF_REFUSALS for found in re.findall(words, err + out)})
        printed = "\n".join(" ".join(row.split()) for row in out.replace(broker, "BROKER").splitlines())
        yield f"{access}: {line}", str(refusals) if refusals else masked(printed or err)


def masked(text: str) -> str:
    for password in (*(secret for _, secret in (OWNER, SHOP)), "******"):
        text = text.replace(password, "PASSWORD")
    return re.sub(r"^second s ", "second PASSWORD ", text, flags=re.MULTILINE)


def by_apache(mqadmin: Mqadmin) -> Execute:
    def execute(line: str) -> tuple[str, str]:
        reply = mqadmin.execute(line)
        return reply.out, reply.err

    return execute


def by_ours(home: Path) -> Execute:
    def execute(line: str) -> tuple[str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            start(shlex.split(line), {**os.environ, "ROCKETMQ_HOME": str(home)})
        return out.getvalue(), err.getvalue()

    return execute


def test_the_steps_have_every_verb_for_users_and_rules() -> None:
    verbs = {verb.name for verb in VERBS if re.search("(User|Acl)$", verb.name)}
    assert len(verbs) == 12
    assert verbs <= {line.split()[0] for _, line in STEPS}


def test_both_tools_print_the_same_at_our_broker() -> None:
    with FireArrowNameServer() as names, Mqadmin() as mqadmin:
        with OurSecuredBroker(names.address) as broker:
            mqadmin.execute(f"listUser -b {broker.address}")  # the first command pays for the start of a JVM
            theirs = list(told(by_apache(mqadmin), mqadmin.home, broker.address))
        with OurSecuredBroker(names.address) as broker:
            ours = list(told(by_ours(mqadmin.home), mqadmin.home, broker.address))
    assert ours == theirs
    judge([printed for _, printed in theirs])


def judge(answers: list[str]) -> None:
    """Check what was printed against what a broker with access on has to say."""
    refusals = {number: answer for number, answer in enumerate(answers) if answer.startswith("[(")}
    assert refusals == REFUSALS
    assert answers[4].splitlines()[1:] == [
        "firearrow PASSWORD Super enable",
        "second PASSWORD Super enable",
        "shop PASSWORD Normal enable",
    ]
    assert answers[16].splitlines()[1:] == [
        "User:shop Custom Topic:mine* [Create] null Deny",
        "User:shop Custom Group:g [Create, Get] [127.0.0.1] Allow",
    ]
    assert answers[19].splitlines()[1:] == ["User:shop Custom Group:g [Create, Get] [127.0.0.1] Allow"]
    assert answers[25].splitlines()[1:] == ["firearrow PASSWORD Super enable", "second PASSWORD Super enable"]
    assert all("success" in answer for number, answer in enumerate(answers) if number not in {*REFUSALS, *LISTS})


# ---- 4.9's accounts

ADMIN = ("the-admin", "admin-secret")
PLAIN_STEPS: list[tuple[tuple[str, str], str]] = [
    (ADMIN, "clusterAclConfigVersion -b {b}"),
    (ADMIN, "updateAclConfig -b {b} -a the-shop -s shop-secret -t orders=PUB,bills=DENY -g g=SUB -m false"),
    (("the-shop", "shop-secret"), "updateTopic -b {b} -t orders -r 1 -w 1"),
    (ADMIN, "updateAclConfig -b {b} -a short -s shop-secret"),
    (ADMIN, "updateGlobalWhiteAddr -b {b} -g 10.10.103.*,192.168.0.*"),
    (ADMIN, "deleteAclConfig -b {b} -a the-shop"),
    (ADMIN, "deleteAclConfig -b {b} -a the-shop"),
    (ADMIN, "updateTopic -b {b} -t orders -r 1 -w 1"),
    (ADMIN, "clusterAclConfigVersion -b {b}"),
]


class OurPlainBroker(FireArrowBroker):
    """Our broker with 4.9's accounts; ready when its name server lists it."""

    def __init__(self, name_server: str) -> None:
        super().__init__(name_servers=[name_server], settings={"aclEnable": "true"})

    def _launch(self) -> Child:
        file = self.store / "config/plain_acl.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"accounts:\n- {{accessKey: {ADMIN[0]}, secretKey: {ADMIN[1]}, admin: true}}\n")
        return super()._launch()

    def _ready(self) -> bool:
        return all(map(self._listed_by, self.name_servers))


def test_the_tools_of_4_9_change_accounts_of_our_broker() -> None:
    with FireArrowNameServer() as names, Mqadmin("4.9.7") as mqadmin, OurPlainBroker(names.address) as broker:
        answers = [printed for _, printed in told(by_apache(mqadmin), mqadmin.home, broker.address, PLAIN_STEPS)]
        assert "shop" not in (broker.store / "config/plain_acl.yml").read_text()
    for number in (1, 4, 5, 7):
        assert "success" in answers[number], answers[number]
    assert "User:the-shop has no permission to access Topic:orders" in answers[2]
    assert "('209', 'The accessKey=short and secretKey=****** cannot be null" in answers[3]
    assert re.match("DefaultCluster broker-a BROKER config/plain_acl.yml 0 ", answers[0])
    assert re.match("DefaultCluster broker-a BROKER config/plain_acl.yml 3 20", answers[8])
    assert "('210', 'The accesskey[the-shop] corresponding to accessConfig has been deleted failed.')" in answers[6]
