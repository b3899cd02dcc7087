"""The facts about Google's Agent Development Kit."""

FRAMEWORK = "adk"
EXTRA = "adk"
DISTRIBUTIONS = {"google-adk": "2.13"}
TRIED = {"google-adk": ("2.13", "2.13")}  # the oldest and the newest version tried with the adapter; others warn
OBJECTS = ("google.adk",)
PACKAGES = ("google", "veadk")  # VeADK derives its agents from those of ADK

# Names of the host that the adapter replaces or calls, by what has them; most are private.
PARTS = {
    "Runner": "run_async run_live",
    "BaseTool": "run_async _get_declaration",
    "FunctionTool": "_invoke_callable _run_generator_as_node _preprocess_args _get_mandatory_args _context_param_name "
    "_ignore_params",
}
