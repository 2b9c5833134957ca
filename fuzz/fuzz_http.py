"""Heads of HTTP requests at the port of metrics: a request or None, whatever the bytes are."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.remoting.http_port import MAX_HEAD_BYTES, parse_head


def target(data: bytes) -> None:
    asked = parse_head(data)
    assert asked is None or "?" not in asked.path


SEEDS = [
    b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*",
    b"HEAD /health/ready?x=1 HTTP/1.0\r\nConnection: keep-alive",
    b"POST / HTTP/1.1\r\nContent-Length: 5",
    b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 1000,
]

if __name__ == "__main__":
    run(target, seeds=SEEDS, max_len=MAX_HEAD_BYTES)
