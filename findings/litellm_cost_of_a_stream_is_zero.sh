#!/bin/sh
# Version: litellm 1.108.7
# Source: LiteLLM's page "Completion Token Usage & Cost": a response states its cost in _hidden_params["response_cost"].
# Behaviour: a streamed response states the cost 0.0 from beginning to end, though the model has a price and its last
#   chunk has the usage. The cost of a model without a price is None there, so 0.0 does not mean an unknown price.
# Output seen:
#   whole: 0.000225
#   without a price: None
#   stream: 0.0 with 9 tokens
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile litellm==1.108.7
LITELLM_LOCAL_MODEL_COST_MAP=True "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import litellm


def answer(model, **options):
    return litellm.completion(model, [{"role": "user", "content": "hi"}], mock_response="hello", **options)


def cost(response):
    return response._hidden_params["response_cost"]


whole, unpriced = answer("gpt-4o"), answer("openai/none-such")
stream = answer("gpt-4o", stream=True, stream_options={"include_usage": True})
tokens = [chunk.usage.total_tokens for chunk in stream if getattr(chunk, "usage", None)]
print(f"whole: {cost(whole):f}", f"without a price: {cost(unpriced)}", f"stream: {cost(stream)} with {tokens[-1]} tokens", sep="\n")
assert cost(whole) > 0
assert cost(unpriced) is None
assert cost(stream) == 0.0
PYTHON
