"""Constrained generation: a tool call that the rules forbid never leaves a local model.

    written = guarded_generate(model, tokenizer, messages, tools, session)

- `guarded`: the writing of one turn; `result`: what came of it; `ending`: what is said where nothing allowed came
- `turn`: what has been written, token by token; `formats`: how tool calls are written, one file per format
- `vocabulary`: the tokens' bytes, and grammars on them; `sampling`: the choice of a token; `forbidden`: no second try
- `judge`: the questions to the session; `engines`: what runs a model, one file per engine
- `processor`: the same for `model.generate`, as far as that can go
"""

from __future__ import annotations

from importlib.util import find_spec

from guardagent.errors import InputError

_MISSING = [name for name in ("torch", "transformers", "llguidance") if find_spec(name) is None]
if _MISSING:
    raise InputError(f"{', '.join(_MISSING)} missing; guarded generation needs: pip install 'guardagent[generation]'")

from guardagent.generation.local.decoding import guarded_generate  # noqa: E402
from guardagent.generation.local.engines import ModelEngine  # noqa: E402 - the extra is looked for first
from guardagent.generation.local.formats import Format, format_names  # noqa: E402
from guardagent.generation.local.processor import GuardedLogits  # noqa: E402
from guardagent.generation.local.result import GeneratedCall, GeneratedTurn  # noqa: E402

__all__ = [
    "Format",
    "GeneratedCall",
    "GeneratedTurn",
    "GuardedLogits",
    "ModelEngine",
    "format_names",
    "guarded_generate",
]
