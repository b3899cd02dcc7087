"""The APIs of the proxy whose tool calls are judged: chat completions, responses, and Anthropic's messages."""
