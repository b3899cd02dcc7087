"""The inputs of a translation, apart from the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent.policy.documents import PolicyDocument, Sentence
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.translation.memory import ResultMemory
from guardagent.translation.samples import TraceSamples
from guardagent.translation.samples_pieces.facts import FactDescription
from guardagent.translation.tools import ToolSchema


@dataclass(frozen=True, slots=True)
class TranslationContext:
    """The inputs of a translation.

    Attributes:
        document: the sentences.
        tools: the tools that the agent has.
        samples: what recorded calls show of arguments, outputs, state and facts; None without `--traces`.
        facts: the facts that the host gives, from `--facts`.
        toolbox: Python files with functions that rules may call.
        failed_output: the RE2 pattern of outputs of failed calls; empty if it is unknown.
        folder: the folder of the policy file; paths in it are relative to it.
        memory: the results so far. A context that another one replaces shares them.
    """

    document: PolicyDocument
    tools: tuple[ToolSchema, ...]
    samples: TraceSamples | None = None
    facts: tuple[FactDescription, ...] = ()
    toolbox: tuple[Path, ...] = ()
    failed_output: str = ""
    folder: Path = field(default_factory=Path)
    memory: ResultMemory = field(default_factory=ResultMemory, compare=False, repr=False)

    @property
    def frame(self) -> Mapping[str, Any]:
        """The keys of a policy file that do not depend on a draft."""
        keys: dict[str, Any] = {"version": 1, "tools": [one.name for one in self.tools]}
        if self.toolbox:
            keys["toolbox"] = [str(path) for path in self.toolbox]
        if self.failed_output:
            keys["failed_output"] = self.failed_output
        return keys

    def load(self, content: Mapping[str, Any]) -> Policies:
        """Loads the content of a policy file; the same content once.

        Raises:
            InputError: it is invalid; the message has the path of keys.
        """
        try:
            key = "policies", repr(content), self.folder
        except (ValueError, RecursionError):  # a value that cannot be written, which the loader reports
            return load_policies(data=content, folder=self.folder)
        return self.memory.once(key, lambda: load_policies(data=content, folder=self.folder))

    def sentence(self, number: int) -> Sentence:
        """Returns the sentence of a number, from 1."""
        return self.document.sentences[number - 1]

    def first_number(self, number: int) -> int:
        """Returns the number of the first sentence that is identical with one: it is translated, and counts for all."""
        return self.document.first_numbers[self.sentence(number).hash]
