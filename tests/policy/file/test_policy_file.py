import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import ContentError, InputError
from guardagent.policy.file import policy_file
from guardagent.policy.file.file_keys import policy_schema
from guardagent.policy.file.policy_file import PolicyFile, read_policy_file
from guardagent.types import Decision

Write = Callable[..., Path]
SCHEMA = json.loads(Path(policy_file.__file__).with_name("policy.schema.json").read_text())
EVERYTHING = """\
    # Every key that a policy file may have.
    version: 1
    toolbox: [shop.py]
    tags: {writes: [refund, cancel]}
    tools:
      refund: [order_id, amount]
      cancel:
      ping: []
    failed_output: "^Error"
    unlisted: deny
    policies:
      - id: confirmed
        temporal: forall(@writes(), fact(user_confirmed) == true)
        message: Ask first.
        on_violation: escalate
        remedy: Ask the customer.
      - id: both
        temporal:
          - G !tool:ping
          - tool:refund -> F tool:cancel
        on_violation: warn
      - id: within_limit
        solver:
          smt: (declare-const amount Int)
          tools:
            refund:
              permit: (< amount 100)
              variables:
                amount: {sort: Int, from: args.amount, required: true}
                reason: {sort: String, enum: [late, 5, true], from: args.reason, free: any}
        on_violation: halt
      - id: from_file
        solver: {smt_file: limits.smt2, tools: {refund: {permit: (allowed), variables: {}}}}
      - id: polite
        request: The agent may not be rude.
        program: polite.py
    """


@pytest.fixture
def everything(write: Write) -> PolicyFile:
    """The file above, with the files it names beside it."""
    write("shop.py", "def price(state):\n    'The price.'\n")
    write("limits.smt2", "(declare-const allowed Bool)")
    write("polite.py", "def check(agent_input, agent_output, facts):\n    return {}\n")
    return read_policy_file(write("policies.yaml", EVERYTHING))


def test_every_key_arrives(everything: PolicyFile) -> None:
    """The policy file holds the values of all keys."""
    folder = everything.path.parent
    assert everything.toolbox == (folder / "shop.py",)
    assert everything.tags == {"writes": {"refund", "cancel"}}
    assert everything.tools == {"refund": ("order_id", "amount"), "cancel": None, "ping": ()}
    assert (everything.failed_output, everything.unlisted) == ("^Error", "deny")
    first, second, third, fourth, last = everything.rules
    assert (first.id, first.kind, first.line) == ("confirmed", "temporal", 12)
    assert (first.message, first.remedy) == ("Ask first.", "Ask the customer.")
    assert [text.text for text in second.statements] == ["G !tool:ping", "tool:refund -> F tool:cancel"]
    assert third.kind == "solver"
    assert third.solver
    amount, reason = third.solver.tools["refund"].variables.values()
    assert (amount.required, amount.free, amount.enum) == (True, False, None)
    assert (reason.required, reason.free, reason.enum) == (False, True, ("late", 5, True))
    assert fourth.solver
    assert fourth.solver.smt_file == folder / "limits.smt2"
    assert fourth.solver.tools["refund"].permit.text == "(allowed)"
    assert (last.statements[0].text, last.program) == ("The agent may not be rude.", folder / "polite.py")
    decisions = [rule.on_violation for rule in everything.rules]
    assert decisions == [Decision.ESCALATE, Decision.WARN, Decision.HALT, Decision.DENY, Decision.DENY]


def test_absent_keys_have_defaults(write: Write) -> None:
    """Any tool is allowed to exist, unlisted calls are allowed, and a violation denies."""
    path = write("p.yaml", "version: 1\npolicies: [{id: a, temporal: 'G !tool:x'}]\n")
    file = read_policy_file(str(path))
    assert (file.toolbox, dict(file.tags), file.tools, file.failed_output) == ((), {}, None, None)
    assert file.unlisted is None
    (rule,) = file.rules
    assert (rule.solver, rule.program, rule.message, rule.remedy) == (None, None, None, None)
    assert rule.on_violation is Decision.DENY


def test_tools_may_be_a_list(write: Write) -> None:
    """Their arguments are then not declared."""
    path = write("p.yaml", "version: 1\ntools: [a, b]\npolicies: [{id: a, temporal: 'G !tool:a'}]\n")
    assert read_policy_file(path).tools == {"a": None, "b": None}


def test_a_file_cannot_be_changed_once_read(everything: PolicyFile) -> None:
    """Threads share it."""
    with pytest.raises(TypeError):
        everything.tags["writes"] = frozenset()  # type: ignore[index]
    with pytest.raises(AttributeError):
        everything.rules = ()  # type: ignore[misc]


@pytest.mark.parametrize("name", ["policies.yaml", "shop.py", "polite.py", "limits.smt2"])
def test_the_digest_is_of_all_files(everything: PolicyFile, name: str) -> None:
    """A permit is void under another policy, and a changed function is a changed policy."""
    assert everything.digest == read_policy_file(everything.path).digest
    assert len(everything.digest) == len(hashlib.sha256().hexdigest())
    changed = everything.path.with_name(name)
    changed.write_text(changed.read_text() + "\n# more\n")
    assert read_policy_file(everything.path).digest != everything.digest


