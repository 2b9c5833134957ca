from firearrow.protocol.auth import Credentials, access_key_of, content, is_signed_by, sign, signing_fields

FIELDS = {"AccessKey": "RocketMQ", "queueId": "0", "topic": "TopicTest"}
SECRET = "12345678"


def test_golden_signature() -> None:
    assert content(FIELDS, b"hello") == b"RocketMQ0TopicTesthello"
    assert sign(FIELDS, b"hello", SECRET) == "/u+oQUi9gv7W/z1uifpc34q6njk="


def test_upper_case_sorts_before_lower_and_the_signature_is_left_out() -> None:
    assert content({"b": "2", "B": "1", "Signature": "x", "a": "3"}, b"") == b"132"


def test_names_sort_as_java_compares_them() -> None:
    assert content({"\uffff": "after", "\U0001f525": "before"}, b"") == b"beforeafter"


def test_what_is_signed_verifies() -> None:
    fields = {"topic": "T"}
    signed = fields | signing_fields(fields, b"body", Credentials("me", SECRET, "token"))
    assert signed["SecurityToken"] == "token"
    assert access_key_of(signed) == "me"
    assert is_signed_by(signed, b"body", SECRET, version=513)
    assert not is_signed_by(signed, b"other", SECRET, version=513)
    assert not is_signed_by(signed, b"body", "wrong", version=513)
    assert not is_signed_by(signed | {"topic": "U"}, b"body", SECRET, version=513)
    assert not is_signed_by(signed | {"extra": "x"}, b"body", SECRET, version=513)


def test_old_clients_add_the_query_flag_after_signing() -> None:
    signed = FIELDS | {"Signature": sign(FIELDS, b"", SECRET), "_UNIQUE_KEY_QUERY": "true"}
    assert is_signed_by(signed, b"", SECRET, version=399)
    assert not is_signed_by(signed, b"", SECRET, version=401)
    newer = FIELDS | {"_UNIQUE_KEY_QUERY": "true"}
    newer["Signature"] = sign(newer, b"", SECRET)
    assert is_signed_by(newer, b"", SECRET, version=401)


def test_a_missing_or_odd_signature_does_not_verify() -> None:
    assert not is_signed_by(FIELDS, b"", SECRET, version=513)
    assert not is_signed_by(FIELDS | {"Signature": "中文"}, b"", SECRET, version=513)


def test_an_empty_access_key_is_none() -> None:
    assert access_key_of({"AccessKey": ""}) is None
    assert access_key_of({}) is None


def test_secrets_stay_out_of_logs() -> None:
    assert SECRET not in repr(Credentials("me", SECRET))
