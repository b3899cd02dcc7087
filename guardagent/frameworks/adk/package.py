"""The facts about Google's Agent Development Kit."""

FRAMEWORK = "adk"
EXTRA = "adk"
DISTRIBUTIONS = {"google-adk": "2.13"}
TRIED = {"google-adk": ("2.13", "2.13")}  # the oldest and the newest version tried with the adapter; others warn
OBJECTS = ("google.adk",)
PACKAGES = ("google", "veadk")  # VeADK derives its agents from those of ADK
