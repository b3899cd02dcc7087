"""The facts about LiteLLM's proxy."""

FRAMEWORK = "litellm"
EXTRA = "litellm"
DISTRIBUTIONS = {"litellm": "1.108"}
TRIED = {"litellm": ("1.108", "1.110")}  # the oldest and the newest version tried; others warn
OBJECTS: tuple[str, ...] = ()
PACKAGES: tuple[str, ...] = ()
