"""fastjson's dialect: what reads has a standard form, and that form reads as the same."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow import fastjson
    from firearrow.model.message import MessageQueue

SEEDS = (
    b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:{"maxOffset":2}},"byQueue":{0:5,-1:6}}',
    b'{"{\\"brokerName\\":\\"a\\",\\"queueId\\":0,\\"topic\\":\\"T\\"}":[1.5,true,null,"\\u4e2d\\ud83d\\udd25"]}',
    b"{'a':'b\\'',c:[{},[],-1e3],\n\t\"x\" : false}",
    b'{0:{1:{2:{"a":[[["deep"]]]}}}}',
)


def target(data: bytes) -> None:
    value = fastjson.read(data)
    standard = fastjson.to_standard(data)
    assert fastjson.to_standard(standard) == standard
    fastjson.encode_java(value)
    fastjson.decode(data, dict[MessageQueue, dict[int, str]])


def parse(data: bytes) -> None:
    """Parse as a server does, without the comparisons of the target."""
    fastjson.decode(data, dict[MessageQueue, dict[int, str]])


if __name__ == "__main__":
    run(target, seeds=SEEDS)
