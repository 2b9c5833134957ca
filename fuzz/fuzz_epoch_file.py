"""Bytes of an epoch file become a history that is written as the same bytes again, or none."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.model.epochs import Epoch, Epochs, common_end
    from firearrow.store.epochs.epoch_file import decode_epochs, encode_epochs


def target(data: bytes) -> None:
    epochs = decode_epochs(data)
    if epochs is None:
        return
    assert decode_epochs(encode_epochs(epochs)) == epochs
    last = epochs.last
    if last is not None:
        end = last.start_offset + 10
        assert common_end(epochs, end, epochs, end) == end
        assert epochs.cut(last.start_offset).last != last
        assert epochs.kept_from(end).last == last


SEED = encode_epochs(Epochs((Epoch(1, 0), Epoch(7, 7000), Epoch(8, 8000))))

if __name__ == "__main__":
    run(target, seeds=[SEED, SEED[:-3], b"", b"1\n0\n3-40\n"])
