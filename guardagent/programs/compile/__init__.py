"""Compiles a guard request and labelled examples into a program that checks runs without a model.

Start reading at `compiler.py`. A new kind of test is a function in `examinations.py` or `transformations.py`.
"""

from guardagent.programs.compile.candidate import CompileContext
from guardagent.programs.compile.compiler import Compilation, CompiledProgram, compile_program
from guardagent.programs.compile.examples import CompileTarget, Example, read_examples
from guardagent.programs.compile.report import CompileReport, NotCompiledError

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
