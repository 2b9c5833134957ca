"""A stranger does not learn which users there are: wrong keys and unknown users are refused in the same words."""

import pytest

from firearrow.protocol.auth import Credentials
from firearrow.protocol.requests.admin.config import GetBrokerConfig
from tests.integration.security.victim import ROOT, USERS_ON, Victim

pytestmark = pytest.mark.real


def replay(broker: Victim) -> None:
    """Ask in the names of a user that exists and of one that does not, with wrong keys."""
    known, unknown = (
        broker.ask(GetBrokerConfig(), keys=Credentials(name, "wrong")) for name in (ROOT.access_key, "nobody-here")
    )
    assert (known.code, known.remark) == (unknown.code, unknown.remark), "a stranger is told which users there are"


def test_unknown_users_and_wrong_signatures_are_refused_alike() -> None:
    with Victim("broker", USERS_ON) as broker:
        replay(broker)
