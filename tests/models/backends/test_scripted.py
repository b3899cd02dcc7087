"""The model that answers from a script, in a file or in Python."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from guardagent import ContentError, InputError, ModelError
from guardagent.models import Message, backends, load_model
from guardagent.testing import ScriptedModel
from tests.conftest import Write

ASK = [Message("user", "Hello?")]


def test_the_backends_are_the_files_of_the_folder() -> None:
    """A new backend is a new file."""
    files = {file.stem for file in Path(backends.__file__).parent.glob("[!_]*.py")}
    assert {"folder", "litellm", "openai", "scripted"} <= files


@pytest.mark.parametrize("line", ["{", "[]", "5", '{"answer": 5}', '{"answer": "a", "error": "b"}', '{"reply": "a"}'])
def test_a_wrong_line_of_a_script_is_named(write: Write, line: str) -> None:
    """The error has file and line, and comes when the model is created."""
    script = write("script.jsonl", '{"answer": "one"}\n' + line + "\n")
    with pytest.raises(ContentError, match=r"script\.jsonl:2: "):
        load_model(f"scripted/{script}")


def test_a_missing_script_is_an_error(tmp_path: Path) -> None:
    """The error comes when the model is created, too."""
    with pytest.raises(InputError, match=r"nowhere\.jsonl"):
        load_model(f"scripted/{tmp_path}/nowhere.jsonl")


def test_threads_share_a_script() -> None:
    """Each answer is used once, all requests are recorded, and then there are no more."""
    model = ScriptedModel([str(number) for number in range(100)], prices=(1.0, 1.0))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(model.complete, [ASK] * 100))
    assert {answer.text for answer in answers} == {str(number) for number in range(100)}
    assert answers[0].usage.cost == pytest.approx(2 / 1e6)
    assert model.requests == [tuple(ASK)] * 100
    with pytest.raises(ModelError, match="no further answer"):
        model.complete(ASK)


def test_a_script_may_be_a_function_of_the_messages() -> None:
    """An error that it returns is raised."""
    model = ScriptedModel(lambda messages: ModelError("busy") if "?" in messages[-1].content else "fine")
    assert model.complete([Message("user", "Hello.")]).text == "fine"
    with pytest.raises(ModelError, match="busy"):
        model.complete(ASK)
