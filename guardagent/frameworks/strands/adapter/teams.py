"""Swarms and graphs: teams whose agents share one conversation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from strands import Agent
from strands.hooks import BeforeMultiAgentInvocationEvent
from strands.multiagent.base import MultiAgentBase

from guardagent._support.requirements import require_parts
from guardagent.errors import InputError
from guardagent.frameworks.strands.adapter.attachment import StrandsAttachment

_MARK = "guardagent_guarded"


def guard_team(
    team: Any, attachment: StrandsAttachment, guard_agent: Callable[[Any], None], unguarded: Collection[str]
) -> None:
    """Guards the agents of a team, and of the teams in it. Its session names their conversation.

    Raises:
        InputError: a node runs elsewhere, and is not one of the `unguarded`.
    """
    require_parts(team, "nodes", "hooks", "session_manager")
    attachment.lead(lambda: getattr(team.session_manager, "session_id", None))
    _guard_nodes(team, guard_agent, unguarded)
    if _MARK in vars(team):
        return
    vars(team)[_MARK] = True
    team.hooks.add_callback(BeforeMultiAgentInvocationEvent, lambda _: attachment.turn())


def _guard_nodes(team: Any, guard_agent: Callable[[Any], None], unguarded: Collection[str]) -> None:
    for name, node in team.nodes.items():
        if isinstance(node.executor, Agent):
            guard_agent(node.executor)
        elif isinstance(node.executor, MultiAgentBase) and hasattr(node.executor, "nodes"):
            _guard_nodes(node.executor, guard_agent, unguarded)
        elif name not in unguarded:
            raise InputError(
                f"node {name!r} is a {type(node.executor).__name__}, whose tools run where no guard sees them; guard "
                f"them there, and say unguarded={{{name!r}}}"
            )
