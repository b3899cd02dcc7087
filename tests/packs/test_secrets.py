"""The readings of the pack secrets, against plain ones that read each string alone."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import pytest

from guardagent import Policies, load_policies
from guardagent.packs.catalogue import packs
from guardagent.packs.secrets import functions

PACK = next(pack.folder for pack in packs() if pack.name == "secrets")
FUNCTIONS = "readings assignments card_numbers disorder".split()
PLAIN = "from guardagent.packs.secrets import functions\nfrom tests.packs import test_secrets\n" + "".join(
    f"""
def {name}(value: object) -> object:
    "As in the pack."
    return getattr(test_secrets, "plain_{name}", functions.{name})(value)
"""
    for name in FUNCTIONS
)
WORDS = (
    "the token of a password is secret key: user= value 'name' \"apiKey\" passwd\n auth-token credential p_w.d -u "
    "--user b:c {x} (y); /etc/a.py é 漢 \u200b \u212aey 2026-11-29 0042 == , \n"
).split(" ")


# --- plain readings


def plain_readings(value: Any) -> list[str]:
    return [reading for text in _strings(value, "", 0) for reading in _encoded(text, 0)]


def _strings(value: Any, key: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("name", value.get("key")), str) and isinstance(value.get("value"), str):
            yield f"{value.get('name', value.get('key'))}: {value['value']}"
        for name, part in value.items():
            yield from _strings(part, name, depth)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part, key, depth)
    elif value is not None:
        text = "".join(sign for sign in str(value) if unicodedata.category(sign) != "Cf")
        yield f"{key}: {text}" if key else text
        if depth < 3 and text.lstrip()[:1] in ("{", "["):
            try:
                yield from _strings(json.loads(text), key, depth + 1)
            except ValueError:
                return


def _encoded(text: str, depth: int) -> Iterator[str]:
    yield text
    words = [part for run in re.findall(r"[\w+/-]{16,}={0,2}", text, re.ASCII) for part in (run, *run.split("/"))]
    inner = [base64.urlsafe_b64decode, bytes.fromhex]
    parts = [
        (inner[0], f"{word.rstrip('=').replace('+', '-').replace('/', '_')}==") for word in words if len(word) > 15
    ]
    parts += [(inner[1], word) for word in re.findall("(?:[0-9a-fA-F]{2}){12,}", text)]
    printed = [printed for part in parts if (printed := _decoded(*part))]
    for decoded in [*printed, *([unquote(text)] if "%" in text else [])] if depth < 3 else ():
        yield from _encoded(decoded, depth + 1)


def _decoded(decode: Callable[[str], bytes], word: str) -> str:
    try:
        text = decode(word).decode()
    except ValueError:
        return ""
    return text if all(sign.isprintable() or sign.isspace() for sign in text) else ""


def plain_assignments(text: str) -> list[dict[str, str]]:
    matches = functions._ASSIGNMENT.finditer(text)
    names = [(re.sub("[^a-z]", "", (m["name"] or m["option"] or "password").lower()), m) for m in matches]
    return [{"name": name, "value": m[m.lastgroup or 0]} for name, m in names if functions._SECRET.search(name)]


# --- values


def _key(source: random.Random) -> str:
    """Something that may look like a credential."""
    signs = string.ascii_letters + string.digits

    def some(count: int) -> str:
        return "".join(source.choices(signs, k=count))

    names = ["db_password", "api-key", "Client.Secret", "to9ken", "next_token"]
    kinds = [
        f"ghp_{some(source.choice([29, 36]))}", f"AKIA{some(16).upper()}", f"ey{some(12)}.ey{some(12)}.{some(20)}",
        f"postgres://app:{some(source.choice([2, 9]))}@db", f"Authorization: Bearer {some(24)}", "4111 1111 1111 1111",
        f"-----BEGIN PRIVATE KEY-----\n{some(32)}", f"--password {some(9)}", f" -u me:{some(8)}",
        f"password is {some(8)}", f"{source.choice(names)}{source.choice('=:')}{some(20)}",
    ]  # fmt: skip
    return source.choice(kinds)


def _text(source: random.Random) -> str:
    words = [*source.choices(WORDS, k=source.randrange(40)), *(_key(source) for _ in range(source.randrange(2)))]
    source.shuffle(words)
    text = source.choice([" ", "\n", ""]).join(words)
    for _ in range(source.randrange(3)):
        code = text.encode()
        encodings = [base64.b64encode(code), base64.urlsafe_b64encode(code).rstrip(b"="), code.hex().encode()]
        encodings += ["".join(f"%{byte:02X}" for byte in code).encode(), json.dumps({"a": [text]}).encode(), code]
        text = source.choice(encodings).decode()
    return text


def _value(source: random.Random) -> dict[str, Any]:
    parts: list[Any] = [_text(source) for _ in range(source.randrange(1, 5))]
    parts.append({"name": source.choice(WORDS), "value": _text(source), "count": source.randrange(10**16)})
    long = _text(source) * source.choice([1, 1, 30])
    return {"content": long, "parts": parts, "n": source.choice([1, True, None, 0.5])}


# --- they agree


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Policies:
    """The pack with the plain readings."""
    folder = tmp_path_factory.mktemp("plain")
    text = (PACK / "policy.yaml").read_text(encoding="utf-8")
    (folder / "policy.yaml").write_text(text.replace("functions.py", "plain.py"), encoding="utf-8")
    (folder / "plain.py").write_text(PLAIN, encoding="utf-8")
    return load_policies(folder / "policy.yaml")


@pytest.fixture(scope="module")
def policies() -> Policies:
    return load_policies(PACK / "policy.yaml")


def verdict(policies: Policies, value: Any) -> tuple[Any, ...]:
    checked = policies.session().check("write_file", value, reserve=False)
    return checked.decision, checked.rules, checked.errors


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))])
def test_the_verdicts_are_those_of_plain_readings(policies: Policies, plain: Policies, seed: int) -> None:
    """Also for strings that are read together, and for text that is read in parts."""
    source = random.Random(seed)  # noqa: S311 - the same every time
    values = [_value(source) for _ in range(12)]
    verdicts = [verdict(policies, value) for value in values]
    assert verdicts == [verdict(plain, value) for value in values]
    assert len({rules for _, rules, _ in verdicts}) > 2


def test_a_string_that_is_not_valid_leaves_the_others_readable(policies: Policies, plain: Policies) -> None:
    value = {"a": "\ud800", "b": "password: Tr0ub4dor&3"}
    assert verdict(policies, value) == verdict(plain, value)
    assert "assignment" in verdict(policies, value)[1]


def test_equal_numbers_of_other_types_are_read_apart() -> None:
    assert [functions.readings({"a": [value]}) for value in (1, True, 1.0)] == [["a: 1"], ["a: True"], ["a: 1.0"]]


def test_assignments_in_parts_of_a_text_are_those_in_the_whole() -> None:
    source, parts = random.Random(1), 0  # noqa: S311 - the same every time
    for _ in range(400):
        filler = "".join(source.choices([" lorem", "\n", "a.py", "; ", "x=1 ", "(", "word", "\n: "], k=300))
        text = filler[:900] + " ".join(source.choices(WORDS, k=6)) + _key(source) + filler[900:]
        assert functions.assignments(text) == plain_assignments(text)
        parts += list(functions._regions(text)) != [(0, len(text))]
    assert parts > 300


@pytest.mark.parametrize("sign", ["\u00ad", "\u200b", "\U000e0041"])
def test_invisible_characters_do_not_count(sign: str) -> None:
    assert functions.readings({"a": f"pass{sign}word: x\u00e9"}) == ["a: password: x\u00e9"]
