"""Commands tell the truth about failures: the changes made before them, and the promises of help and pages."""

import re
from pathlib import Path

import pytest

from firearrow.cli.app import load_command
from firearrow.cli.cluster import told
from firearrow.cli.messages.message_printer import FIELDS
from firearrow.cli.mqadmin.startup import EXIT, STRICT
from firearrow.cli.produce import _InputSender
from firearrow.errors import SendFailed

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (0, "gone. 0 messages were sent before it. Nothing was changed; trying again later may help."),
        (3, "gone. 3 messages were sent before it; leave them out when you try again."),
    ],
)
def test_a_send_that_fails_after_others_does_not_say_that_nothing_was_changed(sent: int, says: str) -> None:
    sending = _InputSender(None, 0, None, 1)  # type: ignore[arg-type]
    sending._sent = sent
    failure = SendFailed("gone", retryable=True, may_have_happened=False)
    assert told(sending._with_count(ExceptionGroup("", [failure]))) == says  # type: ignore[arg-type]


def test_the_help_of_consume_names_every_field() -> None:
    (option,) = [each for each in load_command("consume").params if "--format" in each.opts]
    for letter, (meaning, _) in FIELDS.items():
        assert f"%{letter} {meaning}" in option.help


def test_pages_name_the_status_that_mqadmin_ends_with() -> None:
    texts = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    found = [value for page in texts for value in re.findall(rf"{EXIT}=(\w+)", page.read_text())]
    assert set(found) == {STRICT}
