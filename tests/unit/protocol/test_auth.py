import weakref

from firearrow.protocol.auth import Credentials, content, sign, signing_fields

FIELDS = {"AccessKey": "RocketMQ", "queueId": "0", "topic": "TopicTest"}
SECRET = "12345678"


def test_golden_signature() -> None:
    assert content(FIELDS, b"hello") == b"RocketMQ0TopicTesthello"
    assert sign(FIELDS, b"hello", SECRET) == "/u+oQUi9gv7W/z1uifpc34q6njk="


def test_upper_case_sorts_before_lower_and_the_signature_is_left_out() -> None:
    assert content({"b": "2", "B": "1", "Signature": "x", "a": "3"}, b"") == b"132"


def test_names_sort_as_java_compares_them() -> None:
    assert content({"\uffff": "after", "\U0001f525": "before"}, b"") == b"beforeafter"


def test_an_account_signs_itself_and_its_token() -> None:
    fields = {"topic": "T"}
    signed = fields | signing_fields(fields, b"body", Credentials("me", SECRET, "token"))
    assert signed["SecurityToken"] == "token"
    assert signed["AccessKey"] == "me"
    assert signed["Signature"] == sign(signed, b"body", SECRET)
    others = {sign(signed, b"other", SECRET), sign(signed, b"body", "wrong")}
    others.add(sign(signed | {"topic": "U"}, b"body", SECRET))
    assert signed["Signature"] not in others


def test_secrets_stay_out_of_logs() -> None:
    assert SECRET not in repr(Credentials("me", SECRET))


def test_half_a_surrogate_pair_is_signed_as_java_signs_it() -> None:
    assert content({"a": "x\ud800y"}, b"") == b"x?y"


def test_no_field_of_a_request_is_kept_after_its_signature_was_computed() -> None:
    class Name(str):
        """A text that can be referred to weakly."""

    name = Name("n" * 100)
    kept = weakref.ref(name)
    sign({name: "v", "AccessKey": "root"}, b"", SECRET)
    del name
    assert kept() is None
