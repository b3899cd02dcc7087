"""Names that tools usually have: a verb, alone or first or last of some words, such as `send_email` or `order_cancel`.

A bare name in a rule is a tag. One that looks like a tool is a forgotten `tool:`, and its rule would concern no call.
"""

from __future__ import annotations

import re

_VERBS = frozenset(
    """
    accept activate add adjust allocate append apply approve archive assign attach authenticate authorize backup ban
    block book browse build buy calculate call cancel change charge check checkout clear click clone close commit
    compile complete compute configure confirm connect convert copy create deactivate debit delete deploy deposit
    disable disconnect dispatch download draft drop edit email enable encrypt end enroll erase escalate evaluate
    exec execute export extract fetch file fill find finish forward generate get give grant handoff hire import
    insert install invite invoke issue join kick kill launch list load lock log login logout lookup make map merge
    modify monitor move navigate notify open pay ping place post prepare prescribe print process provision publish
    pull purchase push put query quote read rebook reboot rebuild receive recover refund register reject release
    reload remove rename renew reopen replace reply request reschedule reserve reset resolve restart restore resume
    retrieve return revoke rollback rotate run save scale schedule scrape search select sell send set share ship
    show shutdown sign signin signup start stop store submit subscribe summarize suspend swap sync terminate test
    trade transcode transfer translate trigger type uninstall unlock unsubscribe update upgrade upload validate
    verify view wipe wire withdraw write
    """.split()
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def looks_like_a_tool(name: str) -> bool:
    """Whether a name begins or ends with a verb that names of tools have, in any usual spelling."""
    words = [word.lower() for word in _WORD.findall(name)]
    return bool(words) and (words[0] in _VERBS or words[-1] in _VERBS)
