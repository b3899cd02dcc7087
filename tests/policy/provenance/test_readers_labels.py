"""Labels in a policy file: each source is read, and each mistake is an error."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent import InputError, load_policies
from guardagent.policy.provenance.readers import ALL_ITEMS, LabelSource
from tests.policy.provenance.sessions import recorded, session_of, sources

RULE = {"id": "a", "temporal": 'forall(pay(x=x), "red" in sources(x))'}


@pytest.mark.parametrize(
    ("text", "tool", "path"),
    [
        ("get", "get", ()),
        ("get.body", "get", ("body",)),
        ("a.b[*].c[0]", "a.b", (ALL_ITEMS, "c", 0)),
        ("a.b[*].c[0]", "a", ("b", ALL_ITEMS, "c", 0)),
        ("tool:request.text", "request", ("text",)),
        ("get[*]", "get", (ALL_ITEMS,)),
        ("getter", "get", None),
    ],
)
def test_sources_of_tools(text: str, tool: str, path: Any) -> None:
    assert LabelSource.read(text).path_of(tool) == path


def test_tags_stand_for_their_tools() -> None:
    session = session_of(labels={"red": "@readers.body"}, keys={"tags": {"readers": ["get", "list"]}})
    assert sources(recorded(session, "list", {"body": "ann@example.com"}), "ann@example.com") == {"red"}


def test_ids_of_the_policy_are_tokens() -> None:
    session = recorded(session_of(labels={"red": "get"}, keys={"ids": "W[A-Z]{2}"}), "get", "order WAB, please")
    assert sources(session, "cancel WAB") == {"red"}
    assert sources(session, "cancel WXY") == {"model"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"labels": {"red": "get body"}}, "'get body' is not a source; expected a tool"),
        ({"labels": {"model": "get"}}, "the label 'model' is built in"),
        ({"labels": {"red": "messages."}}, "'messages.' is not a source"),
        ({"labels": {"red": {"propagate": True}}}, "key 'from' is missing"),
        (
            {"labels": {"red": "gett"}, "tools": ["get", "pay"]},
            "unknown tool 'gett': not declared in 'tools:'; did you mean 'get'",
        ),
        (
            {"labels": {"red": "@reader.x"}, "tags": {"readers": ["get"]}},
            "unknown tag 'reader'; did you mean 'readers'",
        ),
        ({"labels": {"red": "get"}, "ids": "W*"}, "'W*' matches an empty string"),
        ({"labels": {"red": "get"}, "ids": "("}, "is not a valid regular expression"),
        ({"labels": {"rad": "get"}}, "unknown label 'red'; did you mean 'rad'"),
    ],
)
def test_mistakes_are_errors(keys: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        load_policies(data={"version": 1, "policies": [RULE], **keys})
    assert message in str(error.value)


@pytest.mark.parametrize(
    "rule",
    [
        'forall(pay(x=x), sources(x) <= {"red", "blu"})',
        'forall(pay(x=x), len(sources(x) & {"blu"}) == 0)',
        "forall(pay(), !seen(blu))",
        "flow(blu -> pay())",
        'forall(pay(x=x), sources(x) == "blue")',
    ],
)
def test_a_label_that_does_not_exist_is_an_error(rule: str) -> None:
    with pytest.raises(InputError, match=r"did you mean 'blue'|sources\(...\) is a set"):
        session_of(rule, labels={"red": "get", "blue": "list"})
