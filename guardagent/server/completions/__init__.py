"""Chat completions of a local model whose tool calls are guarded while it writes them: `guardagent generate-server`.

- `chat_request`: a request, read; `chat_completion`: its answer, whole or streamed
- `served_conversations`: the conversations, and the calls that the guard allowed in them
- `generation_thread`: the thread that runs the model, for all requests at once
- `completions_application`: the ASGI application
"""
