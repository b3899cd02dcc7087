"""Policy files that include others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from guardagent import Decision, load_policies
from guardagent.errors import InputError
from guardagent.policy.file.policy_file import MERGING, PolicyFile, policy_contents, read_policy_file

Write = Callable[..., Path]
EMAIL = """\
version: 1
tags: {send: [send_email]}
constants: {domain: "@here.org", limit: 3}
define:
  internal(address): address in [domain]
policies:
  - {id: inside, temporal: 'forall(f:@send(to=t), internal(t))'}
  - {id: few, temporal: 'forall(f:@send(), count(@send()) < limit)'}
"""


def message_of(*paths: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_policies(list(paths))
    return str(caught.value)


def main(write: Write, include: str, rest: str = "") -> Path:
    return write("main.yaml", f"version: 1\ninclude: {include}\n{rest}")


def test_every_field_can_be_merged() -> None:
    """A new field has to say how."""
    assert [field.name for field in fields(PolicyFile) if field.name not in MERGING] == []


def test_ids_of_included_rules_have_a_prefix(write: Write) -> None:
    """A policy's own ids stay as they are."""
    write("email.yaml", EMAIL)
    path = main(write, "[email.yaml]", "policies: [{id: own, temporal: 'G !tool:wipe'}]\n")
    policies = load_policies(path)
    assert policies.ids == ("own", "email.inside", "email.few")
    session = policies.session()
    assert session.check("send_email", {"to": "@here.org"}, reserve=False).label == 0
    assert session.check("send_email", {"to": "@there.org"}).rules == ("email.inside",)
    assert session.check("send_email", {}).label == 1
    assert session.check("wipe").rules == ("own",)


def test_an_including_file_sets_parameters(write: Write) -> None:
    """Constants, tags and the decision."""
    write("email.yaml", EMAIL)
    entry = "{file: email.yaml, as: mail, constants: {limit: 1}, tools: {send: [post]}, on_violation: warn}"
    session = load_policies(main(write, entry)).session()
    assert session.check("send_email", {"to": "@there.org"}, reserve=False).decision is Decision.ALLOW
    verdict = session.check("post", {"to": "@there.org"})
    assert (verdict.decision, verdict.rules) == (Decision.WARN, ("mail.inside",))
    session.record("sent")
    assert session.check("post", {"to": "@here.org"}).rules == ("mail.few",)


def test_names_of_an_included_file_have_its_prefix(write: Write) -> None:
    """Rules of the including file use them so; they do not change names of the included file."""
    write("email.yaml", EMAIL)
    rule = "forall(f:call(to=t), email.internal(t) && len(t) > email.limit && limit == 7)"
    rest = f"constants: {{limit: 7}}\npolicies:\n  - {{id: own, temporal: '{rule}'}}\n  - id: sent\n"
    session = load_policies(main(write, "email.yaml", f"{rest}    temporal: forall(@email.send(), true)\n")).session()
    assert session.check("call", {"to": "@here.org"}).label == 0
    assert session.check("call", {"to": "@there.org"}).rules == ("own",)
    assert session.check("call", {}).errors


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("forall(f:@write(), true)", "unknown tag 'email.write'"),
        ("forall(x(to=t), t == own_constant)", "unknown variable 'own_constant'"),
        ("forall(x(to=t), own(t))", "unknown function 'own'"),
        ("forall(x(to=t), state(price()) == t)", "unknown state function 'email.price'"),
    ],
)
def test_an_included_file_does_not_see_the_names_of_the_including_one(write: Write, rule: str, says: str) -> None:
    """Its rules mean the same alone."""
    write("shop.py", "def price(state):\n    'The price.'\n    return 1\n")
    path = write("email.yaml", f"version: 1\npolicies:\n  - id: a\n    temporal: {rule}\n")
    rest = "toolbox: shop.py\ntags: {write: [x]}\nconstants: {own_constant: 5}\ndefine: {own(x): x == 1}\n"
    message = message_of(main(write, "email.yaml", rest))
    assert message.startswith(f"{path}:4: ")
    assert says in message


