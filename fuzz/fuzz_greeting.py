"""The first bytes of a connection: a preamble, TLS or plain frames, the same in one piece and byte by byte."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.errors import BadFrame
    from firearrow.remoting.greeting import Greeting, Opening

V2 = b"\r\n\r\n\x00\r\nQUIT\n"


def target(data: bytes) -> None:
    assert _fed([data]) == _fed([data[at : at + 1] for at in range(len(data))])


def _fed(pieces: list[bytes]) -> tuple[str, Opening | None]:
    """Return the outcome of a greeting for a stream in these pieces: the error's text or an empty one, and the
    opening."""
    greeting, left = Greeting(proxy_protocol=True), iter(pieces)
    for piece in left:
        try:
            opening = greeting.feed(piece)
        except BadFrame:
            return "refused", None
        if opening is not None:
            return "", opening._replace(rest=opening.rest + b"".join(left))
    return "", None


def parse(data: bytes) -> None:
    """Parse as a server does."""
    Greeting(proxy_protocol=True).feed(data)


SEEDS = [
    b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n\x00\x00\x00\x05",
    b"PROXY UNKNOWN\r\n\x16",
    V2 + b"\x21\x11\x00\x0c" + bytes(12) + b"\x16",
    V2 + b"\x21\x21\x00\x24" + bytes(36) + b"\x00",
    b"\x16\x03\x01",
    b"\x00\x00\x00\x10",
]

if __name__ == "__main__":
    run(target, seeds=SEEDS)
