"""Signatures that cannot be replayed: each is accepted once, whatever order, clock and number of senders."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from firearrow.access.freshness import NUMBERS, Freshness
from firearrow.access.settings import AccessConfig, check_access
from firearrow.errors import SettingsError
from firearrow.model.signature import SignatureMethod
from firearrow.protocol.auth import SIGNATURE_METHOD, SIGNATURE_NONCE, SIGNATURE_TIME, Credentials, FreshSigner, Signer
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.config import GetBrokerConfig
from firearrow.protocol.requests.admin.stats import GetBrokerRuntimeInfo
from firearrow.protocol.requests.naming.route import GetBrokerClusterInfo
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from tests.unit.access.servers import CONFIG, INNER, ROOT, Place, refusal, served
from tests.unit.broker.whole import Client

NO_PERMISSION = 16
WINDOW_MS = 1000
FRESH_ONLY = replace(
    CONFIG,
    fresh_signatures_only=True,
    inner_client_authentication_credentials=(
        f'{{"accessKey":"{INNER[0]}","secretKey":"{INNER[1]}","signatureMethod":"HmacSHA256"}}'
    ),
)

times = st.integers(0, 5 * WINDOW_MS)
requests = st.tuples(st.sampled_from("abc"), st.integers(0, 2 * NUMBERS), times, times)


@given(st.lists(requests, max_size=60), st.integers(0, 2 * WINDOW_MS))
def test_nothing_is_accepted_twice(asked: list[tuple[str, int, int, int]], started: int) -> None:
    """The clock of the server jumps at will, and it has room for two senders of three."""
    freshness = Freshness(WINDOW_MS, started, senders_of_a_user_max=2)
    accepted = set()
    for sender, number, signed, now in asked + asked:
        if not freshness.fault("user", sender, number, signed, now):
            assert abs(signed - now) <= WINDOW_MS
            assert signed >= started
            assert (sender, number, signed) not in accepted
            accepted.add((sender, number, signed))


@given(st.permutations(range(20)), st.integers(0, NUMBERS - 20))
def test_requests_may_overtake_one_another(order: list[int], skipped: int) -> None:
    freshness = Freshness(WINDOW_MS, 0)
    assert not any(freshness.fault("user", "s", number + skipped, 5, 5) for number in order)


def test_a_sender_gets_room_once_others_are_too_old() -> None:
    freshness = Freshness(WINDOW_MS, 0, senders_of_a_user_max=1)
    assert not freshness.fault("user", "first", 1, 10, 10)
    assert "room" in freshness.fault("user", "second", 1, 10, 10)
    later = 10 + 2 * WINDOW_MS
    assert not freshness.fault("user", "second", 1, later, later)


def test_a_user_does_not_take_the_room_of_others() -> None:
    freshness = Freshness(WINDOW_MS, 0, senders_of_a_user_max=3, senders_max=5)
    assert not any(freshness.fault("a", f"s{number}", 1, 10, 10) for number in range(3))
    assert "room" in freshness.fault("a", "s4", 1, 10, 10)
    assert not freshness.fault("b", "s4", 1, 10, 10)
    assert not freshness.fault("c", "s4", 1, 10, 10)
    assert "room" in freshness.fault("d", "s4", 1, 10, 10)
    assert not freshness.fault("a", "s1", 2, 10, 10)


@dataclass
class Repeating:
    """Signs like ``signer``, and can say the same again, with other fields if wanted."""

    signer: FreshSigner
    last: dict[str, str] | None = None
    repeats: bool = False
    changed: dict[str, str] | None = None

    def __call__(self, request: Request[Any], body: Any) -> dict[str, str]:
        if not self.repeats or self.last is None:
            self.last = self.signer(request, body)
        return {**self.last, **(self.changed or {})}


def repeating(
    place: Place, keys: tuple[str, str], now_ms: int | None = None, server: Address | None = None
) -> tuple[Client, Repeating]:
    clock = place.server.node.clock
    credentials = Credentials(*keys, method=SignatureMethod.SHA256)
    sign = Repeating(FreshSigner(credentials, clock.now_ms if now_ms is None else lambda: now_ms, "sender"))
    client = place.client(None, server)
    client.caller = Caller(place.network_of_clients, sign=sign)
    return client, sign


def test_a_signature_serves_once_and_for_its_request_alone() -> None:
    async def main(place: Place) -> None:
        client, sign = repeating(place, ROOT)
        assert await refusal(client, GetBrokerConfig()) == (0, "")
        sign.repeats = True
        code, remark = await refusal(client, GetBrokerConfig())
        assert (code, "has come before" in remark) == (NO_PERMISSION, True)
        sign.repeats = False
        assert await refusal(client, GetBrokerConfig()) == (0, "")
        sign.repeats = True
        assert await refusal(client, GetBrokerRuntimeInfo()) == (NO_PERMISSION, "check signature failed.")

    served(main)


@pytest.mark.parametrize("field", [SIGNATURE_TIME, SIGNATURE_NONCE, SIGNATURE_METHOD])
def test_its_fields_are_signed(field: str) -> None:
    async def main(place: Place) -> None:
        client, sign = repeating(place, ROOT)
        sign.changed = {field: "9-9"}
        assert await refusal(client, GetBrokerConfig()) == (NO_PERMISSION, "check signature failed.")

    served(main)


def test_an_old_signature_and_one_from_before_the_start_are_refused() -> None:
    async def main(place: Place) -> None:
        now = place.server.node.clock.now_ms()
        old, _ = repeating(place, ROOT, now - 61_000)
        assert "set the clocks" in (await refusal(old, GetBrokerConfig()))[1]
        before, _ = repeating(place, ROOT, now - 50_000)
        assert "remembers" in (await refusal(before, GetBrokerConfig()))[1]

    served(main)


def test_a_server_may_want_them_alone_and_servers_sign_so() -> None:
    async def main(place: Place) -> None:
        code, remark = await refusal(place.client(ROOT), GetBrokerConfig())
        assert (code, "HmacSHA256" in remark) == (NO_PERMISSION, True)
        client, _ = repeating(place, ROOT)
        assert await refusal(client, GetBrokerConfig()) == (0, "")
        # the broker is known to the name server, which refuses other signatures too
        names, _ = repeating(place, ROOT, server=place.names)
        known = await names.ask(GetBrokerClusterInfo())
        assert str(place.server.address).encode() in bytes(known.body)

    served(main, FRESH_ONLY)


def test_wrong_settings_are_refused() -> None:
    stateful = AccessConfig(
        authentication_enabled=True,
        fresh_signatures_only=True,
        authentication_strategy="StatefulAuthenticationStrategy",
    )
    with pytest.raises(SettingsError, match="freshSignaturesOnly"):
        check_access(stateful)
    keys = '{"accessKey":"a","secretKey":"marker","signatureMethod":"MD5"}'
    with pytest.raises(SettingsError) as caught:
        check_access(AccessConfig(authentication_enabled=True, inner_client_authentication_credentials=keys))
    assert "marker" not in str(caught.value)


def test_both_signers_keep_the_secret_out_of_their_fields() -> None:
    credentials = Credentials("a", "marker", method=SignatureMethod.SHA256)
    for signer in (Signer(credentials), FreshSigner(credentials, lambda: 1, "s")):
        assert "marker" not in str(signer(GetBrokerConfig(), b""))
