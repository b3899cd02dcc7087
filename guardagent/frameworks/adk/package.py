"""The facts about Google's Agent Development Kit."""

FRAMEWORK = "adk"
EXTRA = "adk"
DISTRIBUTIONS = {"google-adk": "2.13"}
OBJECTS = ("google.adk",)
PACKAGES = ("google",)
