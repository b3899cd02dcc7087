"""Prompts: Jinja2 templates in `prompts/`, one per model call; a user's own folder overrides any of them.

A template has two blocks, `system` and `user`. The operator's content (request, specification, the toolbox) appears in
the prompt unchanged. Other content (the run of the target agent, demonstrations, errors, a model's earlier answers)
reaches a template already fenced, so that no template can forget it: between two lines with a random mark that occurs
in none of these strings.

Each prompt has its own mark. Strings that many prompts repeat (demonstrations, examples) have a separate mark, which
stays the same while no string contains it: so they are identical in every prompt, and a provider's prompt cache serves
them. For the same reason a template begins with constant content and ends with the data of the one prompt.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from guardagent._support.files import shipped_folder
from guardagent.errors import ContentError, InputError
from guardagent.models import Message

if TYPE_CHECKING:
    from jinja2 import Environment

_BLOCKS: tuple[Literal["system"], Literal["user"]] = ("system", "user")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt, and the marks of its fences.

    Attributes:
        mark: the mark of this prompt.
        shared_mark: the mark of strings that other prompts repeat; empty if it has none.
    """

    messages: tuple[Message, ...]
    mark: str
    shared_mark: str = ""

    @property
    def unmarked(self) -> str:
        """The prompt without its marks: equal for two prompts with the same content."""
        text = "\0".join(message.content for message in self.messages)
        for mark in filter(None, (self.mark, self.shared_mark)):
            text = text.replace(mark, "")
        return text


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A request to a model.

    Attributes:
        prompt: the prompt.
        temperature: 0 for the likeliest answer.
        sample: the index among several answers to the same request.
        nonce: another random string in the prompt that cache keys ignore.
    """

    prompt: Prompt
    temperature: float = 0.0
    sample: int = 0
    nonce: str = ""


class Prompts:
    """The templates of a folder, then the shipped ones. Safe to share between threads.

    Args:
        folder: a folder with any of the files that the shipped one has.
        new_mark: makes the marks; random by default.

    Raises, when made:
        InputError: the folder does not exist, or holds no template.
    """

    def __init__(self, folder: Path | str | None = None, *, new_mark: Callable[[], str] | None = None) -> None:
        self._folders = [*([Path(folder)] if folder else []), shipped_folder("prompts")]
        self._new_mark = new_mark or partial(secrets.token_hex, 8)
        self._shared_mark = ""
        for path in self._folders:
            if not path.is_dir() or not any(path.glob("*.j2")):
                raise InputError(f"{path}: contains no templates; expected a folder with files such as 'plan.j2'")

    @property
    def sources(self) -> list[Path]:
        """All template files, including those of a user's folder."""
        return sorted(file for folder in self._folders for file in folder.glob("*.j2"))

    @property
    def effective_files(self) -> list[Path]:
        """The template file for each name: that of the user's folder if it has one."""
        files = {file.name: file for folder in reversed(self._folders) for file in folder.glob("*.j2")}
        return [files[name] for name in sorted(files)]

    def render(
        self, name: str, data: Mapping[str, Any], shared: Mapping[str, Any] | None = None, **trusted: Any
    ) -> Prompt:
        """Returns the messages of a template.

        Args:
            name: the template, without its `.j2`.
            data: untrusted strings, or lists and mappings of strings.
            shared: untrusted strings that other prompts repeat.
            trusted: the operator's content.

        Raises:
            ContentError: the template is missing or wrong.
        """
        import jinja2

        mark, shared_mark = self._marks(data, shared or {})
        values = {**trusted, "mark": mark, "shared_mark": shared_mark}
        for values_by_label, fence in ((shared or {}, shared_mark), (data, mark)):
            values |= {label: _fenced(value, label, fence) for label, value in values_by_label.items()}
        try:
            template = self._environment.get_template(f"{name}.j2")
            context = template.new_context(values)
            blocks = {block: "".join(template.blocks[block](context)).strip() for block in _BLOCKS}
        except KeyError as error:
            raise ContentError(f"has no block {error}; expected 'system' and 'user'", str(template.filename)) from None
        except jinja2.TemplateSyntaxError as error:
            raise ContentError(f"not a template: {error.message}", error.filename or name, error.lineno) from None
        except jinja2.TemplateError as error:
            raise ContentError(f"cannot be rendered: {error}", self._file_of(name)) from None
        return Prompt(tuple(Message(block, blocks[block]) for block in _BLOCKS if blocks[block]), mark, shared_mark)

    def _marks(self, data: Mapping[str, Any], shared: Mapping[str, Any]) -> tuple[str, str]:
        """Returns (mark, shared mark), which differ and occur in none of the strings."""
        repeated = list(filter(None, _strings(shared)))
        strings = [*_strings(data), *repeated]
        if not repeated:
            return self._mark(strings), ""
        shared_mark = self._shared_mark
        if not shared_mark or any(shared_mark in text for text in strings):
            shared_mark = self._shared_mark = self._mark(strings)
        return self._mark([*strings, shared_mark]), shared_mark

    def _mark(self, strings: Sequence[str]) -> str:
        """Returns a new mark that occurs in none of the strings."""
        for _ in range(100):
            mark = self._new_mark()
            if not any(mark in text for text in strings):
                return mark
        raise InputError("every new mark occurs in the data; expected random marks")

    @cached_property
    def _environment(self) -> Environment:
        return _shipped_environment() if len(self._folders) == 1 else _environment(self._folders)

    def _file_of(self, name: str) -> Path | str:
        return next((file for folder in self._folders if (file := folder / f"{name}.j2").exists()), f"{name}.j2")


@cache
def _shipped_environment() -> Environment:
    return _environment([shipped_folder("prompts")])


def _environment(folders: Sequence[Path]) -> Environment:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(  # a template only fills in text and executes nothing
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _fenced(value: Any, label: str, mark: str) -> Any:
    if isinstance(value, Mapping):
        return {name: _fenced(item, f"{label}.{name}" if label else name, mark) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fenced(item, f"{label}[{number}]", mark) for number, item in enumerate(value, start=1)]
    return f"<data {label} {mark}>\n{value}\n</data {mark}>" if value else ""


def _strings(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _strings(item)]
    return [str(value)]
