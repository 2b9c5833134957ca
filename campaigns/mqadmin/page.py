"""The page of commands: what each does with our tool at both clusters, and with Apache's tool at our servers."""

from collections.abc import Mapping, Sequence
from typing import Final

from campaigns.mqadmin.command_lines import ENDLESS, LOCAL
from campaigns.mqadmin.comparison import Outcome
from firearrow.cli.mqadmin.catalogue import VERBS
from firearrow.cli.mqadmin.verb import Verb

HEAD: Final = """# mqadmin of our own

`mqadmin` is a script of this package: Apache's commands for operators by their names, options, columns and texts,
without a JVM, at our clusters and at Apache's. This page is made by

    python -m campaigns.mqadmin --page docs/reference/our-mqadmin.md

which runs every command that is there with our tool and with Apache's 5.5.0, at our servers and at Apache's 5.5.0, one
after the other, and compares what they print, without times, rates, ids, offsets of new messages and the
order of lines.

| word | meaning |
|---|---|
| same | both tools print the same at these servers |
| differs | both work, the texts are not equal: the table below the list says how |
| works | it works; for our tool: where Apache's tool fails |
| refused | the servers refuse it, to both tools |
| fails | our tool fails where Apache's works |
| none | there is no such thing here; the command ends with status 1 and the reason |
| no server | reads files of a broker and asks no server |
| not compared | goes on until it is stopped |

## What is not Apache's

- The exit status is Apache's: 1 for wrong options, else 0, also when a command fails. Runbooks that look at it should
  set `FIREARROW_MQADMIN_EXIT=strict`: then a command that fails ends with 1.
- A failure is one line on standard error instead of a stack trace.
- Lists are sorted. Apache's tool prints them in the order of a hash table.
- `allocateMQ` divides the queues in their order, as clients do. Apache's tool divides them in the order of a hash
  table, so that it prints something else at every run.
- `queryMsgByUniqueKey` without `-s` and `-e` looks at all messages, Apache's at those of the last 36 hours.
- Options that ask for what is not offered (`queryMsgById -u`, `queryMsgByKey -l`, `printMsg -l`) end with status 1 and
  the reason. `-c` of `resetOffsetByTime` and `skipAccumulatedMessage` says whose route leads to a light queue (`%LMQ%`)
  or to the timer's topic, as in Apache's tool, and has no effect on other topics: there Apache's tool tells the broker
  to move C++ clients, whatever clients the group has. `-c` of `consumerProgress` and `-o` of `cloneGroupOffset` have no
  effect.
- Keys of an account come from `FIREARROW_ACCESS_KEY` and `FIREARROW_SECRET_KEY`, or from `conf/tools.yml` under
  `ROCKETMQ_HOME`; TLS from `FIREARROW_TLS` and `FIREARROW_TLS_TRUST`. The name servers come from `-n`, else from
  `NAMESRV_ADDR`.
- The servers of this page have access off, so they refuse the commands for users and rules. At our broker with
  [access](../how-to/access.md) on, both tools print the same for all twelve, passwords masked; `copyUser` is refused,
  because our broker shows no password (`tests/interop/broker/test_access.py`).

## Commands

"""


def page(
    at_ours: Mapping[str, Sequence[Outcome]], at_apache: Mapping[str, Sequence[Outcome]], refusals: Mapping[str, str]
) -> str:
    """Return the page. ``refusals`` says what our servers told Apache's tool of what they do not have."""
    rows = ["| command | ours on ours | ours on Apache | Apache's on ours |", "|---|---|---|---|"]
    rows += [
        _absent_row(verb, refusals)
        if verb.run is None
        else _row(verb, at_ours.get(verb.name, ()), at_apache.get(verb.name, ()))
        for verb in VERBS
    ]
    absent = ["| command | why not, and what instead |", "|---|---|"]
    absent += [f"| `{verb.name}` | {verb.why_not} |" for verb in VERBS if verb.run is None]
    text = HEAD + "\n".join(rows) + "\n\n## Not here\n\n" + "\n".join(absent) + "\n"
    differing = _differing(at_ours, at_apache)
    return text + ("\n## What differs\n\n" + "\n".join(differing) + "\n" if differing else "")


def _row(verb: Verb, at_ours: Sequence[Outcome], at_apache: Sequence[Outcome]) -> str:
    if verb.name in ENDLESS:
        cells = ("not compared",) * 3
    else:
        cells = (
            _worst([each.our_word for each in at_ours]),
            _worst([each.our_word for each in at_apache]),
            _worst([each.their_word for each in at_ours]),
        )
    return f"| `{verb.name}` | {' | '.join(cells)} |"


def _absent_row(verb: Verb, refusals: Mapping[str, str]) -> str:
    word = "no server" if verb.name in LOCAL else refusals.get(verb.name, "not compared")
    return f"| `{verb.name}` | none | none | {word} |"


def _worst(words: Sequence[str]) -> str:
    order = ("fails", "differs", "refused", "works", "same")
    return next((word for word in order if word in words), "not compared")


def _differing(at_ours: Mapping[str, Sequence[Outcome]], at_apache: Mapping[str, Sequence[Outcome]]) -> list[str]:
    found = [
        (outcome, where)
        for where, verbs in (("ours", at_ours), ("Apache", at_apache))
        for outcomes in verbs.values()
        for outcome in outcomes
        if outcome.our_word in ("differs", "fails")
    ]
    return [f"- `{outcome.line}` on {where}" for outcome, where in found]
