"""A rule never allows more than its text says: a star anywhere but at the end of a name is refused.

The review made a rule about ``Topic:*orders*``: the broker stored it as a rule about all topics, and the command said
that it had granted what was typed.
"""

import pytest

from firearrow.protocol.auth import Credentials
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry, UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.requests.admin.auth import AuthCreateAcl, AuthCreateUser, AuthUpdateAcl
from firearrow.protocol.requests.message.send import SendMessage
from tests.integration.security.test_names import a_send
from tests.integration.security.victim import ROOT, USERS_ON, Victim

pytestmark = pytest.mark.real

MALLORY = Credentials("mallory", "password-of-mallory")
SUBJECT = f"User:{MALLORY.access_key}"


def replay(broker: Victim) -> None:
    """Ask for rules with stars in odd places, then use a topic that none of them names."""
    user = UserInfo(password=MALLORY.secret_key)
    assert broker.ask(AuthCreateUser(username=MALLORY.access_key), encode_body(user), ROOT).code == 0
    for resource in ("Topic:*orders*", "Topic:**", "Topic:a*b*"):
        for kind in (AuthCreateAcl, AuthUpdateAcl):
            entry = PolicyEntry(resource=resource, actions=["Pub"], decision="Allow")
            info = AclInfo(subject=SUBJECT, policies=[Policy(policy_type="Custom", entries=[entry])])
            answer = broker.ask(kind(subject=SUBJECT), encode_body(info), ROOT)
            assert answer.code != 0, f"a rule about {resource} was taken"
            assert "write Topic:NAME for one name" in answer.remark, answer
    assert broker.ask(a_send(SendMessage, "bills"), b"x", MALLORY).code != 0, "a topic that no rule names was used"


def test_a_star_in_the_middle_of_a_name_grants_nothing() -> None:
    with Victim("broker", USERS_ON) as broker:
        replay(broker)
