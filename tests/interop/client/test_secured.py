"""Accounts and TLS at Apache's brokers of both versions: right key, wrong key, no key; trusted, untrusted, plain."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from firearrow.client import Consumer, Message, Producer, PullConsumer
from firearrow.client.consumer.settings import ConsumerOptions
from firearrow.client.producer.settings import ProducerOptions
from firearrow.errors import AccessDenied, ConnectionLost, FireArrowError, SendFailed, SettingsError
from firearrow.runtime.tls_settings import ClientTls
from judges import ApacheNameServer, fresh
from judges.install.artifacts import SERVER_VERSIONS
from tests.interop.client.ours import Collector, until
from tests.interop.client.secured import OWNER, READER, SecuredBroker, TlsBroker, certified

pytestmark = pytest.mark.apache


@pytest.fixture(scope="module", params=SERVER_VERSIONS)
def secured(request: pytest.FixtureRequest) -> Iterator[SecuredBroker]:
    version = str(request.param)
    with ApacheNameServer(version) as names, SecuredBroker(version, names.address) as broker:
        yield broker


async def there_and_back(names: str, sending: ProducerOptions, consuming: ConsumerOptions) -> None:
    topic, collector = fresh("secured"), Collector()
    async with Producer(names, group=fresh("P"), **sending) as producer:
        for number in range(10):
            assert (await producer.send(Message.of(topic, b"%d" % number))).is_ok
    consuming["start"] = "first"
    async with Consumer(names, group=fresh("G"), topics=topic, **consuming) as consumer:
        running = asyncio.create_task(consumer.run(collector))
        await until(lambda: collector.accepted >= 10, "all messages")
        await consumer.commit()
        consumer.stop()
        await running


def test_the_right_key_opens(secured: SecuredBroker) -> None:
    key, secret = OWNER
    sending = ProducerOptions(access_key=key, secret_key=secret)
    consuming = ConsumerOptions(access_key=key, secret_key=secret)
    asyncio.run(there_and_back(secured.name_servers[0], sending, consuming))


@pytest.mark.parametrize("keys", [(OWNER[0], "wrong-secret"), ("stranger", "some-secret"), ("", "")])
def test_a_wrong_key_and_no_key_are_denied_by_name(secured: SecuredBroker, keys: tuple[str, str]) -> None:
    names, topic = secured.name_servers[0], fresh("denied")

    async def story() -> None:
        async with (
            Producer(names, group=fresh("P"), access_key=OWNER[0], secret_key=OWNER[1]) as owner,
            Producer(names, group=fresh("P"), access_key=keys[0], secret_key=keys[1]) as producer,
            PullConsumer(names, group=fresh("G"), access_key=keys[0], secret_key=keys[1]) as puller,
        ):
            sent = await owner.send(Message.of(topic, b"x"))
            with pytest.raises(AccessDenied) as denied:
                await producer.send(Message.of(topic, b"x"))
            assert not denied.value.retryable
            assert not denied.value.may_have_happened
            assert keys[1] not in str(denied.value) or not keys[1]
            with pytest.raises(AccessDenied):
                await puller.pull_bytes(sent.queue, 0)

    asyncio.run(story())


def test_a_consumer_that_is_denied_says_why_it_stands_still(secured: SecuredBroker) -> None:
    names, topic = secured.name_servers[0], fresh("stands")

    async def story() -> None:
        async with (
            Producer(names, group=fresh("P"), access_key=OWNER[0], secret_key=OWNER[1]) as owner,
            Consumer(names, group=fresh("G"), topics=topic, stall_ms=100, access_key=OWNER[0], secret_key="wrong") as c,
        ):
            await owner.send(Message.of(topic, b"x"))
            await until(lambda: any("signature" in stall.reason for stall in c.stalls()), "the reason")

    asyncio.run(story())


def test_an_account_may_read_and_not_write(secured: SecuredBroker) -> None:
    if not secured.version.startswith("4."):
        pytest.skip("5.5.0 takes its accounts from administrators, not from a file")
    names, topic = secured.name_servers[0], fresh("readonly")

    async def story() -> None:
        async with (
            Producer(names, group=fresh("P"), access_key=OWNER[0], secret_key=OWNER[1]) as owner,
            Producer(names, group=fresh("P"), access_key=READER[0], secret_key=READER[1]) as producer,
            PullConsumer(names, group=fresh("G"), access_key=READER[0], secret_key=READER[1]) as puller,
        ):
            sent = await owner.send(Message.of(topic, b"x"))
            with pytest.raises(AccessDenied):
                await producer.send(Message.of(topic, b"x"))
            await puller.pull_bytes(sent.queue, 0)

    asyncio.run(story())


def test_half_a_key_is_refused_at_once() -> None:
    with pytest.raises(SettingsError):
        Producer("127.0.0.1:1", access_key="only")
    assert "owner-secret" not in repr(Producer("127.0.0.1:1", access_key="a", secret_key="owner-secret").settings)


@pytest.mark.parametrize("version", SERVER_VERSIONS)
def test_tls_is_spoken_and_servers_are_known_by_their_certificates(version: str, tmp_path: Path) -> None:
    shown, flags = certified(tmp_path)
    (tmp_path / "other").mkdir()
    stranger, _ = certified(tmp_path / "other")
    with ApacheNameServer(version, flags=flags) as names, TlsBroker(version, names.address, flags):
        trusting = ClientTls(enabled=True)
        checking = ClientTls(enabled=True, verify_server=True, trust_path=str(shown))
        for tls in (trusting, checking):
            asyncio.run(there_and_back(names.address, ProducerOptions(tls=tls), ConsumerOptions(tls=tls)))

        async def refused(tls: ClientTls) -> FireArrowError:
            async with Producer(names.address, group=fresh("P"), tls=tls, retries=0) as producer:
                with pytest.raises(FireArrowError) as caught:
                    await producer.send(Message.of(fresh("refused"), b"x"))
                return caught.value

        wrong = asyncio.run(refused(ClientTls(enabled=True, verify_server=True, trust_path=str(stranger))))
        assert "certificate" in str(wrong)
        plain = asyncio.run(refused(ClientTls()))
        assert isinstance(plain, SendFailed)
        assert isinstance(plain.__cause__, ConnectionLost)
