"""Guarded decoding: a local model never emits a tool call that the rules forbid.

    turn = guarded_generate(model, tokenizer, messages, tools, session)

- `decoding`: one turn; `batch`: many at once; `turn_request`: what is asked for; `result`: the generated turn
- `decoder`: chooses tokens, checks and backtracks; `ending`: the final text if no allowed call is found
- `turn`: the tokens of the turn; `formats`: the formats of tool calls; `json_scanner`: incremental JSON
- `vocabulary`: tokens as bytes, and grammars; `sampling`: the choice of a token; `token_trie`: forbidden continuations
- `turn_check`: the checks against the session; `tool_schemas`: the tools; `engines`: the engines that run models
- `processor`: a logits processor for `model.generate`
"""

from __future__ import annotations

from importlib.util import find_spec

from guardagent.errors import InputError

_MISSING = [name for name in ("torch", "transformers", "llguidance") if find_spec(name) is None]
if _MISSING:
    raise InputError(f"{', '.join(_MISSING)} missing; guarded decoding needs: pip install 'guardagent[generation]'")

from guardagent.generation.local.batch import GuardedBatch, PendingTurn, guarded_generate_batch  # noqa: E402
from guardagent.generation.local.batch_engine import BatchEngine  # noqa: E402
from guardagent.generation.local.decoding import guarded_generate  # noqa: E402
from guardagent.generation.local.engine import ModelEngine  # noqa: E402 - the extra is looked for first
from guardagent.generation.local.formats import Format  # noqa: E402
from guardagent.generation.local.formats.models import format_names  # noqa: E402
from guardagent.generation.local.processor import GuardedLogits  # noqa: E402
from guardagent.generation.local.result import GeneratedCall, GeneratedTurn  # noqa: E402
from guardagent.generation.local.transformers_batch import TransformersBatch  # noqa: E402
from guardagent.generation.local.turn_request import TurnRequest  # noqa: E402

__all__ = [
    "BatchEngine",
    "Format",
    "GeneratedCall",
    "GeneratedTurn",
    "GuardedBatch",
    "GuardedLogits",
    "ModelEngine",
    "PendingTurn",
    "TransformersBatch",
    "TurnRequest",
    "format_names",
    "guarded_generate",
    "guarded_generate_batch",
]
