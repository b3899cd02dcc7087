"""Guard programs, compiled once: from words and examples to a checker that asks no model.

`compiler.py` is where to begin. Examinations (`examinations/`) and transformations (`transformations/`) are found by
listing their folders: a new kind of test is a new file there.
"""

from guardagent.programs.compile.compiler import Compilation, CompiledProgram, compile_program
from guardagent.programs.compile.context import CompileContext
from guardagent.programs.compile.examples import Example, read_examples
from guardagent.programs.compile.report import CompileReport, NotCompiledError
from guardagent.programs.compile.target import CompileTarget

__all__ = [
    "Compilation",
    "CompileContext",
    "CompileReport",
    "CompileTarget",
    "CompiledProgram",
    "Example",
    "NotCompiledError",
    "compile_program",
    "read_examples",
]
