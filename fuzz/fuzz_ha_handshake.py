"""Bytes of a replica and of its master, in any pieces, become a greeting, wait for more, or are refused."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.errors import BadFrame
    from firearrow.model.epochs import Epoch, Epochs, common_end
    from firearrow.protocol.ha_handshake import (
        HEAD,
        HELLO,
        MAGIC,
        Hello,
        Welcome,
        decode_hello,
        decode_welcome,
        encode_hello,
        encode_welcome,
    )


def target(data: bytes) -> None:
    try:
        hello = decode_hello(data)
        assert hello is not None or len(data) < HELLO.size
        if hello is not None:
            assert encode_hello(hello) == data[: HELLO.size]
            assert decode_hello(data[: HELLO.size - 1]) is None
    except BadFrame:
        pass
    try:
        welcome = decode_welcome(data)
    except BadFrame:
        return
    if welcome is None:
        return
    encoded = encode_welcome(welcome)
    assert data.startswith(encoded)
    assert decode_welcome(encoded[:-1]) is None
    last = welcome.history.entries[-1:]
    end = max(welcome.end, *(entry.start_offset for entry in last), 0)
    assert common_end(welcome.history, end, welcome.history, end) == (end if last else None)


WELCOME = encode_welcome(Welcome(8, 9000, Epochs((Epoch(1, 0), Epoch(7, 7000), Epoch(8, 8000)))))
HELLO_BYTES = encode_hello(Hello(2, 7, 1 << 61))


def parse(data: bytes) -> None:
    """Parse as a master does."""
    decode_hello(data)


if __name__ == "__main__":
    run(target, seeds=[HELLO_BYTES, WELCOME, WELCOME[:-5], WELCOME + HELLO_BYTES, HEAD.pack(MAGIC, 1, 0, 1 << 20), b""])
