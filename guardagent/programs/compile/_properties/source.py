"""Reads and checks the properties in an answer: a Python block beside the one with the program."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property

from guardagent._support import syntax
from guardagent.errors import ProgramError
from guardagent.programs.compile.gate import unknown_names
from guardagent.programs.compile.target import CompileTarget
from guardagent.programs.generation.answers import python_blocks
from guardagent.programs.runtime.program import PARAMETERS
from guardagent.sandbox.gate import admit, parse

FAILED = "failed: "
"""The prefix of the claim of a property that crashed."""

_DEFINES = re.compile(r"^def property_\d+\b", re.MULTILINE)
_CHECK = re.compile(r"^def check\b", re.MULTILINE)
_NAME = re.compile(r"property_([1-9]\d*)\Z")
_ALL = """\
def check({parameters}):
    return [claims_of_run(run["agent_input"], run["agent_output"], run["facts"]) for run in facts["runs"]]
"""
_ASK = """\
    try:
        said["{number}"] = property_{number}(agent_input, agent_output, facts)
    except ValueError:
        said["{number}"] = None
    except Exception as error:
        said["{number}"] = "failed: " + str(error)
"""


@dataclass(frozen=True)
class Properties:
    """The properties as the model wrote them. `source` is empty without any."""

    source: str = ""

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The clauses with a property."""
        names = [node.name for node in syntax.parse(self.source).body if isinstance(node, ast.FunctionDef)]
        return tuple(sorted({int(match[1]) for name in names if (match := _NAME.match(name))}))

    @cached_property
    def program(self) -> str:
        """The program for the sandbox: `check` returns clause -> claim. A property abstains with a ValueError."""
        return self._with_calls("check")

    @cached_property
    def program_of_many(self) -> str:
        """The same program for the runs in the fact `runs`: `check` returns a list."""
        return f"{self._with_calls('claims_of_run')}\n\n{_ALL.format(parameters=', '.join(PARAMETERS))}"

    def _with_calls(self, name: str) -> str:
        calls = "".join(_ASK.format(number=number) for number in self.numbers)
        head = f"def {name}({', '.join(PARAMETERS)}):\n    said = {{}}\n"
        return f"{self.source.rstrip()}\n\n\n{head}{calls}    return said\n"

    @cached_property
    def no_rule_reasons(self) -> dict[int, str]:
        """Clause -> reason, for clauses declared to set no rule: their functions only return None."""
        found = {}
        for node in syntax.parse(self.source).body:
            match = _NAME.match(node.name) if isinstance(node, ast.FunctionDef) else None
            if match and isinstance(node, ast.FunctionDef) and all(map(_says_nothing, node.body)):
                found[int(match[1])] = " ".join((ast.get_docstring(node) or "").split())
        return found

    def text_of(self, number: int) -> str:
        """Returns the normalized source of one property, for comparison."""
        for node in syntax.parse(self.source).body:
            if isinstance(node, ast.FunctionDef) and node.name == f"property_{number}":
                return ast.unparse(node)
        return ""

    def problems(self, target: CompileTarget, before: Properties) -> list[str]:
        """Returns the problems that keep the properties from running or from replacing earlier ones."""
        try:
            parse(self.source)
            admit(self.program, frozenset(target.toolbox))
        except ProgramError as error:
            return [f"the properties: {error}"]
        return [f"the properties: {problem}" for problem in self._problems(target, before)]

    def _problems(self, target: CompileTarget, before: Properties) -> list[str]:
        known = {clause.number for clause in target.clauses}
        wrong = [number for number in self.numbers if number not in known]
        gone = [number for number in before.numbers if number not in self.numbers]
        found = [f"clause {number} does not exist; expected numbers from 1 to {len(known)}" for number in wrong]
        found += [f"'property_{number}' is missing now; expected all properties, or no second block" for number in gone]
        return [*found, *unknown_names(self.program, target)]


def _says_nothing(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Return(value=None | ast.Constant(value=None)) | ast.Expr(value=ast.Constant()):
            return True
        case _:
            return False


def read_properties(answer: str) -> Properties:
    """Reads the properties in an answer; empty without a block that defines any."""
    blocks = [code for code in python_blocks(answer) if _DEFINES.search(code) and not _CHECK.search(code)]
    return Properties("\n\n".join(blocks))