def test_functions_of_two_files_may_have_one_name(write: Write) -> None:
    """Each file calls its own."""
    for folder, limit in (("a", 1), ("b", 2)):
        write(f"{folder}/f.py", f"def limit():\n    'The limit.'\n    return {limit}\n")
        rule = "forall(pay(amount=x), x <= limit())"
        write(f"{folder}/{folder}.yaml", f"version: 1\ntoolbox: f.py\npolicies: [{{id: r, temporal: '{rule}'}}]\n")
    session = load_policies(main(write, "[a/a.yaml, b/b.yaml]")).session()
    assert session.check("pay", {"amount": 2}).rules == ("a.r",)
    assert session.check("pay", {"amount": 3}).rules == ("a.r", "b.r")
    assert session.check("pay", {"amount": 1}).label == 0


@pytest.mark.parametrize(
    ("include", "line", "says"),
    [
        ("missing.yaml", 2, "no such file: 'missing.yaml'"),
        ("guardagent:shel", 2, "unknown pack 'shel'"),
        (
            "[email.yaml, {file: sub/email.yaml}]",
            2,
            "the prefix 'email' is already used in line 2; expected 'as: NAME'",
        ),
        ("{file: email.yaml, constants: {limt: 3}}", 2, "unknown constant 'limt' of the included file; did you mean"),
        ("{file: email.yaml, constants: {limit: many}}", 2, "constant 'limit' is a string; expected a number"),
        ("{file: email.yaml, tools: {sent: [x]}}", 2, "unknown tag 'sent' of 'email.yaml'"),
        ("{file: email.yaml, as: 'a b'}", 2, "cannot begin the ids"),
        ("{as: x}", 2, "neither of 'file' and 'pack'"),
        ("needs.yaml", 2, "constant 'workspace' of 'needs.yaml' has no value"),
        ("main.yaml", 2, "the files include each other: main.yaml -> main.yaml"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_line(write: Write, include: str, line: int, says: str) -> None:
    """And what was expected."""
    write("email.yaml", EMAIL)
    write("sub/email.yaml", EMAIL)
    write("needs.yaml", "version: 1\nconstants: {workspace: }\npolicies: [{id: a, temporal: 'G !tool:x'}]\n")
    path = main(write, include)
    message = message_of(path)
    assert message.startswith(f"{path}:{line}: ")
    assert says in message


def test_an_error_in_an_included_file_has_its_place(write: Write) -> None:
    """Not that of the entry."""
    path = write("email.yaml", EMAIL.replace("internal(t)", "intrnal(t)"))
    assert message_of(main(write, "email.yaml")).startswith(f"{path}:7: unknown function 'intrnal'")


def test_a_cycle_through_a_link_is_an_error(write: Write) -> None:
    """Files are told apart by what they are."""
    path = write("a.yaml", "version: 1\ninclude: b.yaml\npolicies: [{id: a, temporal: 'G !tool:x'}]\n")
    path.with_name("b.yaml").symlink_to(path)
    assert "the files include each other: a.yaml -> a.yaml" in message_of(path)


def test_many_files_are_refused(write: Write) -> None:
    """Each includes the next twice: 512 files to read."""
    for at in range(9):
        write(f"f{at}.yaml", f"version: 1\ninclude: [f{at + 1}.yaml, {{file: f{at + 1}.yaml, as: g}}]\n")
    write("f9.yaml", EMAIL)
    assert "more than 100 files are included" in message_of(write("all.yaml", "version: 1\ninclude: f0.yaml\n"))


def test_the_digest_and_the_lock_cover_included_files(write: Write) -> None:
    """A changed file is a changed policy."""
    email = write("email.yaml", EMAIL)
    path = main(write, "email.yaml")
    before = read_policy_file(path).digest
    assert [policy_content.path for policy_content in policy_contents(path)] == [path, email]
    email.write_text(EMAIL.replace("limit: 3", "limit: 4"))
    assert read_policy_file(path).digest != before


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("tags: {w: [a]}", "tags: {w: [b]}", "'w' has another meaning in {first}:2"),
        ("constants: {n: 1}", "constants: {n: 2}", "'n' has another meaning in {first}:2"),
        ("define: {n(x): x == 1}", "define: {n(x): x == 2}", "'n' has another meaning in {first}:2"),
        ("tools: {a: [x], pay: }", "tools: {a: [y]}", "'a' has another meaning in {first}:2"),
        ("failed_output: a", "failed_output: b", "'failed_output' differs from that of {first}"),
    ],
)
def test_several_files_may_not_clash(write: Write, first: str, second: str, says: str) -> None:
    """The message names both."""
    rule = "\npolicies: [{id: ID, temporal: 'G !tool:pay'}]\n"
    paths = [
        write(f"{name}.yaml", f"version: 1\n{text}{rule}".replace("ID", name))
        for name, text in (("one", first), ("two", second))
    ]
    message = message_of(*paths)
    assert message.startswith(f"{paths[1]}")
    assert says.format(first=paths[0]) in message


def test_several_files_are_one_policy(write: Write) -> None:
    """Ids stay, the stricter `unlisted` holds, and the same id twice is an error."""
    first = write("one.yaml", "version: 1\npolicies: [{id: a, temporal: 'G !tool:x'}]\n")
    second = write("two.yaml", "version: 1\nunlisted: deny\npolicies: [{id: b, temporal: 'G !tool:y'}]\n")
    policies = load_policies([first, str(second)])
    assert policies.ids == ("a", "b")
    assert policies.session().check("z").label == 1
    assert load_policies([first]).digest == load_policies(first).digest
    assert f"policy id 'a' is already used in {first}:2" in message_of(first, first)


def test_declared_tools_hold_for_all_files(write: Write) -> None:
    """A tag of an included file keeps its declared tools; any other call is denied."""
    write("email.yaml", EMAIL.replace("[send_email]", "[send_email, mail]"))
    rest = "tools: [mail, ping]\npolicies: [{id: own, temporal: 'G !tool:ping'}]\n"
    session = load_policies(main(write, "email.yaml", rest)).session()
    assert session.check("mail", {"to": "@there.org"}).rules == ("email.inside",)
    assert session.check("send_email", {"to": "@here.org"}).errors
    assert "unknown tool 'mail' of tag 'email.send'" in message_of(main(write, "email.yaml", "tools: [ping]\n"))


def test_labels_have_no_prefix(write: Write) -> None:
    """All files share them, and each may add sources."""
    write(
        "page.yaml", "version: 1\nlabels: {far: page}\npolicies: [{id: near, temporal: 'forall(pay(), !seen(far))'}]\n"
    )
    session = load_policies(main(write, "[{file: page.yaml, as: p}]", "labels: {far: mail}\n")).session()
    assert session.check("pay", {}, reserve=False).label == 0
    session.record("hello", permit=session.check("mail", {}).permit)
    assert session.check("pay", {}).rules == ("p.near",)


def test_tools_of_an_entry_are_those_of_labels(write: Write) -> None:
    """Also with a path, and at every place where the tag stands."""
    labels = "labels: {far: '@mail[*].body', near: [other, '@mail']}\n"
    rules = "[{id: away, temporal: 'forall(pay(to=r), !(\"far\" in sources(r)))'}]"
    write("page.yaml", f"version: 1\ntags: {{mail: [inbox, in]}}\n{labels}policies: {rules}\n")
    session = load_policies(main(write, "[{file: page.yaml, tools: {mail: [post, letters]}}]")).session()
    for tool, word in (("inbox", "meadow"), ("post", "river"), ("letters", "forest")):
        session.record([{"body": word}], permit=session.check(tool, {}).permit)
    assert [session.check("pay", {"to": word}, reserve=False).label for word in ("meadow", "river", "forest")] == [
        0,
        1,
        1,
    ]
