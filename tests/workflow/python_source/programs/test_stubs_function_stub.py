"""Stubs for functions of a program."""

from __future__ import annotations

import ast
from pathlib import Path

from guardagent.workflow.python_source.bodies import NO_FRAMEWORK, summarize
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.values import Arguments, exactly


def test_the_summary_of_a_shared_function_is_made_once_for_its_arguments(tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path / "app.py")
    scope = interpreter.run(ast.parse("def look(query, run=None):\n    return run(query)\n"))
    stub = interpreter.converter.function(scope.names["look"].known[0])
    assert summarize(stub) is summarize(stub)
    assert stub.summary(Arguments((exactly("a"),)), NO_FRAMEWORK) is not summarize(stub)
