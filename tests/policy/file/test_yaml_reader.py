"""Invalid policy files: each is refused as a whole, with the line, the problem and the expected content."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from guardagent import load_policies
from guardagent.errors import ContentError, InputError
from guardagent.policy.file.yaml_reader import _READ_DIFFERENTLY, _fast_parser, _TreeReader

Write = Callable[..., Path]
Case = tuple[str | bytes, int, str]

GOOD = "policies: [{id: a, temporal: 'G !tool:x'}]\n"
QUOTE = "quote the whole string"
NUMBER, BOOLEAN = (f"which YAML reads as a {kind}; expected" for kind in ("number", "boolean"))
MAPPING = "expected a mapping with"
TAG = "is a YAML tag, since it begins with '!'; tags are not allowed"
USED = "policy id 'a' is already used in line 3; expected a unique id"
OUTSIDE = "is outside of the policy file's folder"


def file(head: str) -> str:
    """A file that is valid except for its second line and the lines after it."""
    return f"version: 1\n{head}\n{GOOD}"


def policy(body: str, head: str = "") -> str:
    """A file that is valid except for its fourth line and the lines after it."""
    return f"version: 1{head}\npolicies:\n  - id: a\n    {body}\n"


def solver(tools: str, head: str = "") -> str:
    """A file with a solver rule for tools, which begin in its sixth line."""
    return policy(f"solver:\n      smt: x\n      tools: {tools}", head)


def variable(keys: str) -> str:
    """A file with a solver rule of one tool and one variable, in its seventh line."""
    return solver(f"\n        a: {{permit: p, variables: {{v: {keys}}}}}")


YAML: list[Case] = [
    (policy("temporal: @writes -> F tool:b"), 4, f"an unquoted string cannot begin with '@'; {QUOTE}"),
    (policy("temporal: !tool:x"), 4, f"'!tool:x' {TAG}: {QUOTE}"),
    (policy("temporal: !p && !q"), 4, f"cannot begin with '&', '*' or '!'; {QUOTE}"),
    (policy("temporal: ! tool:x"), 4, "is a YAML tag"),
    (policy("temporal: [tool:a] -> F tool:b"), 4, QUOTE),
    (policy("temporal: [G !tool:x"), 4, "an unquoted '[' or '{' begins a list or a mapping; close it"),
    (policy("temporal: {tool:a} -> F tool:b"), 4, QUOTE),
    (policy('temporal: "two words" -> F tool:b'), 4, f"indent it further, or {QUOTE}"),
    (policy("temporal: 'G !tool:x"), 4, "the quote that opens here is not closed"),
    (policy('temporal: "G !tool:x'), 4, "the quote that opens here is not closed"),
    (policy("temporal: || tool:b"), 4, "text follows '|' or '>'"),
    (policy("temporal: | G !tool:x"), 4, "text follows '|' or '>'"),
    (policy("temporal: `G !tool:x`"), 4, "an unquoted string cannot begin with '`'"),
    (policy("temporal: % x"), 4, "an unquoted string cannot begin with '%'"),
    (policy("temporal: - G !tool:x"), 4, "an unquoted string cannot begin with '- '"),
    (file("tags: {a: ["), 2, "an unquoted '[' or '{' begins a list or a mapping; close it"),
    (policy("temporal: ] -> x"), 4, "an unquoted string cannot begin with ']'"),
    (policy('temporal: forall(a(x="k: v"), true)'), 4, f"the part before ': ' is a key, .* or {QUOTE}"),
    (policy("temporal: G(tool: a)"), 4, QUOTE),
    (policy('temporal:\n      - forall(a(x="k: v"), true)'), 5, f"'temporal' is a mapping; .* contain ': ', {QUOTE}"),
    (policy("temporal:\n      tool:a ->\n      # and then\n      F tool:b"), 7, "text follows a quote or a comment"),
    (policy("temporal: tool:a ->\n    F tool:b"), 5, "expected 'key: value'"),
    (policy('request: "\\d+ is not a valid number"'), 4, "'\\d' is not an escape in double quotes"),
    (policy('request: "\\xZZ"'), 4, "need 2, 4 and 8 digits"),
    (policy('request: "\\UFFFFFFFF"'), 4, "is not a character"),
    (policy('request: "\\ud800"'), 4, "half of a surrogate pair"),
    (policy("request: x\n     message: y"), 5, "correct the indentation"),
    (policy("request: x\n   message: y"), 5, "not aligned with the lines above"),
    (policy("request: x\n  message: y"), 5, "not aligned with the lines above"),
    (policy("\trequest: x"), 4, "a tab at the start of a line or value; expected spaces"),
    (policy("request:\tx"), 4, "a tab"),
    (policy("request: &rude x"), 4, "'&rude' is a YAML anchor; anchors are not allowed"),
    (policy("request: *rude"), 4, "'*rude' is a YAML alias; aliases are not allowed"),
    (policy("<<: {request: x}"), 4, "'<<' is a YAML merge key; write the keys themselves"),
    (policy("request: !!python/object/apply:os.system [ls]"), 4, "'!!python/object/apply:os.system' is a YAML tag"),
    (policy("request: !!str 5"), 4, "'!!str' is a YAML tag"),
    (policy("request: !<tag:yaml.org,2002:str> 5"), 4, "'!!str' is a YAML tag"),
    (policy("request: !u!x y"), 4, "cannot begin with '&', '*' or '!'"),
    (policy("request: x\n    request: y"), 5, "key 'request' appears twice, first in line 4; remove one"),
    ("version: 1\nversion: 1\n" + GOOD, 2, "key 'version' appears twice"),
    ("'version': 1\nversion: 1\n" + GOOD, 2, "key 'version' appears twice"),
    (file("tags: {a: [b], a: [c]}"), 2, "key 'a' appears twice"),
    (file("tools:\n  a:\n  a: [b]"), 4, "key 'a' appears twice"),
    (file("tags: {[a]: [b]}"), 2, "a key is a list; expected a string"),
    (file("tags: {5: [b]}"), 2, f"a key is '5', {NUMBER} a string; if it is one, quote it"),
    (file("tags: {on: [b]}"), 2, "a key is 'on', which YAML reads as a boolean"),
    (file("null: 5"), 2, "a key is 'null', which YAML reads as null"),
    (file("---"), 2, "a second document begins here; expected one"),
    (file("..."), 3, "text follows the end of the value"),
    ("%YAML 2.0\n---\nversion: 1\n" + GOOD, 1, "a line that begins with '%' is a directive"),
    (b"\xef\xbb\xbfversion: 1\n" + GOOD.encode(), 1, "begins with a byte order mark; expected UTF-8 without one"),
    (b"version: 1\n# caf\xe9\n" + GOOD.encode(), 2, "byte 16 is not UTF-8; expected UTF-8 text"),
    (file("").encode("utf-16"), 1, "is not UTF-8"),
    (file("%FOO bar"), 3, "text follows the end of the value; remove it"),
    ("%: x\n" + file(""), 1, "a line that begins with '%' is a directive; remove it"),
    (file("# \0"), 2, "the character U+0000 is not allowed in YAML"),
    (file("# \x1b[31m"), 2, "the character U+001B is not allowed in YAML"),
    ('{"version": 1, "policies": [}', 1, "invalid YAML"),
]
STRUCTURE: list[Case] = [
    ("", 1, "contains no policies; expected 'version: 1' and 'policies:'"),
    ("# nothing yet\n", 1, "contains no policies"),
    ("---\n", 1, "contains no policies"),
    ("- version: 1\n", 1, "is a list; expected a mapping with 'version: 1' and 'policies:'"),
    ("G !tool:x\n", 1, "is the string 'G !tool:x'; expected a mapping"),
    (GOOD, 1, "key 'version' is missing in the file; expected the number 1"),
    ("version: 1\n", 1, "key 'policies' is missing in the file; expected a list of policies"),
    ("version: 1\npolicies:\n", 2, "'policies' is empty; expected a list of policies"),
    ("version: 1\npolicies: []\n", 2, "'policies' is an empty list; expected a list of policies"),
    ("version: 1\npolicies: {a: {temporal: x}}\n", 2, "'policies' is a mapping; expected a list of policies"),
    ("version: 1\npolicies: [G !tool:x]\n", 2, f"'policy' is the string 'G !tool:x'; {MAPPING} 'id' and one of"),
    ("version: 1\npolicies:\n  -\n", 3, "'policy' is empty"),
    ("version: 1\npolicies:\n  - temporal: x\n", 3, "key 'id' is missing in policy; expected a string"),
    (policy("message: x"), 3, "the policy has no rule; expected one of 'temporal', 'solver', 'request' and 'cedar'"),
    (policy("temporal: x\n    request: y"), 5, "'request' next to 'temporal'; expected one rule in each"),
    (policy("request: y\n    solver: {smt: x, tools: {a: {permit: p}}}"), 5, "'solver' next to 'request'"),
    (policy("temporal: x\n    program: p.py"), 5, "'program' next to 'temporal'; expected it only next to 'request'"),
    (policy("request: x\n  - id: a\n    request: y"), 5, USED),
    (policy("request: x\n  - id: b\n    request: y\n  - id: 'a'\n    request: z"), 7, "already used in line 3"),
    (file("tags: {w: []}"), 2, "'tag' is an empty list; expected a list of tools"),
    (file("tags:\n  w:"), 3, "'tag' is empty; expected a list of tools"),
    (file("tags: {w: [x, x]}"), 2, "'tag' contains 'x' twice"),
    (file("tools: [x, y, x]"), 2, "'tools' contains 'x' twice"),
    (file("tools: []"), 2, "'tools' is an empty list"),
    (file("tools: {}"), 2, "'tools' is empty"),
    (file("tools:\n  x: [amount, amount]"), 3, "contains 'amount' twice"),
    (file("toolbox: []"), 2, "'toolbox' is an empty list"),
    (policy("temporal: []"), 4, "'temporal' is an empty list; expected a formula, or a list of them"),
    (policy("temporal:\n      - x\n      -\n"), 6, "'temporal' is empty; expected a formula"),
    (policy("temporal: [[x]]"), 4, "'temporal' is a list; expected a formula"),
    (policy("solver: {smt: x}"), 4, "key 'tools' is missing in solver"),
    (policy("solver: {tools: {a: {permit: p}}}"), 4, "'solver' has neither of 'smt' and 'smt_file'"),
    (policy("solver: {smt: x, smt_file: y, tools: {a: {permit: p}}}"), 4, "'solver' has both"),
    (policy("solver:\n      smt: x\n      tools: {}"), 6, "'tools' is empty"),
    (policy("solver:\n      smt: x\n      tools:\n        a: {variables: {}}"), 7, "key 'permit' is missing in tool"),
]
TYPES: list[Case] = [
    ('version: "1"\n' + GOOD, 1, "'version' is the string '1'; expected the number 1; write it without quotes"),
    ("version: 1.0\n" + GOOD, 1, "'version' is '1.0', which YAML reads as a number; expected the number 1"),
    ("version: 2\n" + GOOD, 1, "'version' is '2', which YAML reads as a number; expected the number 1"),
    ("version: yes\n" + GOOD, 1, "'version' is 'yes', which YAML reads as a boolean; expected the number 1"),
    ("version:\n" + GOOD, 1, "'version' is empty; expected the number 1"),
    ("version: 0x_\n" + GOOD, 1, "'0x_' is not a valid number"),
    ("version: 1\npolicies: [{id: 1.0, request: x}]", 2, "'id' is '1.0', which YAML reads as a number; .* quote it"),
    ("version: 1\npolicies: [{id: no, request: x}]", 2, f"'id' is 'no', {BOOLEAN} a string; .* quote"),
    ("version: 1\npolicies: [{id: 2024-01-31, request: x}]", 2, "which YAML reads as a date"),
    ("version: 1\npolicies: [{id: 2024-13-45, request: x}]", 2, "which YAML reads as a date"),
    ("version: 1\npolicies: [{id: ~, request: x}]", 2, "'id' is '~', which YAML reads as null"),
    ("version: 1\npolicies: [{id: '', request: x}]", 2, "'id' is an empty string; expected a string"),
    ("version: 1\npolicies: [{id: ' a', request: x}]", 2, "expected a string: one line of at most 200 characters"),
    ('version: 1\npolicies: [{id: "a\\nb", request: x}]', 2, "expected a string: one line"),
    (policy("temporal: true"), 4, f"'temporal' is 'true', {BOOLEAN} a formula; .* quote it"),
    (policy("temporal: ''"), 4, "'temporal' is an empty string; expected a formula"),
    (policy("temporal: |\n\n"), 4, "'temporal' is an empty string"),
    (policy("temporal: {x: y}"), 4, f"'temporal' is a mapping; expected a formula; .* {QUOTE}"),
    (policy("request:"), 4, "'request' is empty; expected a string"),
    (policy("request: [x]"), 4, "'request' is a list; expected a string"),
    (policy("request: x\n    message: 5"), 5, f"'message' is '5', {NUMBER} a message for people"),
    (policy("request: x\n    remedy: {a: b}"), 5, "'remedy' is a mapping"),
    (policy("request: x\n    on_violation: no"), 5, f"'no', {BOOLEAN} warn, block, escalate, halt or halt_tool"),
    (policy("request: x\n    on_violation: [block]"), 5, "'on_violation' is a list; expected warn, block"),
    (policy("request: x\n    program: [p.py]"), 5, "'program' is a list; expected a Python file"),
    (file("unlisted: off"), 2, "'unlisted' is 'off', which YAML reads as a boolean; expected allow or deny"),
    (file("tags: [a, b]"), 2, "'tags' is a list; expected a mapping of names to lists of tools"),
    (file("tags: {w: refund}"), 2, "'tag' is the string 'refund'; expected a list of tools"),
    (file("tags: {w: [yes]}"), 2, f"'tool' is 'yes', {BOOLEAN} the name of a tool; .* quote it"),
    (file("tools: refund"), 2, "'tools' is the string 'refund'; expected a list of tools, or a mapping"),
    (file("tools:\n  refund: amount"), 3, "'arguments' is the string 'amount'; expected a list of argument names"),
    (file("tools:\n  refund: [5]"), 3, "'argument' is '5', which YAML reads as a number"),
    (file("toolbox: 5"), 2, "'toolbox' is '5', which YAML reads as a number; expected a Python file"),
    (file("failed_output: 404"), 2, f"'failed_output' is '404', {NUMBER} a regular expression; .* quote"),
    (file("failed_output: [Error]"), 2, "'failed_output' is a list"),
    (policy("solver: x"), 4, "'solver' is the string 'x'; expected a mapping with 'smt' or 'smt_file', and 'tools'"),
    (solver("[a]"), 6, "'tools' is a list; expected a mapping of the governed tools"),
    (solver("\n        a: p"), 7, f"'tool' is the string 'p'; {MAPPING} 'permit'"),
    (variable("{required: 'no'}"), 7, "'required' is the string 'no'; expected true or false"),
    (variable("{enum: [~]}"), 7, "'value' is '~', which YAML reads as null; expected a string, a number or a boolean"),
]
NAMES: list[Case] = [
    ("version: 1\npolices: []\n", 2, "unknown key 'polices' in the file; did you mean 'policies'?"),
    ("Version: 1\n" + GOOD, 1, "unknown key 'Version' in the file; did you mean 'version'?"),
    (file("tag: {w: [x]}"), 2, "unknown key 'tag' in the file; did you mean 'tags'?"),
    (
        file("zzz: 1"),
        2,
        "unknown key 'zzz' in the file; known: constants, counters, define, dispatch, effects, failed_output",
    ),
    (policy("on_violaton: block"), 4, "unknown key 'on_violaton' in policy; did you mean 'on_violation'?"),
    (policy("temporl: x"), 4, "unknown key 'temporl' in policy; did you mean 'temporal'?"),
    (policy("smt: x"), 4, "unknown key 'smt' in policy"),
    (policy("request: x\n    on_violation: blok"), 5, "'on_violation' is the string 'blok'; did you mean 'block'?"),
    (policy("request: x\n    on_violation: Block"), 5, "'on_violation' is the string 'Block'; did you mean 'block'?"),
    (
        policy("request: x\n    on_violation: deny"),
        5,
        "is the string 'deny'.* known: block, escalate, halt, halt_tool, warn",
    ),
    (file("unlisted: alow"), 2, "'unlisted' is the string 'alow'; did you mean 'allow'?"),
    (file("tools: [pay]\ntags: {w: [pey]}"), 3, "'pey': not declared in 'tools:'; did you mean 'pay'?"),
    (file("tags:\n  w:\n    - refund\n    - cancel\ntools: [refund]"), 5, "unknown tool 'cancel'"),
    (file("tags: {w: ['@v']}"), 2, "'@v' is not the name of a tool; expected a name without '@', 'tool:' and '*'"),
    (file("tags: {w: [tool:x]}"), 2, "'tool:x' is not the name of a tool"),
    (file("tools: ['get_*']"), 2, "'get_*' is not the name of a tool"),
    (file("tools: {'get_*': }"), 2, "'get_*' is not the name of a tool"),
    (file("tags: {'@w': [x]}"), 2, "'@w' is not a valid tag; expected letters, digits"),
    (file("tags: {my tag: [x]}"), 2, "'my tag' is not a valid tag"),
    (file("tags: {W: [x]}"), 2, "'W' is not a valid tag; .* operators of the language are reserved"),
    (file('tags: {"a\\nb": [x]}'), 2, "is not a valid name; expected one line"),
    (file("toolbox: shup.py"), 2, "no such file: 'shup.py'; expected a Python file; did you mean 'shop.py'?"),
    (file("toolbox:\n  - shop.py\n  - missing/shop.py"), 4, "no such file: 'missing/shop.py'"),
    (file("toolbox: notes.txt"), 2, "no such file: 'notes.txt'; expected a Python file"),
    (file("toolbox: folder.py"), 2, "no such file: 'folder.py'"),
    (file("toolbox: ../shop.py"), 2, f"{OUTSIDE}; expected a file inside, or an absolute path"),
    (file("toolbox: x/../../shop.py"), 2, OUTSIDE),
    (file("toolbox: /nowhere/shop.py"), 2, "no such file: '/nowhere/shop.py'"),
    (file('toolbox: "a\\0.py"'), 2, "no such file"),
    (policy("request: x\n    program: shoop.py"), 5, "no such file: 'shoop.py'; .* did you mean 'shop.py'?"),
    (policy("request: x\n    program: ../shop.py"), 5, OUTSIDE),
    (policy("solver: {smt_file: limits.smt2, tools: {a: {permit: p}}}"), 4, "no such file: 'limits.smt2'"),
    (policy("solver: {smt: x, tool: {}}"), 4, "unknown key 'tool' in solver; did you mean 'tools'?"),
    (policy("solver:\n      smt: x\n      tools: {a: {permits: p}}"), 6, "unknown key 'permits' in tool; did you mean"),
    (variable("{form: x}"), 7, "unknown key 'form' in variable; did you mean 'from'?"),
    (variable("{free: all}"), 7, "'free' is the string 'all'"),
    (solver("{b: {permit: p, variables: {}}}", "\ntools: [a]"), 7, "unknown tool 'b': not declared in 'tools:'"),
    (file("failed_output: '(Error'"), 2, "'failed_output' is not a valid regular expression: missing ): (Error"),
    (file("failed_output: '(?=Error)'"), 2, "expression: invalid perl operator: (?=; expected RE2 syntax"),
    (file("failed_output: '*'"), 2, "not a valid regular expression"),
    (file(r"failed_output: '(a)\1'"), 2, "invalid escape sequence"),
]
LIMITS: list[Case] = [
    (b"#" * 10_000_000, 1, "more than 1,000,000 bytes; expected a policy"),
    (file(f"# {'x' * 1_000_000}"), 1, "more than 1,000,000 bytes"),
    (file(f"tags: {'[' * 10_000}"), 2, "nested deeper than 32 levels"),
    (file(f"tags: {'{a: ' * 10_000}"), 2, "nested deeper than 32 levels"),
    (file("tags:\n" + "".join(f"{' ' * (level + 1)}a:\n" for level in range(1000))), 33, "nested deeper than 32"),
    (file(f"tags:\n  {'- ' * 10_000}"), 3, "nested deeper than 32 levels"),
    (file(f"tags: {'? ' * 10_000}"), 2, "an unquoted string cannot begin with '- ' or '? '"),
    (file("".join(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]\n" for n in range(99))), 2, "anchors are not allowed"),
    (file("l0: &l0 [*l0]"), 2, "anchors are not allowed"),
    (file(f"tags: {{w: [{'x, ' * 100_000}]}}"), 2, "more than 20,000 keys and values; split the file"),
    (file("".join(f"k{n}:\n" for n in range(100_000))), 10_000, "more than 20,000 keys and values"),
    (file(f"failed_output: '{'(a{1000}){1000}' * 1000}'"), 2, "not a valid regular expression"),
    (file(f"failed_output: '{'(' * 900_000}'"), 2, "not a valid regular expression"),
    (file(f"{'k' * 900_000}: 1"), 2, "expected 'key: value'"),
    (file(f"? {'k' * 900_000}\n: 1"), 2, "unknown key"),
    (file(f"tools: [{'x' * 900_000}]"), 2, "expected the name of a tool: one line of at most 200 characters"),
    (policy(f"request: x\n    on_violation: {'block' * 150_000}"), 5, "'on_violation' is the string 'blockblock"),
    (f"version: {'1' * 100_000}\n" + GOOD, 1, "is not a valid number"),
    (file(f"toolbox: {'x' * 10_000}.py"), 2, "no such file"),
    (file(f"tools: {[f't{n}' for n in range(9_000)]}\ntags: {{w: [t9000]}}"), 3, "unknown tool 't9000'"),
]
SHOP = """\
def owns(state, order_id):
    "Who owns an order."


