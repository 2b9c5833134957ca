"""Compact headers: a request either decodes or is refused, and JSON carries what decodes just as well."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.protocol.command import Encoding
    from firearrow.protocol.serialize import catalogue, encode_request, ext_fields
    from fuzz.costs import read_as_a_stranger

from fuzz.header_seeds import framed, headers

decode = catalogue().decode_request


def target(data: bytes) -> None:
    heading = decode(Encoding.COMPACT, data)
    ext_fields(Encoding.COMPACT, data)
    if heading.request is None:
        return
    for encoding in Encoding:
        encoded = encode_request(encoding, heading.request, heading.opaque, oneway=heading.is_oneway)
        again = decode(encoding, encoded[8:])
        assert (again.request, again.opaque, again.code) == (heading.request, heading.opaque, heading.code)


def parse(data: bytes) -> None:
    """Parse as a server does: in a frame, with the signature."""
    read_as_a_stranger(framed(Encoding.COMPACT, data))


if __name__ == "__main__":
    run(target, seeds=headers(Encoding.COMPACT))
