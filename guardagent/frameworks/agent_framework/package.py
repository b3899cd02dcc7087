"""The facts about the Microsoft Agent Framework."""

FRAMEWORK = "agent-framework"
EXTRA = "agent-framework"
DISTRIBUTIONS = {"agent-framework-core": "1.23"}
TRIED = {  # the oldest and the newest version tried with the adapter; others warn
    "agent-framework-core": ("1.23", "1.23"),
    "agent-framework-orchestrations": ("1.4", "1.4"),  # its hand-offs are carried out by a middleware
}
OBJECTS = ()
PACKAGES = ()
