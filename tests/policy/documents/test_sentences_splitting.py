"""Sentences of running text: a bar stands where one ends."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.policy.documents.sentences import split
from tests.tiers import slow_but_every

CASES = """
Ask first. | Then book.
Is it late? | Deny it! | Say why.
One sentence without a stop
Use a voucher, e.g. a gift card, for it. | Ask first.
That is, i.e. The Plan applies.
Ask Mr. Smith or Mrs. J. Doe. | Then go on.
Dr. Who signs. | Prof. Lee does not.
Customers in the U.S. can return it. | Others cannot.
Ship to the U.S. | The fee is waived.
Ship to U.S. Customs offices.
See rule No. 5 first. | Then stop.
May it go out? | No. | Ask again.
See Sec. 4 and Fig. 2, cf. Art. 7 and p. 12.
Rates (approx. 3 %) apply. | See pp. 4-5.
Refund at most $1,000.50 per day. | Never more.
The rate is 3.5 percent. | Version 2.0.1 is out.
It costs $5. | Pay in cash.
Call between 9 a.m. and 5 p.m. on weekdays.
Opening is at 9 a.m. | The desk closes at 5 p.m.
Closed after 5 p.m. Monday to Friday.
Wait... then go on. | Stop… | Then ask.
Wait... | The agent goes on.
Refund it (ask first. Then confirm.) before closing. | Done.
Refund it. | (Ask first. Then confirm.) | Close it.
Refund it (see above). | Close it.
Say "No. Never." and stop. | Then leave.
Say "We cannot." | Then leave.
Say “Sorry. It is late.” | Then leave.
He asked "Sure?" and left.
The firm Acme Inc. pays. | Beta Corp. | The owner pays.
Bring pens, paper, etc. to the desk. | Bring pens etc. | The desk has ink.
Read https://example.com/a.b?c=d. | Then write to a.b@example.com. | Done.
Open README.md or config.yaml. | Then run it.
1. Ask the user. | 2. Then book.
(a) collect the id; (b) ask why; and (c) confirm. | Then cancel.
Collect: the id; the reason; the date. | Then cancel.
a. First thing.
iv. Fourth thing. | More of it.
Plan B. | The agent asks.
The score is 5. | 3 bags are free.
She has a Ph.D. in law. | He has none.
John Smith Jr. pays. | Smith vs. Doe is closed.
Deny it!! | Really?! | Yes.
He pays 5 dollars.Then it ends.
Yahoo! offers mail. | Ask there.
退款需要确认。 | 请先询问用户。 | 然后关闭。
क्या आप सहमत हैं? | हाँ।
The height is 5" and the width 4". | Measure it.
The unmatched ( stays open. | It is not lost.
The smile :) is fine. | Go on.
Allowed in Jan. and Feb. only. | Not in Mar. 2024.
On Dec. 5 it ends. | Then ask.
The limit is 24 hrs. after booking. | Ask then.
Version v1. is old. | It ends.
*Note:* ask. | [1] Then book.
Ask.[1] | Then book.
""".strip().splitlines()


@pytest.mark.parametrize("case", CASES)
def test_a_sentence_ends_at_its_stop(case: str) -> None:
    """Not at abbreviations, numbers, times, addresses, and not within parentheses and quotations."""
    assert split(case.replace(" | ", " ")) == case.split(" | ")


def test_a_line_break_ends_a_sentence_unless_it_goes_on() -> None:
    """The word after it decides."""
    assert split("Fee: 5 dollars\nTerm: 3 days\nand not longer") == ["Fee: 5 dollars", "Term: 3 days\nand not longer"]


@given(st.text(st.sampled_from("aB1 .!?…\"'()[]“”;:\n§。U.S.e.g.")))
def test_no_character_is_lost(text: str) -> None:
    """Whatever the punctuation."""
    assert re.sub(r"\s", "", "".join(split(text))) == re.sub(r"\s", "", text)


@pytest.mark.parametrize("sign", slow_but_every(3, [".", "(", ")", '"', ".)", ". ", "a.", "\n", "[1]", '" ', "(a. "]))
def test_long_runs_take_no_long_time(sign: str) -> None:
    """Time is linear in the length: a quadratic one would take hours here."""
    assert "".join(split(sign * 200_000)).replace(" ", "") == "".join((sign * 200_000).split()).replace(" ", "")
