"""LiteLLM's proxy: a guardrail in its `config.yaml`.

    Guardrail    judges the tool calls and the answers in responses
    principal    the principal of the caller's key, for `ToolGuard(principal=...)`

Extra: `guardagent[litellm]`; the proxy itself needs `litellm[proxy]`.
"""

from guardagent._support.requirements import require, warn_untried
from guardagent.frameworks.litellm.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from guardagent.frameworks.litellm.adapter.caller import principal  # noqa: E402
from guardagent.frameworks.litellm.adapter.guardrail import Guardrail  # noqa: E402

__all__ = ["Guardrail", "principal"]
