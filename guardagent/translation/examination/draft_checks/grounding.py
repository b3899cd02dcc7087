"""Grounding: each rule quotes the document, and each quote stands in its sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guardagent.policy.documents import Sentence
from guardagent.policy.documents.quotations import find_quote, word_count
from guardagent.translation.drafting.draft import Problem, RuleDraft
from guardagent.translation.examination.examined import ExaminedDraft, problem_of

_SHORTEST = 3  # words


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """Fatal for a rule without any quote that is found."""
    sentences = examined.context.document.sentences
    texts = ["\n".join((*one.path, *one.context, one.text)) for one in sentences]
    for rule in examined.draft.rules:
        problems = [
            text for number, quote in rule.quotes.items() if (text := _problem(number, quote, sentences, texts))
        ]
        is_lost = not any(_is_in(quote, number, texts) for number, quote in rule.quotes.items())
        if not rule.quotes:
            problems = ["the rule quotes no sentence; expected the words of the document that it rests on"]
        for text in problems:
            yield _of(rule, text, fatal=is_lost)


def _of(rule: RuleDraft, text: str, *, fatal: bool) -> Problem:
    return problem_of(rule, "grounding", text, fatal=fatal)


def _problem(number: int, quote: str, sentences: Sequence[Sentence], texts: Sequence[str]) -> str:
    """The problem with a quote; empty if there is none."""
    if not _is_in(quote, number, texts):
        others = [at for at in range(1, len(texts) + 1) if _is_in(quote, at, texts)]
        if others:
            return f"the quote {quote!r:.200} stands in sentence {others[0]}, not in sentence {number}"
        return f"the quote {quote!r:.200} is not in sentence {number}; {_expected(number, sentences)}"
    count = word_count(quote)
    if count < _SHORTEST and count < word_count(sentences[number - 1].text):
        return f"the quote {quote!r:.200} of sentence {number} is too short; expected at least {_SHORTEST} of its words"
    return ""


def _expected(number: int, sentences: Sequence[Sentence]) -> str:
    if not _exists(number, len(sentences)):
        return f"the document has the sentences 1 to {len(sentences)}"
    return f"expected words of {sentences[number - 1].text!r:.300}"


def _exists(number: object, count: int) -> bool:
    return isinstance(number, int) and 1 <= number <= count


def _is_in(quote: str, number: int, texts: Sequence[str]) -> bool:
    """Whether the parts of a quote stand in a sentence, in their order."""
    return _exists(number, len(texts)) and bool(find_quote(texts[number - 1], str(quote)))
