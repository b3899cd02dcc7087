"""The facts about Pydantic AI."""

FRAMEWORK = "pydantic-ai"
EXTRA = "pydantic-ai"
DISTRIBUTIONS = {"pydantic-ai-slim": "2.68"}
TRIED = {"pydantic-ai-slim": ("2.68", "2.68")}  # the oldest and the newest version tried with the adapter; others warn
OBJECTS: tuple[str, ...] = ()
PACKAGES: tuple[str, ...] = ()
