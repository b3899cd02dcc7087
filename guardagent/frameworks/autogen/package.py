"""The facts about AutoGen."""

FRAMEWORK = "autogen"
EXTRA = "autogen"
DISTRIBUTIONS = {"autogen-agentchat": "0.7.5", "autogen-ext": "0.7.5"}
TRIED = {  # the oldest and the newest version tried with the adapter; others warn
    "autogen-agentchat": ("0.7.5", "0.7"),
    "autogen-core": ("0.7.5", "0.7"),
}
OBJECTS = ("autogen_agentchat",)
PACKAGES = ("autogen_agentchat", "autogen_core", "autogen_ext", "autogen")

# Names of the host that the adapter replaces or calls, by what has them; most are private.
PARTS = {
    "AssistantAgent": "on_messages_stream _workbench _handoff_tools _handoffs _call_llm _execute_tool_call "
    "_check_and_handle_handoff _summarize_tool_use",
    "CodeExecutorAgent": "on_messages_stream _code_executor",
    "SocietyOfMindAgent": "on_messages_stream _team",
    "MessageFilterAgent": "on_messages_stream _wrapped_agent",
    "UserProxyAgent": "on_messages_stream",
    "team": "run_stream _participants _embedded_runtime _initialized _termination_condition _max_turns",
    "tool": "args_type run run_json schema return_value_as_string",
    "StaticWorkbench": "_tools _tool_overrides _override_name_to_original",
    "Workbench": "list_tools call_tool",
}