def clock():
    "Looks at no state."
"""
# Each rule is in the eighth line.
FORMULAS: list[tuple[str, str]] = [
    ("((tool:refund) AND (tool:cancel)", "unexpected end; expected ')'"),
    ("(tool:refund", "unexpected end; expected"),
    ("()", "unexpected ')'; expected a rule"),
    ("tool:", "unexpected end; expected a name"),
    ("G !action:", "unexpected end; expected a name"),
    ("@", "unexpected end; expected a name"),
    ("-> F tool:refund", "unexpected '-> F tool:refund'; expected a rule"),
    ("tool:refund AND", "unexpected end; expected a rule"),
    ("AND tool:refund", "unexpected 'AND tool:refund'; expected a rule"),
    ("NOT", "unexpected end; expected a rule"),
    ("tool:refund until tool:cancel", "did you mean a rule such as 'tool:A U tool:B'?"),
    ("tool:refund and tool:cancel", "unexpected 'and tool:cancel'; .* did you mean 'AND'?"),
    ("G[<=3] tool:refund", "did you mean a rule such as 'tool:A -> F[<=3] tool:B'?"),
    ("tool:refund; tool:cancel", "unexpected '; tool:cancel'; expected"),
    ('G !tool:"refund', "expected a name or a string in quotes"),
    ("“G !tool:refund”", "unexpected '“G !tool:refund”'; expected a rule"),
    ("G !tool:refund …", "unexpected '…'; expected"),
    ("# tool:refund", "unexpected end; expected a rule"),
    ("befor(refund(), true, get_order(), true)", "did you mean 'before'?"),
    ("aftr(refund(), true, get_order(), true)", "did you mean 'after'?"),
    ("exist(refund())", "did you mean 'exists'?"),
    ("sequence(refund(), cancel())", "did you mean 'seq'?"),
    ("before(refund(), true, get_order())", "unexpected ')'; expected ','"),
    ("before(refund(), true, get_order(), true, true)", "unexpected ', true)'; expected ')'"),
    ("after(refund(), true)", "unexpected ')'; expected ','"),
    ("forall(refund(), true, true)", "unexpected ', true)'; expected ')'"),
    ("forall(refund, true)", "unexpected ', true)'; expected '('"),
    ("exists()", "unexpected ')'; expected '@' or a name"),
    ("seq(refund, cancel)", "unexpected ', cancel)'; expected '('"),
    ("forall(refund(amount), true)", "unexpected '), true)'; expected '='"),
    ("forall(refund(amount=), true)", "unexpected '), true)'; expected .* a value"),
    ("forall(refund(5), true)", "unexpected '5), true)'; expected ')' or a name"),
    ("forall(refund(amount=5 order_id=o), true)", "unexpected 'order_id=o), true)'; expected ')' or ','"),
    ("forall(refund(amount=5,,), true)", "unexpected ',), true)'; expected"),
    ("forall(refund(order_id=/(a)\\1/), true)", "invalid regular expression: invalid escape sequence"),
    ("forall(refund(order_id=/abc), true)", "unexpected '/abc), true)'; expected"),
    ("forall(refund(order_id=o), o matches /[/)", "invalid regular expression: missing ]"),
    ('forall(refund(order_id="x), true)', "unexpected '\"x), true)'; expected"),
    ("forall(refund(amount=a), b < 5)", "unknown variable 'b'; known: a; bind a variable in a pattern"),
    ("forall(refund(amount=a), a < )", "unexpected ')'; expected a condition or a value"),
    ("forall(refund(amount=a), (a < 5)", "unexpected end; expected ')'"),
    ("forall(refund(amount=a), a in [1, 2)", "unexpected ')'; expected ',' or ']'"),
    ("forall(f:refund(), failed(f))", "'failed(f)' of a proposed call does not exist yet; expected 'args(f)'"),
    ("NOT exists(f:refund(), failed(f))", "before the call runs; expected only 'args(f)'"),
    ("NOT exists(f:refund(), time(f) < now)", "before the call runs; expected 'now'"),
    ("forall(f:refund(), args(g).amount == 1)", "unknown call 'g'; known: f"),
    ("forall(refund(), args(f).amount == 1)", "unknown call 'f'; label a call in its pattern, such as 'f:TOOL()'"),
    ("before(refund(), output(f) == 1, f:get_order(), true)", "unknown call 'f'"),
    ("forall(f:refund(), outputs(f) == 1)", "did you mean 'output'?"),
    ("forall(refund(), facts(user_confirmed))", "did you mean 'fact'?"),
    ("forall(refund(), known())", "unexpected '))'; expected a condition or a value"),
    ("forall(refund(), len(1, 2) > 1)", "unexpected ', 2) > 1)'; expected ')'"),
    ("forall(refund(), fact() == 1)", "unexpected ') == 1)'; expected a name"),
    ("forall(refund(), count(get_order) > 1)", "unexpected ') > 1)'; expected '('"),
    ("forall(refund(), sum(f:get_order(), true) > 1)", "unexpected ') > 1)'; expected ','"),
    ("forall(refund(), all(x in [1]))", "unexpected '))'; expected ','"),
    ("forall(refund(), all(x, x > 1))", "unexpected ', x > 1))'; expected 'in'"),
    ("forall(refund(), any(x in [1], y > 1))", "unknown variable 'y'; known: x"),
    ("forall(refund(order_id=o), state(own(o)) == 1)", "unknown state function 'own'; did you mean 'owns'?"),
    ("forall(refund(order_id=o), state(owns(o, o)) == 1)", "'owns(order_id)': too many positional"),
    ("forall(refund(), state(owns()) == 1)", "'owns(order_id)': missing a required argument: 'order_id'"),
    ("forall(refund(), state(clock()) == 1)", "'clock()': too many"),
    ("forall(refund(), state(owns) == 1)", "unexpected ') == 1)'; expected '('"),
    ("forall(refnd(), true)", "unknown tool 'refnd'; did you mean 'refund'?"),
    ("before(refund(), true, get_ordr(), true)", "unknown tool 'get_ordr'; did you mean 'get_order'?"),
    ("forall(refund(), count(refnd()) == 0)", "unknown tool 'refnd'; did you mean 'refund'?"),
    ("forall(refund|cancl(), true)", "unknown tool 'cancl'; did you mean 'cancel'?"),
    ("G !tool:refnd", "unknown tool 'refnd'; did you mean 'refund'?"),
    ("G !tool:Refund", "unknown tool 'Refund'; did you mean 'refund'?"),
    ("G !@writs", "unknown tag 'writs'; did you mean 'writes'?"),
    ("forall(@writs(), true)", "unknown tag 'writs'; did you mean 'writes'?"),
    ("forall(refund(amout=5), true)", "'amout'; did you mean 'amount'?"),
    ("before(refund(), true, get_order(order=o), true)", "'order'; did you mean 'order_id'?"),
    ("forall(@writes(amount=5), true)", "'amount'"),
    ("forall(refund(), true) U tool:cancel", "is inside of a temporal operator"),
    ("forall(forall(refund(), true), true)", "unexpected '(), true), true)'; expected"),
    ("forall(refund(), G !tool:cancel)", "unexpected '!tool:cancel)'; expected"),
    # likely corrections
    ("not tool:refund", "did you mean 'NOT'?"),
    ("tol:refund", "did you mean 'tool:'?"),
    ("tool:refund(order_id=o)", "forall("),
    ("forall(refund())", "a condition"),
    ("seq(refund())", "at least two"),
    ("before(refund(), get_order())", "a condition"),
    ("forall(refund(amount==5), true)", "did you mean '='?"),
    ("forall(refund(amount=a), a <> 5)", "did you mean '!='?"),
    ("forall(refund(order_id=o), owns(o) == 1)", "state(owns("),
    ("forall(refund(), state() == 1)", "a function"),
    ("forall(refund(), first(f:get_order()) == 1)", "output(first("),
    ('forall(refund(), "x")', "a condition"),
    ("G !refund", "write tool:refund"),
    ("forall(refund(amount=a), not a == 1)", "did you mean 'NOT'?"),
    ("forall(refund(amount=a), a not in [1])", "write '!(x in [...])'"),
    ("forall(refund(amount=a), a != null)", "known("),
    ("never(tool:refund)", "'G !tool:NAME'"),
    ("g !tool:refund", "did you mean 'G'?"),
    ("G !tool:refund()", "forall("),
    ("before(tool:refund, true, get_order(), true)", "'refund(...)'"),
    ('forall(refund(amount=a), a matches "x.*")', "between slashes"),
    ('forall(refund(amount=a), a in ("x", "y"))', "["),
    ("tool:refund → F tool:get_order", "did you mean '->'?"),
    ("forall(refund(item.price=a), a == 1)", "write it in quotes"),
    ("seq(refund(), get_order(), refund())", "appears twice"),
    ("G !writes", "did you mean '@writes'?"),
    (f"forall(refund(amount={'9' * 5_000}), true)", "expected"),
    (f"forall(refund(order_id=/{'(' * 5_000}/), true)", "(..."),
]


def formula(text: str) -> str:
    """A file with a rule in its eighth line."""
    tools = "tools: {refund: [order_id, amount], cancel: [order_id], get_order: [order_id], ping: }"
    head = f"\ntoolbox: shop.py\ntags: {{writes: [refund, cancel]}}\n{tools}"
    return policy(f"temporal: |\n      {text}", head)


# However a formula is written, what is wrong in it is found in its own line.
PLACES: list[Case] = [
    (policy("temporal: tool:a\n      AND\n      tool:b tool:c"), 6, "unexpected 'tool:c'"),
    (policy("temporal: 'tool:a\n\n      tool:b'"), 6, "unexpected 'tool:b'"),
    (policy('temporal: "tool:a\\n\\\n      tool:b"'), 5, "unexpected 'tool:b'"),
    (policy("temporal: >\n      tool:a\n      tool:b"), 6, "unexpected 'tool:b'"),
    (policy("temporal: |-\n\n      tool:a\n\n      tool:b"), 8, "unexpected 'tool:b'"),
    (policy("temporal:\n      - tool:a\n      - tool:a\n        tool:b"), 7, "unexpected 'tool:b'"),
    (policy("temporal:\n      - G !tool:a\n      - G !@w"), 6, "unknown tag 'w'; none is defined"),
    (policy("temporal: |\n      G !tool:a\n      AND G !tool:b", "\ntools: [a]"), 6, "unknown tool 'b'"),
    (policy("temporal: [forall(a(), true)]"), 4, "end; .* a comma ends an unquoted string: to keep the rest"),
    (policy('temporal: forall(a(x="b #1"), true)'), 4, "; text after ' #' is a YAML comment: to keep it, quote"),
]
DEEP: list[Case] = [
    (policy(f"temporal: |\n      {'(' * 19_000}"), 5, "unexpected end; expected a rule"),
    (policy(f"temporal: |\n      {'!' * 19_000}tool:a"), 5, "nested too deeply"),
    (policy(f"temporal: |\n      {'X ' * 9_000}tool:a"), 5, "nested too deeply"),
    (policy(f"temporal: {'tool:a -> F ' * 1_500}tool:b"), 4, "nested too deeply"),
    (policy(f"temporal: |\n      forall(a(), {'!' * 9_000}true)"), 5, "nested too deeply"),
    (policy(f"temporal: forall(a(x=x), x in {'[' * 5_000}{']' * 5_000})"), 4, "nested too deeply"),
    (policy(f"temporal: forall(a(x=x), x{'.a' * 8_000} == 1)"), 4, "nested too deeply"),
    (policy(f"temporal: tool:{'a' * 30_000}"), 4, "the rule has 30,005 characters; expected at most 20,000"),
    (policy("temporal: G(a -> F[<=1000] (b && F[<=1000] c))"), 4, "more than 5,000 states; split the rule"),
    (policy(f"temporal: {' && '.join(f'(F t{n})' for n in range(20))}"), 4, "kinds of steps; expected at most"),
]
TABLE = {
    "yaml": YAML,
    "structure": STRUCTURE,
    "types": TYPES,
    "names": NAMES,
    "formulas": [(formula(text), 8, says) for text, says in FORMULAS] + PLACES,
    "limits": LIMITS + DEEP,
}
CASES = [
    pytest.param(
        *case, id=f"{category}-{number}", marks=[pytest.mark.slow] if category == "limits" and number % 4 else []
    )
    for category, cases in TABLE.items()
    for number, case in enumerate(cases)
]


def message_of(path: Path) -> str:
    """The message for an invalid file. It must come within seconds, as a ContentError."""
    before = time.process_time()
    with pytest.raises(ContentError) as error:
        load_policies(path)
    assert time.process_time() - before < 5
    return str(error.value)


def outcome(path: Path) -> str:
    try:
        load_policies(path)
    except InputError as error:
        return str(error)
    return "loaded"


@pytest.mark.parametrize(("content", "line", "says"), CASES)
def test_a_wrong_file_is_refused_with_its_line(write: Write, content: str | bytes, line: int, says: str) -> None:
    """The message has the place, and its first line what helps the author: the expected content or a correction."""
    write("shop.py", SHOP)
    write("notes.txt", "x")
    write("folder.py/x", "x")
    path = write("p.yaml", content if isinstance(content, bytes) else content.encode())
    message = message_of(path)
    first = message.split("\n")[0]
    assert first.startswith(f"{path}:{line}: ")
    assert re.search(".*".join(map(re.escape, says.split(".*"))), first), message
    assert len(first) < 500 + len(os.fspath(path))
    assert len(message) < 1_000 + len(os.fspath(path))


@pytest.mark.parametrize("place", range(0, len(file("tags: {w: [x]}")), 3))
@pytest.mark.parametrize("character", ["\0", "\t", "&", "*", "!", "{", "]", '"', ":", "\x85", "\ud7ff"])
def test_a_stray_character_never_crashes_the_reader(write: Write, place: int, character: str) -> None:
    """A file with a stray character loads or gives a located error."""
    text = file("tags: {w: [x]}")
    path = write("p.yaml", (text[:place] + character + text[place:]).encode())
    assert re.match(rf"{re.escape(str(path))}:|loaded", outcome(path))


def reading(text: str, *, libyaml: bool) -> str:
    """The tree of a text, or the problem."""
    parser = _fast_parser() if libyaml else yaml.SafeLoader
    try:
        return repr(_TreeReader(parser(text), text, Path("p.yaml"), None, fast=libyaml).document())
    except (yaml.YAMLError, ContentError, ValueError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"


WORDS = [
    "a: ",
    "- ",
    "true",
    "{a: b",
    "[a, b]\n",
    "http://a",
    "b?",
    "<<: ",
    "on: ",
    '"a\\',
    "\\u00e9",
    "|\n",
    ">-\n",
    "|2\n",
]
MARKS = [*"ab:,-?!&*#%|>'\"[]{}=~1\\\n\r\t\x85\u2028\ufeffé ", "\n  ", "\n- ", " #", "? ", "---\n", "...\n"]
PIECES = st.sampled_from([*WORDS, *MARKS])


@given(st.lists(PIECES, max_size=20).map("".join))
@example("{a: \n, b: c}")  # the place of an empty value
@example("{a?b: c}")
@example("a: |#\n  b")
@example("a: [b,\tc]")
@example('é: "\\u00e9 😀"\nr: a, b # c\n')
@example("on: pay\nlong: >\n  two\n  lines\nblock: |\n  as\n  is\n")
@pytest.mark.skipif(_fast_parser() is None, reason="PyYAML is built without libyaml")
def test_libyaml_reads_what_it_may_read_as_pyyaml_does(text: str) -> None:
    """A tree of libyaml is that of PyYAML, with its places and hints."""
    if not _READ_DIFFERENTLY.search(text):
        read = reading(text, libyaml=True)
        assert read == reading(text, libyaml=False) or not read.startswith("SourceNode")


HEAD_OF = "version: 1\nconstants: {{c: {}}}\npolicies: [{{id: a, temporal: 'forall(t(x=x), x == c)'}}]"
LISTED = "version: 1\nconstants:\n  c:\n    - DE\n    - {}\npolicies: [{{id: a, temporal: G !tool:t}}]"


@pytest.mark.parametrize(
    ("written", "right"),
    [
        *(("0100", "64"), ("1:30", "90"), ("1e3", "1000"), ("NO", "false"), ("yes", "true"), ("On", "true")),
        *(("1_000", "1000"), ("0x1F", "31"), ("0b101", "5"), ("1:30:00", "5400"), ("-010", "-8"), ("1.5e3", "1500")),
        *(("1E-3", "0.001"), ("1:30.5", "90.5"), ("0o17", "plain digits"), ("off", "false"), ("+1e+3", "1000")),
        *(("17:30", "1050"), ("010", "8"), ("08", "8"), ("-0189", "-189")),
    ],
)
@pytest.mark.parametrize(
    "text", [HEAD_OF, LISTED, HEAD_OF.replace("{}", "{{value: {}}}")], ids=["alone", "listed", "full"]
)
def test_a_value_that_readers_of_yaml_take_differently_is_refused(text: str, written: str, right: str) -> None:
    """The error has the line, the right spelling, and the string."""
    with pytest.raises(InputError) as caught:
        load_policies(text=text.format(written))
    assert str(caught.value).startswith(f"text:{5 if text is LISTED else 2}: {written!r} is ")
    assert f'write {right}, or the string in quotes: "{written}"' in str(caught.value)


@pytest.mark.parametrize(
    "written",
    [
        "100",
        "-5",
        "0",
        "2.50",
        "0.1",
        "1.5e+3",
        ".5",
        "true",
        "False",
        '"0100"',
        "'NO'",
        "Norway",
        "09:30",
        "v1e3",
        "1e",
        "e3",
    ],
)
@pytest.mark.parametrize("text", [HEAD_OF, LISTED], ids=["alone", "listed"])
def test_other_values_are_read(text: str, written: str) -> None:
    load_policies(text=text.format(written))


@pytest.mark.parametrize("written", ["NO", "1e3", "0100", "1:30"])
def test_the_values_of_an_enumeration_are_as_clear(written: str) -> None:
    solver = {
        "smt": "(declare-const c String)",
        "tools": "{t: {permit: 'true', variables: {c: {from: args.c, enum: [SE, %s]}}}}",
    }
    text = (
        f"version: 1\npolicies:\n- id: a\n  solver:\n    smt: {solver['smt']}\n    tools: {solver['tools'] % written}\n"
    )
    with pytest.raises(InputError, match=f"text:6: '{written}' is .*in quotes"):
        load_policies(text=text)
