"""The language page for a model: the policy file, the language and what decides in doubt, on a few thousand characters.

It is generated from the keys of the file, the functions and its examples, so it is never out of date. The tests have a
conversation that each example allows and one that it denies.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping

from guardagent.policy.file.file_keys import POLICY_FILE
from guardagent.policy.file.policy_keys import Key
from guardagent.policy.functions import RuleFunction, rule_functions

# --- examples


FILE = """\
version: 1
tags: {writes: [pay, refund]}
failed_output: ^Error
labels: {untrusted: [read_mail], user: request}
counters: {payouts: {on: "payout(to=t, amount=a)", key: t, sum: a}}
constants: {limit: 500}
define: {small(amount): amount <= limit, night: hour(now) < 6}
policies:
  - id: refund_limit
    temporal: forall(refund(amount=a), small(a))
    message: A refund is at most 500.
    remedy: Ask a manager.
    on_violation: escalate
"""
"""The sample policy file of the page. The rules of the examples use its names."""

_OVER = (
    '{"id": "over it", "history": [{"tool": "login", "output": "ok", "failed": false, "time": "2026-01-31T09:30:00Z"}'
    '], "facts": {"user": "ann"}, "now": "2026-01-31T10:00:00Z", "proposed": {"tool": "refund", "args": {"amount": '
    '501}}, "label": 1, "rules": ["refund_limit"]}'
)
CASES = ('{"id": "at the limit", "proposed": {"tool": "refund", "args": {"amount": 500}}, "label": 0}', _OVER)
"""The sample cases of the page, for the sample policy file."""

STEPS = {
    "G(tool:refund -> O tool:login)": "refund only after a login",
    'G(tool:wipe -> O login(role="admin"))': "with constants",
    "G !tool:export": "never",
    "tool:open -> F tool:close": "after p comes q, before the next p and the end",
    "tool:draft -> F[<=2] tool:send": "within 2 steps",
    "tool:draft -> F tool:review -> F tool:send": "in this order",
    "!tool:pay U tool:consent": "pay only after consent, which must come (W: may)",
    "!tool:pay W tool:consent": "",
    "tool:start R !tool:pay": "no pay up to and including the first start",
    "G(tool:send -> (!tool:edit S tool:review))": "no edit since the review",
    "G(tool:send -> H !tool:export)": "no export so far",
    "G(tool:undo -> Y @writes)": "the step before",
    "G(tool:pay -> !X (tool:pay || false)) && (true -> !(F (action:drop && decision:no)))": "X: the next step",
}
"""Rules about the order of steps, with their meanings, which may be plain."""

DATA = {
    "forall(refund(amount=a), a <= 500)": "every such call must satisfy it",
    "forall(export(), false)": "never",
    'before(refund(order_id=o), true, f:get_order(order_id=o), output(f).status == "paid")': (
        "needs an earlier success; `true`: no condition"
    ),
    "after(f:open(), true, close(handle=h), h == output(f).handle)": "needs a later call by the end",
    "exists(write_summary())": "a success by the end",
    "seq(draft(doc=d), review(doc=d), send(doc=d))": "each only after the one before it",
    "NOT exists(export()) AND (forall(pay(), fact(ok)) OR G !tool:drop)": "",
    'forall(pay|refund(to=t, fast=true), t in ["ann", "bo"] || "admin" in principal.roles)': "",
    'forall(deploy(env=/prod-\\d+/, tag=.*, n=-1), fact("context.ok") == true)': (
        "matches this regex, any value, this value"
    ),
    'forall("send mail"("reply to"=r), r != \'x\' && r matches /.+@shop\\.com/)': "quoted names; whole match",
    "forall(cancel(id=o), state(owner(o)) == fact(user) && known(state.open))": (
        "owner(state, id) is in the toolbox; the host gives facts"
    ),
    "forall(pay(to=t, amount=a), sum(f:pay(to=t), !failed(f), args(f).amount, within 24h) + a <= 1000)": "",
    "forall(@writes(), count(f:@writes(), !failed(f)) < 2)": "so far; a call in flight may count",
    "forall(pay(id=i), !pending(f:pay(id=i)))": "none in flight",
    "forall(pay(user=u), since(login(user=u), !logout(user=u)))": "a login, and no logout after it",
    "forall(send(), previous(review()) && distinct(f:send(), args(f).to, within 1d) < 9 && elapsed < 9)": "",
    "forall(refund(id=o), some(f:get_order(id=o), output(f).paid == true, within 1h))": "",
    "forall(cancel(id=o), now - time(last(f:book(id=o), !failed(f))) <= 24h)": "",
    "forall(cancel(id=o), state.open[o] == true)": "a missing key is unknown",
    "forall(book(legs=xs), xs[0].from == xs[len(xs) - 1].to)": "first, last item; a string has characters",
    'forall(cancel(id=o), time(state.start[o] + "-05:00") - now >= 24h)': "",
    'forall(pay(), weekday(now) <= 5 && hour(now, "Europe/Berlin") >= 9)': "",
    "forall(book(items=xs), len(xs) <= 5 && all(x in xs, x.price > 0) && "
    "any(x in xs, x.paid == true) && count(x in xs, x.gift == true) <= 1)": "",
    "forall(pay(amount=a, fee=b), -a < 0 && (a + b) * 2 - 1 <= 99 / 1 && a % 5 == 0)": "exact numbers",
    'forall(f:pay(), small(args(f).amount) -> args(f)["to"] == output(first(get_payee())).name)': "",
    'forall(bash(command=c), all(x in commands(c), x.argv[0:2] in [["git", "log"], ["npm", "test"]]))': (
        "the parsed commands, with their first two words"
    ),
    "forall(f:pay(to=fact(user)), let o = args(f).order in o.lines[id = o.id].n <= 5)": (
        "terms in patterns, rows by key"
    ),
    'forall(f:*(), tool(f) != "sudo" && !mentions(args(f), "W0"))': "* is any tool",
    'forall(answer(text=t), !mentions(t, "secret"))': "the final answer is a call of `answer`",
    "forall(send(to=t), mentions(text(user), t))": "the user's messages name it",
    "forall(payout(to=t, amount=a), counter(payouts, t) + a <= limit)": "over all conversations",
    "forall(pay(amount=a), shop.small(a))": "a definition of an included file",
    'flow(untrusted -> send(to=t), t == "ann@example.com")': "no argument comes from there, unless …",
    'forall(send(to=t), "user" in sources(t) || sources(t) & {"untrusted"} | {"user"} == {"user"} '
    "|| !seen(untrusted))": "",
}
"""Rules over data, in the same form."""

# --- the page

_RULES = """\
A policy file is YAML. A rule judges the next tool call by the conversation so far, or the end of it.
- `on_violation`: `block` (default) denies. `escalate` denies until a person approves. \
`warn` lets it pass, `halt` also ends the conversation.
- Unknown denies, even with `warn`, and `rules` does not name the rule. A field, fact or state that is missing or \
null, and a comparison of different kinds ("3" is not 3), is unknown, and so is its negation. Only `known(x)` tests it.
- An absent or null argument of the proposed call is unknown: if it may be left out, write `!known(x) || x <= 5`; for \
a field of it `!has(x, "n") || x.n <= 5`. An earlier call without an argument of its pattern does not match.
- A call is successful with `failed: false`, or an output without a match of `failed_output:`. With neither, its \
outcome is unknown and satisfies no `before`, `some`, `seq`, `O`, `F`. What is forbidden, or obliges, counts from the \
start, also if it fails. `count`, `sum`, `first`, `last` see failed calls too: write `!failed(f)`.
- A pattern's `x=v` names the argument, and every later `v` must be equal. Ids are strings and compare exactly: "W1" \
is not "w1".
- `counter(NAME, KEY)` is over the calls of all conversations that did not fail, also those of a case's `history`: in \
its `window: 24h`, which includes exactly 24 hours, or ever. With `key: [t, 'date(now, "Europe/Rome")']`, a calendar \
day, it is `counter(NAME, t, date(now, "Europe/Rome"))`. A call without its key or its amount is denied.
- Durations: 500ms, 90s, 5m, 24h, 7d, 2w, in seconds. Instants: `now`, `time(f)` of an earlier call, \
`time("2026-01-31T12:00:00Z")`. `within 24h` includes exactly 24 hours. Dates and hours without a zone \
are in the host's.
"""
_OPERATORS = """\
Steps are `tool:NAME`, `@SET`, `action:NAME`, `decision:NAME` or a bare tag. The rule is about the first step, so \
begin with G. Future: G always, F once, X next, U W R. Past: O once, H always, Y before, S since. Rules over data \
stand at the top or under AND, OR, NOT, ->, never inside of G or F."""


def language_reference() -> str:
    """The page in Markdown: at most 10,300 characters."""
    sections = [
        f"# GuardAgent policies\n\n{_RULES}",
        f"```yaml\n{FILE}```\n\nCases, one per line:\n\n```json\n{chr(10).join(CASES)}\n```\n",
        f"## Keys\n\n{_keys()}",
        f"## Steps\n\n{_OPERATORS}\n\n{_examples(STEPS)}",
        f"## Calls and their data\n\n{_examples(DATA)}",
        f"## Functions\n\n{'; '.join(map(_function, rule_functions().values()))}\n",
    ]
    return "\n".join(sections)


def _examples(meanings: Mapping[str, str]) -> str:
    return "".join(f"- `{rule}`{f' {meaning}' if meaning else ''}\n" for rule, meaning in meanings.items())


def _function(function: RuleFunction) -> str:
    """A call of a function from its docstring, and the first clause about it."""
    text = " ".join((inspect.getdoc(function.evaluate) or "").split())
    calls, _, about = text.partition("`: ")
    return f"{calls}` {re.split(r'[.,:] |[.]$', about)[0]}"


def _keys() -> str:
    """The keys of a policy file that the sample does not show, and the names of all keys inside of others."""
    return "".join(f"- {_key(key)}\n" for key in POLICY_FILE.keys.values() if not _is_shown(key)) + _policy_keys()


def _is_shown(key: Key) -> bool:
    """Whether the sample file shows a key, with what is inside of it."""
    return all(re.search(rf"\b{name}:", FILE) for name in (key.name, *_inside(key))) or key.name == "policies"


def _key(key: Key) -> str:
    inside = ", ".join(f"`{name}`" for name in _inside(key))
    about = key.description.partition(". ")[0].removesuffix(".")
    return f"`{key.name}` {about}{f' ({inside})' if inside else ''}"


def _policy_keys() -> str:
    item = POLICY_FILE.keys["policies"].item
    assert item is not None, "it is a list"
    more = [_key(key) for key in item.keys.values() if not _is_shown(key)]
    return f"- In a policy: {'; '.join(more)}\n"


def _inside(key: Key) -> Iterator[str]:
    """The names of the keys inside of a key."""
    names: dict[str, None] = {}
    for inner_key in key.keys.values():
        names |= {inner_key.name: None, **dict.fromkeys(_inside(inner_key))}
    if key.item is not None:
        names |= dict.fromkeys(_inside(key.item))
    yield from names
