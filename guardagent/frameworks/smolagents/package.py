"""The facts about smolagents."""

FRAMEWORK = "smolagents"
EXTRA = "smolagents"
DISTRIBUTIONS = {"smolagents": "1.26"}
TRIED = {"smolagents": ("1.26", "1.26")}  # the oldest and the newest version tried; others warn
OBJECTS: tuple[str, ...] = ()
PACKAGES: tuple[str, ...] = ()