def test_an_absolute_path_can_lie_anywhere(write: Write) -> None:
    """Only a relative path must stay in the policy file's folder."""
    tool = write("elsewhere/shop.py", "x = 1")
    text = f"version: 1\ntoolbox: {tool}\npolicies: [{{id: a, temporal: 'G !tool:a'}}]\n"
    assert read_policy_file(write("here/p.yaml", text)).toolbox == (tool,)
    inside = text.replace(str(tool), "./../here/./shop.py")
    write("here/shop.py", "x = 1")
    with pytest.raises(ContentError, match=r"p\.yaml:2: .*is outside of the policy file's folder"):
        read_policy_file(write("here/p.yaml", inside))


@pytest.mark.parametrize("name", ["missing.yaml", "", "x\0.yaml", "x" * 5000])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    """It is an input error, not an error of the system."""
    with pytest.raises(InputError, match="expected"):
        read_policy_file(tmp_path / name)


SCALARS = [
    ("temporal: seq(aaa(), bbb(), ccc())", [0, 0, 0]),
    ("temporal: seq(aaa(),\n      bbb(),\n\n      ccc())", [0, 1, 3]),
    ("temporal: 'seq(aaa(x=''''),\n      bbb(),\n\n\n      ccc())'", [0, 1, 4]),
    (
        'temporal: "seq(aaa(x=\\"\\x41\\u00e9\\U0001F600\\t\\_\\"),\\n\n      b\\\n      bb(),\n\n      ccc())"',
        [0, 2, 4],
    ),
    ("temporal: |\n      seq(aaa(),\n\n        bbb(),\n      ccc())", [1, 3, 4]),
    ("temporal: |2-  # by the line\n        seq(aaa(),\n          bbb(),\n        ccc())\n\n", [1, 2, 3]),
    ("temporal: >\n      seq(aaa(),\n      bbb(),\n\n      ccc())", [1, 2, 4]),
    ("temporal: >+\n\n      seq(aaa(),\n          bbb(),\n      ccc())\n\n", [2, 3, 4]),
    ("temporal:\n      - 'x'\n      - seq(aaa(),\n        bbb(),\n        ccc())", [2, 3, 4]),
    ("temporal: [x, 'seq(aaa(),\n      bbb(),\n      ccc())']", [0, 1, 2]),
]


@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
@pytest.mark.parametrize(("scalar", "lines"), SCALARS)
def test_a_place_in_a_string_is_found_in_the_file(write: Write, scalar: str, lines: list[int], breaks: str) -> None:
    """However YAML quotes, folds or indents it."""
    whole = f"version: 1\npolicies:\n  - id: a\n    {scalar}\n".replace("\n", breaks)
    (rule,) = read_policy_file(write("p.yaml", whole.encode())).rules
    text = rule.statements[-1]
    places = [_place(text.text, text.text.rindex(word[1:])) for word in ("aaa", "bbb", "ccc")]
    assert [text.line_of(*place) - 4 for place in places] == lines
    assert text.line_of(1, 1) == text.line_of(1, 0)
    assert text.line_of(10_000, 10_000) == 4 + lines[-1]


def _place(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1."""
    return text[:at].count("\n") + 1, at - text.rfind("\n", 0, at)


def test_an_error_in_a_string_has_its_line_and_shows_it(everything: PolicyFile) -> None:
    """The first line of the message has the location; the next lines show the place."""
    error = everything.rules[1].statements[1].error("unexpected 'F'; expected b\n  tool:a -> F\n            ^", 1, 16)
    assert str(error).startswith(f"{everything.path}:20: unexpected 'F'; expected b\n  tool:a")


@pytest.mark.parametrize(
    ("temporal", "hint"),
    [
        ('forall(say(text="a #1"), true)', "text after ' #' is a YAML comment"),
        ("[forall(a(), true)]", "a comma ends an unquoted string"),
        ("'forall(a(x=1, true)'  # as agreed", ""),
    ],
)
def test_a_likely_misreading_by_yaml_is_shown_with_the_error(write: Write, temporal: str, hint: str) -> None:
    """The author sees the rest of the formula in the file, but YAML has cut it off."""
    path = write("p.yaml", f"version: 1\npolicies:\n  - id: a\n    temporal: {temporal}\n")
    text = read_policy_file(path).rules[0].statements[0]
    assert bool(text.hint) == bool(hint)
    assert hint in str(text.error("unexpected end"))


def test_the_schema_for_editors_is_generated() -> None:
    """From the keys that the reader knows: the schema file equals the schema that `policy_schema` generates."""
    assert policy_schema() == SCHEMA, "run: python -m guardagent.policy.file.file_keys > .../policy.schema.json"


def test_the_schema_accepts_good_files_and_refuses_bad_ones(write: Write) -> None:
    """Editors validate files by it."""
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    yaml = pytest.importorskip("yaml")
    validator.check_schema(SCHEMA)
    good = yaml.safe_load(EVERYTHING)
    assert list(validator(SCHEMA).iter_errors(good)) == []
    policy = good["policies"][0]
    wholes: list[dict[str, Any]] = [{"unlisted": "no"}, {"polices": []}, {"policies": []}, {"version": "1"}]
    wholes += [{"tags": {"w": []}}, {"tools": {"a": 5}}, {"tools": ["@a"]}, {"tools": {}}, {"toolbox": "shop.txt"}]
    parts: list[dict[str, Any]] = [{"program": "x.py"}, {"solver": {}}, {"id": 5}, {"on_violation": "blok"}, {"x": 1}]
    parts += [
        {"temporal": None, "solver": {"smt": "x", "tools": {"a": tool}}} for tool in ({}, {"permit": "p", "x": 1})
    ]
    for bad in wholes + [{"policies": [policy | part]} for part in parts]:
        assert list(validator(SCHEMA).iter_errors(good | bad)), bad
