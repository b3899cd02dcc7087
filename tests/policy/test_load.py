"""Policies are the same from a file, a string and a mapping."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from guardagent import Policies, load_policies
from guardagent.errors import InputError

Write = Callable[..., Path]
RULE = {"id": "a", "temporal": "G !tool:wipe"}
GOOD: dict[str, Any] = {"version": 1, "policies": [RULE]}
TEXT = "version: 1\npolicies:\n  - {id: a, temporal: G !tool:wipe}\n"
TOOLS = ("pay", "wipe", "mail")

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip)
rules = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "2024-01-01", "true", "né"]),
        "temporal": st.sampled_from(
            ["G !tool:wipe", ["G(tool:pay -> O tool:mail)", "F tool:mail"], "forall(pay(amount=a), a <= 5)"]
        ),
    },
    optional={"message": words, "remedy": words, "on_violation": st.sampled_from(["warn", "block", "halt"])},
)
documents = st.fixed_dictionaries(
    {"version": st.just(1), "policies": st.lists(rules, min_size=1, max_size=3, unique_by=lambda rule: rule["id"])},
    optional={
        "tags": st.just({"writes": ["pay", "wipe"]}),
        "tools": st.sampled_from([list(TOOLS), {"pay": ["amount"], "wipe": None, "mail": []}]),
        "unlisted": st.sampled_from(["allow", "deny"]),
    },
)
calls = st.lists(st.tuples(st.sampled_from([*TOOLS, "look"]), st.sampled_from([{}, {"amount": 3}, {"amount": 9}])))


def judged(policies: Policies, proposed: list[tuple[str, dict[str, int]]]) -> list[Any]:
    """Returns the results of the calls and of the end."""
    session = policies.session()
    verdicts = []
    for tool, args in proposed:
        verdict = session.check(tool, args)
        if verdict.label == 0:
            session.record("done", permit=verdict.permit)
        verdicts.append(verdict)
    return [(verdict.decision, verdict.rules, verdict.reasons) for verdict in (*verdicts, session.finish())]


@given(documents, calls)
def test_a_file_a_string_and_a_mapping_are_the_same_policies(document: dict[str, Any], proposed: list[Any]) -> None:
    """They give the same verdicts. The digest is of the bytes; for a mapping, of its JSON with sorted keys."""
    canonical = json.dumps(document, sort_keys=True)
    text = yaml.safe_dump(json.loads(canonical), allow_unicode=True)  # as YAML would write an anchor for a value shared
    with TemporaryDirectory() as folder:
        path = Path(folder, "policies.yaml")
        path.write_bytes(text.encode())
        file = load_policies(path)
    from_text, from_data = load_policies(text=text), load_policies(data=document)
    assert file.digest == from_text.digest
    assert from_data.digest == load_policies(data=json.loads(canonical)).digest
    assert judged(file, proposed) == judged(from_text, proposed) == judged(from_data, proposed)


def test_the_digest_of_a_mapping_covers_all_its_values() -> None:
    """Other rules change the digest; the order of keys does not."""
    turned = {"policies": [dict(reversed(RULE.items()))], "version": 1}
    assert load_policies(data=turned).digest == load_policies(data=GOOD).digest
    assert load_policies(data={**GOOD, "unlisted": "deny"}).digest != load_policies(data=GOOD).digest


def test_relative_paths_start_in_the_folder_option(write: Write) -> None:
    """Without the option a relative path is an error."""
    tools = write("shop.py", "def price(state):\n    'The price.'\n    return 5\n")
    for source in ({"text": TEXT + "toolbox: shop.py\n"}, {"data": {**GOOD, "toolbox": "shop.py"}}):
        assert set(load_policies(**source, folder=tools.parent).functions) == {"price"}
        with pytest.raises(InputError, match=r"toolbox|text:4.*'shop.py' is a relative path; expected an abs.* path"):
            load_policies(**source)
    assert set(load_policies(data={**GOOD, "toolbox": str(tools)}).functions) == {"price"}


@pytest.mark.parametrize(
    ("more", "rule", "problem"),
    [
        ("tags: {looks: [look]}", "G(tool:refund -> O look)", "'look' is a tool, but is used as a tag"),
        ("tools: [look, refund]", "look -> F tool:refund", "'look' is a tool, but is used as a tag"),
        ("", ["F tool:b", "G(tool:c -> O look)"], "'look' is a tool in another rule, but is used as a tag"),
    ],
)
def test_a_bare_tool_name_is_an_error(more: str, rule: Any, problem: str) -> None:
    """The name of a declared tool, of a set's member or of a partner in another rule needs its `tool:`."""
    other = {"id": "b", "temporal": "before(refund(), true, look(), true)"}
    text = f"version: 1\n{more}\npolicies:\n  - {json.dumps(other)}\n  - {json.dumps({'id': 'a', 'temporal': rule})}\n"
    with pytest.raises(InputError, match=rf"text:5: {problem}.*did you mean 'tool:look'"):
        load_policies(text=text)


