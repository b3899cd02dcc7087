"""The facts about the Claude Agent SDK."""

FRAMEWORK = "claude-agent-sdk"
EXTRA = "claude-agent-sdk"
DISTRIBUTIONS = {"claude-agent-sdk": "0.2.180", "jsonschema": "4.23"}
TRIED = {  # the oldest and the newest version tried with the adapter; others warn
    "claude-agent-sdk": ("0.2.188", "0.2.189"),
}
OBJECTS: tuple[str, ...] = ()  # a program of it has no graph
PACKAGES: tuple[str, ...] = ()
