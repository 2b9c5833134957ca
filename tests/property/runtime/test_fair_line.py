"""The line in which owners and keys take turns, compared with a slow model."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.runtime.turn import FairLine

KEYS = {"a1": "a", "a2": "a", "b1": "b", "c1": "c"}
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(sorted(KEYS))),
        st.tuples(st.just("first"), st.sampled_from(sorted(KEYS))),
        st.tuples(st.just("take"), st.just("")),
        st.tuples(st.just("drop"), st.sampled_from(sorted(KEYS))),
    ),
    max_size=60,
)


class Model:
    """Lists of all things, and who had a turn when."""

    def __init__(self) -> None:
        self.things: dict[str, list[int]] = {}
        self.owners: list[str] = []
        self.keys: list[str] = []

    def add(self, key: str, thing: int, *, is_first: bool) -> None:
        if KEYS[key] not in {KEYS[one] for one in self.things}:
            self.owners = [one for one in self.owners if one != KEYS[key]] + [KEYS[key]]
        if key not in self.things:
            self.keys = [one for one in self.keys if one != key] + [key]
        own = self.things.setdefault(key, [])
        own.insert(0 if is_first else len(own), thing)

    def take(self) -> int | None:
        for owner in self.owners:
            for key in self.keys:
                if KEYS[key] == owner and key in self.things:
                    self.owners.remove(owner)
                    self.owners.append(owner)
                    self.keys.remove(key)
                    self.keys.append(key)
                    thing = self.things[key].pop(0)
                    if not self.things[key]:
                        del self.things[key]
                    return thing
        return None


@given(OPERATIONS)
def test_turns_are_those_of_the_model(operations: list[tuple[str, str]]) -> None:
    line, model = FairLine[str, int](), Model()
    for number, (kind, key) in enumerate(operations):
        if kind == "take":
            found = line.next()
            assert (None if found is None else line.take(*found)) == model.take()
        elif kind == "drop":
            assert list(line.drop(key)) == model.things.pop(key, [])
        else:
            line.add(KEYS[key], key, number, is_first=kind == "first")
            model.add(key, number, is_first=kind == "first")
        assert len(line) == sum(map(len, model.things.values()))
        for one, owner in KEYS.items():
            assert (one in line) == (one in model.things)
            assert line.waiting_at(one) == len(model.things.get(one, []))
            assert line.waiting_of(owner) == sum(
                len(things) for of, things in model.things.items() if KEYS[of] == owner
            )
    assert sorted(line.clear()) == sorted(thing for things in model.things.values() for thing in things)
    assert not len(line)


@given(st.sets(st.sampled_from(sorted(KEYS))), st.sampled_from("abc"))
def test_who_may_not_have_a_turn_keeps_it(busy: set[str], full: str) -> None:
    line = FairLine[str, int]()
    for number, (key, owner) in enumerate(KEYS.items()):
        line.add(owner, key, number)
    expected = next(((KEYS[key], key) for key in KEYS if key not in busy and KEYS[key] != full), None)
    assert line.next(lambda owner: owner != full, lambda key: key not in busy) == expected
    assert len(line) == len(KEYS)


def test_a_key_stays_with_its_owner_while_it_waits() -> None:
    line = FairLine[str, int]()
    line.add("address", "key", 1)
    line.add("user", "key", 2)
    assert line.owner_of("key", "user") == "address"
    assert (line.waiting_of("address"), line.waiting_of("user")) == (2, 0)
    line.drop("key")
    assert line.owner_of("key", "user") == "user"
