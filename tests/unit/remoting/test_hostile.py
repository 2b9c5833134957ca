"""Whatever a peer sends, and however it is chopped: nothing escapes, nothing is kept, others are served."""

from hypothesis import given, settings
from hypothesis import strategies as st

from firearrow.protocol.frame import prefix
from firearrow.runtime.tls import TLS_HANDSHAKE
from tests.unit.remoting.memory import ask, serving, told, turns, until, virtually

GOOD = [ask(1), ask(2, b"body"), ask(3, oneway=True), ask(4, encoding=1)]
HEADERS = st.sampled_from(
    [
        b"{}",
        b"[]",
        b'{"code":101}',
        b'{"code":101,"extFields":{"namespace":1,"key":true}}',
        b'{"code":-1,"opaque":-1,"flag":-1}',
        b'{"code":101,"flag":1,"opaque":0}',
        b'{"code":99999999999}',
        b'{"code":310,"extFields":{"a":null}}',
        b"{" * 2000,
        b'{"code":101,"extFields":{"namespace":"n","key":"\\ud800"}}',
    ]
)
PIECES = st.one_of(
    st.sampled_from(GOOD),
    st.binary(max_size=40),
    HEADERS.map(lambda header: prefix(0, len(header), 0) + header),
    st.binary(max_size=40).map(lambda header: prefix(1, len(header), 0) + header),
    st.sampled_from(GOOD).flatmap(
        lambda frame: st.tuples(st.integers(0, len(frame) - 1), st.integers(0, 255)).map(
            lambda change: frame[: change[0]] + bytes([change[1]]) + frame[change[0] + 1 :]
        )
    ),
)


@settings(max_examples=200, deadline=None)
@given(pieces=st.lists(PIECES, min_size=1, max_size=6), cuts=st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_a_hostile_peer(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    if data[:1] == bytes([TLS_HANDSHAKE]):
        data = b"\x00" + data

    async def scenario() -> None:
        server, network = await serving(max_partial_bytes=10_000, max_frame_bytes=5000, idle_s=10_000.0)
        hostile, good = network.arrive(), network.arrive()
        at = turn = 0
        while at < len(data) and not hostile.ended:
            step = cuts[turn % len(cuts)]
            await until(lambda: hostile.reads)
            hostile.hear(data[at : at + step])
            at, turn = at + step, turn + 1
        good.hear(ask(7))
        assert [answer.opaque for answer in told(good.said())] == [7]
        await turns()
        if not hostile.ended:
            hostile.lose()
        assert len(server.peers) == 1
        assert server._endpoint is not None
        assert (server._endpoint.partials.held, server._endpoint.budget.held) == (0, 0)

    virtually(scenario())
