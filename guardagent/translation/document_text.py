"""The document as text for a model: every sentence with its number, under its headings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from guardagent.policy.documents import Sentence


def document_text(sentences: Sequence[Sentence]) -> str:
    """Returns the whole document, one line for each sentence."""
    return "\n".join(_line(one) for one in sentences)


def sentences_text(sentences: Iterable[Sentence]) -> str:
    """Returns some sentences, each with its headings and the text that it needs to be understood."""
    return "\n\n".join("\n".join(_with_context(one)) for one in sentences)


def _line(sentence: Sentence) -> str:
    text = " ".join(sentence.text.split())
    if sentence.kind == "heading":
        return f"[{sentence.number}] {'#' * (len(sentence.path) + 1)} {text}"
    return f"[{sentence.number}] {'- ' if sentence.kind == 'item' else ''}{text}"


def _with_context(sentence: Sentence) -> Iterator[str]:
    if sentence.path:
        yield f"under: {' > '.join(sentence.path)}"
    for one in sentence.context:
        yield f"after: {' '.join(one.split())}"
    yield f"[{sentence.number}] {' '.join(sentence.text.split())}"
