"""JSON headers: a request either decodes or is refused; what decodes encodes to a header that decodes to the same."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.protocol.command import Encoding
    from firearrow.protocol.serialize import catalogue, encode_request, ext_fields, read_heading
    from fuzz.costs import read_as_a_stranger

from fuzz.header_seeds import framed, headers

decode = catalogue().decode_request


def target(data: bytes) -> None:
    heading = decode(Encoding.JSON, data)
    again, _ = read_heading(Encoding.JSON, data)
    assert (again.code, again.opaque, again.flag) == (heading.code, heading.opaque, heading.flag)
    ext_fields(Encoding.JSON, data)
    if heading.request is not None:
        encoded = encode_request(Encoding.JSON, heading.request, heading.opaque, oneway=heading.is_oneway)
        assert decode(Encoding.JSON, encoded[8:]).request == heading.request


def parse(data: bytes) -> None:
    """Parse as a server does: in a frame, with the signature."""
    read_as_a_stranger(framed(Encoding.JSON, data))


if __name__ == "__main__":
    run(target, seeds=headers(Encoding.JSON))
