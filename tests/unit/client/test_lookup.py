"""Lists of name servers over HTTP."""

import pytest

from firearrow.client.lookup import is_url, parse_url, read_answer
from firearrow.client.name_servers import name_server_source
from firearrow.errors import BadBody, ConnectionFailed, SettingsError
from firearrow.runtime.network import Address

LIST = "10.0.0.1:9876;10.0.0.2:9876"


def answer(fields: str, body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + body


def test_a_url_is_told_from_addresses() -> None:
    assert is_url(" HTTP://config:8080/rocketmq/nsaddr")
    assert not is_url("127.0.0.1:9876")
    assert name_server_source("127.0.0.1:9876").addresses == (Address("127.0.0.1", 9876),)
    found = name_server_source(["http://config:8080/rocketmq/nsaddr?unit=a"])
    assert found.addresses == ()
    assert found.url == ("http", Address("config", 8080), "/rocketmq/nsaddr?unit=a")


@pytest.mark.parametrize(("text", "port"), [("http://config", 80), ("https://config/x", 443), ("http://[::1]:81", 81)])
def test_ports_have_defaults(text: str, port: int) -> None:
    assert parse_url(text).address.port == port


@pytest.mark.parametrize("text", ["http://", "ftp://host/x", "http://host:port/", "http://[::1/"])
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_url(text)


def test_bodies_come_with_a_length_in_chunks_or_until_the_end() -> None:
    text = LIST.encode()
    assert read_answer(answer(f"Content-Length: {len(text)}", text + b"more")) == LIST
    chunks = b"8\r\n" + text[:8] + b"\r\n%x;note\r\n" % (len(text) - 8) + text[8:] + b"\r\n0\r\n\r\n"
    assert read_answer(answer("Transfer-Encoding: chunked", chunks)) == LIST
    assert read_answer(answer("Server: any", text + b"\n")) == LIST


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SSH-2.0-x\r\n\r\n",
        answer("Content-Length: 99", b"short"),
        answer("Transfer-Encoding: chunked", b"zz\r\n"),
        answer("Transfer-Encoding: chunked", b"5\r\nab"),
    ],
)
def test_what_is_no_answer_is_refused(raw: bytes) -> None:
    with pytest.raises(BadBody):
        read_answer(raw)


def test_another_status_is_a_failure() -> None:
    with pytest.raises(ConnectionFailed, match="404"):
        read_answer(answer("Content-Length: 0", b"", "404 Not Found"))