def test_an_undeclared_argument_of_a_labelled_call_is_an_error() -> None:
    """Arguments read as `args(f).name` have to be declared, as those of a pattern."""
    rules = [{"id": "a", "temporal": "forall(f:pay(amount=a),\n args(f).amuont <= 5)"}]
    data = {"version": 1, "tools": {"pay": ["amount"], "wipe": None}, "policies": rules}
    with pytest.raises(InputError, match=r"unknown argument 'amuont' of 'pay'; did you mean 'amount'"):
        load_policies(data=data)
    rules[0]["temporal"] = "forall(f:wipe(), args(f).amuont <= 5)"
    assert load_policies(data=data).ids == ("a",)


class Word(str, Enum):  # noqa: UP042 - the text of a StrEnum is its value
    VERSION = "version"


OTHER_VERSION = {"data": {Word.VERSION: 2, "policies": [RULE]}}


def good(**keys: Any) -> dict[str, Any]:
    return {"data": {**GOOD, **keys}}


def nested(depth: int) -> dict[str, Any]:
    return {**GOOD, "tags": nested(depth - 1)} if depth else GOOD


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({}, "expected exactly one of a path, 'text=' and 'data='"),
        ({"text": TEXT, "data": GOOD}, "expected exactly one of"),
        ({"path": "p.yaml", "folder": "."}, "'folder=' cannot be combined with a path"),
        ({"text": b"version: 1"}, "'text=' is not a string"),
        ({"data": [RULE]}, "'data=' is not a mapping"),
        ({"data": GOOD, "locked": "guard.lock"}, "'locked=' only applies to files"),
        ({"text": TEXT.replace("wipe", "wipe ->")}, "text:3: .*expected a rule"),
        ({"text": "version: 1\n\ud800"}, "text:2: contains half of a surrogate pair"),
        ({"text": "#" * 1_000_001}, "text:1: has more than 1,000,000 bytes"),
        (good(unlistd="deny"), r"data\.unlistd: unknown key 'unlistd'.*did you mean 'unlisted'"),
        (good(policies=[RULE, RULE]), r"data\.policies\[1\]\.id: .*already used at 'data\.policies\[0\]\.id'"),
        (good(policies=[{**RULE, "id": 5}]), r"\.id: 'id' is '5', which is a number; expected a string$"),
        (good(policies=[{"id": "a", "temporal": "G a\n->"}]), r"data\.policies\[0\]\.temporal:2: "),
        (good(policies=[{"id": "a", "temporal": ["F a", "F"]}]), r"\.temporal\[1\]: unexpected end"),
        (OTHER_VERSION, r"data\.version: 'version' is '2', which is a number; expected the number 1"),
        ({"data": {5: 1}}, "data: a key has the type 'int'; expected a string"),
        ({"data": {"version": object()}}, r"data\.version: has the type 'object'; expected"),
        ({"data": {"version": float("nan")}}, r"data\.version: has the type 'float'; expected .*a finite number"),
        ({"data": {"version": 10**5000}}, r"data\.version: has the type 'int'; expected"),
        ({"data": {"version": "\ud800"}}, r"data\.version: contains half of a surrogate pair"),
        ({"data": nested(40)}, "nested deeper than 32 levels"),
        (good(tools=["a"] * 20_000), "more than 20,000 keys and values"),
    ],
)
def test_a_mistake_is_located(source: dict[str, Any], says: str) -> None:
    """A string is located by line, and a mapping by keys."""
    with pytest.raises(InputError, match=says):
        load_policies(**source)
