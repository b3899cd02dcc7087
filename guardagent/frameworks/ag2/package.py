"""The facts about AG2."""

FRAMEWORK = "ag2"
EXTRA = "ag2"
DISTRIBUTIONS = {"ag2": "1.2"}
TRIED = {"ag2": ("1.2", "1.2")}  # the oldest and the newest version tried; others warn
OBJECTS: tuple[str, ...] = ()
PACKAGES: tuple[str, ...] = ()
