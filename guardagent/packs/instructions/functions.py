"""The functions of the rules: they find text that addresses a model, not a person.

A text is read as people see it, and as a model does: with its hidden parts (comments, invisible elements, tag
characters, data URIs) by themselves, where less is needed for an order.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from guardagent._support.syntax import compile_pattern
from guardagent.packs import leaves

_MAX_CHARACTERS = 1_000_000
_MODEL = r"(?:ai|llms?|chat ?bots?|(?:large )?language models?|(?:ai )?(?:agents?|assistants?|models?|bots?)|automated readers?)"
_OLD = r"(?:previous|prior|above|earlier|preceding|foregoing|existing|original|vorherigen|bisherigen|anteriores|pr[eé]c[eé]dentes)"
_ORDERS = r"(?:instructions?|instrucciones|prompts?|rules|guidelines|directions|context|orders|commands|anweisungen|consignes)"
_DO = (
    r"(?:send|forward|transfer|delete|close|open|visit|export|upload|post|approve|confirm|enter|reveal|print|share|"
    r"invoke|invokes|execute|run|reply|respond|hide|replace|obey|comply|recommend|rate|act|read|copy|skip|pay|add)"
)
_VOID = r"(?:cancelled|canceled|void|outdated|obsolete|superseded|over|no longer)"
_PLAIN = compile_pattern(
    "(?is)"
    + "|".join(
        (
            rf"\b(?:ignor\w+|disregard|forget|override|discard|bypass|overrule)\b(?:\W+\w+){{0,4}}?\W+{_OLD}\W+(?:\w+\W+){{0,2}}?{_ORDERS}\b",
            rf"\b(?:ignor\w+|disregard|forget|override|discard)\W+(?:\w+\W+){{0,3}}?{_ORDERS}\W+(?:\w+\W+){{0,4}}?{_OLD}\b",
            r"\b(?:forget|disregard|ignore) (?:everything|all|the rules|anything)(?: that| you)?[a-z ]{0,20} (?:above|before|earlier|so far|given)\b",
            r"<\|(?:im_start|im_end|system|user|assistant|eot_id|start_header_id)\|>|\[/?inst\]|<<\/?sys>>",
            r"(?:^|\n)[ >#*]*(?:system|assistant|developer) ?: ?(?:sure|i will|i'll|you|the user|ignore|new|override)\b",
            r"\b(?:attention|note|message|dear|hey|hello|to|if you are|as|for)\W+(?:the |an? |all |any )?(?:ai|llms?|chat ?bots?|(?:large )?language models?|ai (?:agents?|assistants?|models?))\b\W",
            rf"\b(?:attention|dear|hey)\W+(?:the |all )?{_MODEL}\b",
            r"\b(?:all|any|for) (?:ai|automated) (?:agents?|assistants?|models?|readers?)\b",
            rf"\b{_MODEL}\b[^.!?\n]{{0,80}}\b(?:must|has to|have to|is required to|are required to|should now)\W+(?:first |now |immediately )?{_DO}\b",
            rf"(?:^|\n)\W*{_MODEL}\W*[,:]\W*(?:please )?{_DO}\b",
            r"\b(?:do not|don't|never)\W+(?:tell|inform|notify|alert|mention|report|reveal|show)\b[^.!?\n]{0,40}\b(?:the user|your (?:operator|user|developer))\b",
            r"\bwithout (?:telling|informing|asking|notifying) (?:the|your) (?:user|operator)\b|\bproceed without asking\b",
            r"\byou are now (?:in [a-z ]{0,30}mode|an? (?:unrestricted|uncensored)|dan\b|free of)",
            r"\bnew (?:system )?(?:instructions?|message|task|prompt)(?: for you)? ?(?::|is to\b)",
            rf"\b(?:your|the|all) {_OLD} (?:tasks?|instructions|guidelines|rules|prompt)\b[^.!?\n]{{0,20}}\b{_VOID}\b",
            r"\binstructions of your (?:developer|operator)s?\b",
            r"\b(?:reveal|print|show|repeat|output|display)\W+(?:me )?(?:your|the) (?:hidden |system |initial |original )+(?:prompt|instructions|message)\b",
            r"\b(?:your )?safety (?:training|guidelines|rules)\b[^.!?\n]{0,30}\b(?:not|no longer)\b",
            r"\b(?:use|call|invoke|execute|run|invokes|calls)(?: the)?(?: tool| function)? `?[a-z]+_[a-z_]+`?(?: tool| function)?\b(?:\W+(?:with|and|on|to|for)\b|\W*$)",
            r"\bas a tool call\b|\bnext step for the (?:agent|assistant|model)\b",
            r"\bas if the user had\b|\bthe user has already (?:confirmed|approved|agreed)\b",
            r"\bfrom (?:now|here) on,? (?:you|respond|answer|reply|act)\b",
            r"\b(?:include|add|put|insert) the following (?:link|text|sentence|line)\b[^.!?\n]{0,20}\byour (?:answer|reply|response|summary)\b",
            r"\byour (?:answer|reply|response|summary) (?:has to|must) (?:begin|contain|include|start|end)\b",
            r"\b(?:when|before|while)(?: you)? (?:process|summari|answer|respond)\w*[^.!?\n]{0,30}, (?:you must|call|include|send|add|open|use|replace)\b",
            r"\b(?:you must not|do not|don't) follow the user\b|\byou obey\b",
            r"\b(?:treat|consider) (?:every|all|each|the) (?:following|later|next)\b[^.!?\n]{0,40}\b(?:approved|authori[sz]ed|confirmed)\b",
            rf"\bfrom the (?:administrator|developer|operator) of (?:the|this) {_MODEL}\b",
            rf"\bthis is a test of the {_MODEL}\b|\b{_MODEL} (?:processing|reading|evaluating|indexing|that (?:index|read|evaluate|process)\w*) (?:this|these)\b",
            r"\b(?:conversation|context|messages) so far\b[^.!?\n]{0,40}\b(?:append|send|post|copy)|\b(?:append|send|post|copy)\b[^.!?\n]{0,40}\b(?:conversation so far|content of this conversation)\b",
        )
    )
)
_HIDDEN = compile_pattern(
    rf"(?is)\b(?:you(?:r)?|user|{_MODEL}|tool|instructions?|prompt|password|account|payment|transfer)\b[^\n]{{0,200}}\b{_DO}\w*\b"
    rf"|\b{_DO}\b[^\n]{{0,200}}\b(?:you(?:r)?|user|{_MODEL}|tool|instructions?|prompt|password|account|payment|customer|contacts?)\b"
)
_COMMENT = compile_pattern(
    r"(?s)<!--(.*?)-->|\[(?://|comment)\]: ?(?:# ?)?[(\"'<](.*?)[)\"'>](?:\n|$)|/\*hidden(.*?)\*/"
)
_INVISIBLE = compile_pattern(
    r"(?is)<\w+[^>]*?(?:display ?: ?none|visibility ?: ?hidden|font-size ?: ?0|opacity ?: ?0(?:[;\"' ]|\.0)|\shidden\b)[^>]*?>([^<]+)<"
)
_DATA = compile_pattern(r"(?i)data:(?:text|application)/[\w.+-]{1,40}((?:;[\w=-]{1,40}){0,4}),([\w%+/=.~!*'()-]{8,})")
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{2,8}\U000e007f")
_SPELLED = re.compile("[\U000e0020-\U000e007e]{3,}")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")


def orders_in(value: Any, tools: list[str]) -> list[str] | None:
    """Finds the ways in which the strings of a value address a model: 'order', 'hidden', 'characters', 'tool'. None if they are too long.

    Args:
        value: an output, at any depth.
        tools: names of the agent's tools, which no output of another tool has a reason to name.
    """
    texts = [str(leaf) for _, leaf in leaves(value) if isinstance(leaf, str)]
    if sum(map(len, texts)) > _MAX_CHARACTERS:
        return None
    return sorted({kind for text in texts for kind in _orders(text, tuple(tools))})


@lru_cache(64)  # several rules read the same output
def _orders(text: str, tools: tuple[str, ...]) -> frozenset[str]:
    kinds = set()
    spelled = [*_spelled(text)]
    if spelled:
        kinds.add("characters")
    seen = _plain(text)
    if any(_PLAIN.search(part) for part in (seen, *spelled)):
        kinds.add("order")
    if any(_HIDDEN.search(part) or _PLAIN.search(part) for part in (*_hidden(seen), *spelled)):
        kinds.add("hidden")
    if any(len(tool) > 3 and _names(seen, tool) for tool in tools):
        kinds.add("tool")
    return frozenset(kinds)


def _plain(text: str) -> str:
    """The string as it looks: in one form, and without characters that nobody sees."""
    if text.isascii():
        return text
    return "".join(sign for sign in unicodedata.normalize("NFKC", text) if unicodedata.category(sign) != "Cf")


def _spelled(text: str) -> Iterator[str]:
    """Yields the text that invisible characters spell: tags, which flags of regions also use, and runs of variation selectors."""
    if text.isascii():
        return
    for run in _SPELLED.findall(_FLAG.sub("", text)):
        yield "".join(chr(ord(sign) - 0xE0000) for sign in run)
    for run in _SELECTORS.findall(text):
        numbers = (ord(sign) for sign in run)
        yield bytes(sign - 0xFE00 if sign < 0xE0000 else sign - 0xE0100 + 16 for sign in numbers).decode(
            "utf-8", "replace"
        )


def _hidden(text: str) -> Iterator[str]:
    """The parts of a page that no reader sees."""
    for match in (*_COMMENT.finditer(text), *_INVISIBLE.finditer(text)):
        yield next(part for part in match.groups() if part is not None)
    for match in _DATA.finditer(text):
        content = unquote(match[2])
        if "base64" in match[1].lower():
            try:
                content = base64.b64decode(content + "==", validate=False).decode("utf-8", "replace")
            except (ValueError, binascii.Error):
                continue
        yield content


def _names(text: str, tool: str) -> bool:
    """Whether a text names a tool as something to be called."""
    at = text.find(tool)
    while at >= 0:
        end = at + len(tool)
        is_word = not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum() or text[end : end + 1] == "_")
        if is_word and (
            "_" in tool
            or text[end : end + 1] == "("
            or re.search(r"(?i)\b(?:call|use|invoke|run)\W+(?:\w+\W+){0,2}$", text[max(0, at - 40) : at])
        ):
            return True
        at = text.find(tool, end)
    return False
