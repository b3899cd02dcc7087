"""The facts about CrewAI."""

FRAMEWORK = "crewai"
EXTRA = "crewai"
DISTRIBUTIONS = {"crewai": "1.15"}
TRIED = {"crewai": ("1.15", "1.15")}  # the oldest and the newest version tried; others warn
OBJECTS = ("crewai",)
PACKAGES = ("crewai", "crewai_tools")

# Names of the host that the adapter replaces or calls, by what has them; most are private.
PARTS = {
    "agent": "create_agent_executor _update_executor_parameters _prepare_kickoff _build_output_from_result "
    "_finalize_kickoff execute_task aexecute_task kickoff kickoff_async",
    "crew": "_execute_tasks _aexecute_tasks _create_crew_output _get_agent_to_use kickoff kickoff_async akickoff "
    "kickoff_for_each_async akickoff_for_each copy",
    "executor": "invoke invoke_async state tools original_tools tools_handler _execute_single_native_tool_call "
    "_should_parallelize_native_tool_calls _handle_agent_action _ensure_step_executor _step_executor _resuming",
    "steps": "_execute_text_tool_with_events _execute_native_tool_calls",
    "stream": "_sync_iterator _async_iterator",
    "tool": "_run _arun _validate_kwargs _usage_lock args_schema format_output_for_agent",
}
