"""Signatures of a log: who has the public key alone can verify, and nobody without the private one can forge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from guardagent.errors import InputError
from guardagent.log import AuditLog, Head, verify_log
from guardagent.log.audit_log import SIGN_EVERY
from guardagent.log.signatures import PublicKeys, SigningKey, new_key
from guardagent.log.verification import LogReport
from tests.conftest import Cli


@pytest.fixture
def key(tmp_path: Path) -> Path:
    new_key(tmp_path / "key")
    return tmp_path / "key"


def public(*keys: Path) -> PublicKeys:
    return PublicKeys([f"{key}.pub" for key in keys])


def written(path: Path, key: Path | None, number: int, kind: str = "verdict", **options: Any) -> Path:
    with AuditLog(path, signing_key=key, **options) as log:
        for at in range(number):
            log.append({"kind": kind, "tool": f"t{at}"})
    return path


def verified(path: Path, *keys: Path, **options: Any) -> LogReport:
    return verify_log(path, public_keys=public(*keys), **options)


@pytest.mark.parametrize("name", ["log.jsonl", "log.db"])
@pytest.mark.parametrize("number", [0, 1, SIGN_EVERY - 1, 2 * SIGN_EVERY + 3])
def test_everything_is_signed_when_the_log_is_closed(tmp_path: Path, key: Path, name: str, number: int) -> None:
    log = written(tmp_path / name, key, number)
    report = verified(log, key)
    if not number:
        assert (report.status, report.entries) == ("unchecked", 0)
        return
    assert report.status == "end_unchecked"
    assert report.notes[-1] == f"signed up to entry {report.entries - 1:,} of {report.entries:,}"
    assert report.entries == number + 1 + (number - 1) // SIGN_EVERY
    assert verify_log(log).status == "end_unchecked"  # without the key, as any log


def test_a_log_that_was_written_anew_without_the_key_shows(tmp_path: Path, key: Path) -> None:
    """Its chain is whole: only the signatures tell."""
    original = written(tmp_path / "log.jsonl", key, 3)
    entries = [json.loads(line)["entry"] for line in original.read_text().splitlines()]
    forged = tmp_path / "forged.jsonl"
    with AuditLog(forged) as log:
        for entry in entries:
            log.append_prepared(json.dumps({**entry, "tool": "other"}, sort_keys=True, separators=(",", ":")))
    assert verify_log(forged).status == "end_unchecked"
    report = verified(forged, key)
    assert (report.status, report.first_bad) == ("tampered", 4)
    assert verified(written(tmp_path / "plain.jsonl", None, 3), key).status == "unchecked"


def test_answers_of_people_are_signed_by_themselves(tmp_path: Path, key: Path) -> None:
    log = written(tmp_path / "log.jsonl", key, 1, kind="approval_answer")
    entry = json.loads(log.read_text().splitlines()[0])["entry"]
    assert public(key).entry_problem(entry, 1, "none") is None
    assert "did not make" in str(public(key).entry_problem({**entry, "by": "eve"}, 1, "none"))
    assert "has no signature" in str(public(key).entry_problem({**entry, "signature": 1}, 1, "none"))


def test_keys_rotate_and_an_old_one_signs_nothing_after_its_successor(tmp_path: Path, key: Path) -> None:
    new_key(tmp_path / "next")
    log = tmp_path / "log.jsonl"
    written(log, key, 2)
    written(log, tmp_path / "next", 2)
    assert verified(log, key, tmp_path / "next").status == "end_unchecked"
    assert "not among the public keys" in str(verified(log, tmp_path / "next").problem)
    written(log, key, 1)
    assert "after a later key has signed" in str(verified(log, key, tmp_path / "next").problem)


def test_a_signed_head_proves_the_end(tmp_path: Path, key: Path) -> None:
    log = written(tmp_path / "log.jsonl", key, 3, head=tmp_path / "head")
    head = Head.load(tmp_path / "head")
    report = verified(log, key, head=head)
    assert (report.status, report.notes[-1]) == ("whole", "signed up to entry 4 of 4")
    other = Head(head.count, head.digest, None, SigningKey(tmp_path / "key").head(3, head.digest))
    assert "the head has a signature that" in str(verified(log, key, head=other).problem)
    assert Head.load(tmp_path / "head").to_dict()["signature"]["key"] == SigningKey(key).id


def test_the_commands_create_sign_and_verify(tmp_path: Path, cli: Cli) -> None:
    key, log = tmp_path / "key.pem", written(tmp_path / "log.jsonl", None, 2)
    assert cli("log", "new-key", key).status == 0
    assert key.stat().st_mode & 0o077 == 0
    assert cli("log", "new-key", key).status == 2
    assert cli("log", "verify", log, "--public-key", f"{key}.pub").status == 3
    assert "entry 3 signs the entries 1 to 2" in cli("log", "sign", log, "--signing-key", key).err
    shown = cli("log", "verify", log, "--public-key", f"{key}.pub", "--json")
    assert (shown.status, json.loads(shown.out)["notes"]) == (3, ["signed up to entry 2 of 3"])
    log.write_text(log.read_text().replace('"t0"', '"t9"'))
    assert cli("log", "verify", log, "--public-key", f"{key}.pub").status == 1


@pytest.mark.parametrize("load", [SigningKey, lambda path: PublicKeys([path])])
def test_a_file_that_is_not_a_key_is_an_error(tmp_path: Path, key: Path, load: Any) -> None:
    (tmp_path / "text").write_text("a key")
    wrong = f"{key}.pub" if load is SigningKey else key
    for path in (tmp_path / "text", wrong):
        with pytest.raises(InputError, match="is not a"):
            load(path)
    with pytest.raises(InputError, match="missing"):
        load(tmp_path / "missing")


def test_a_log_without_a_key_to_sign_with_says_so(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log, pytest.raises(InputError, match="no key to sign with"):
        log.sign()
