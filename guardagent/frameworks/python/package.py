"""The facts about plain Python functions."""

FRAMEWORK = "python"
EXTRA = ""
DISTRIBUTIONS: dict[str, str] = {}
OBJECTS: tuple[str, ...] = ()
PACKAGES: tuple[str, ...] = ()
