"""The chats that a program starts."""

from __future__ import annotations

from dataclasses import dataclass

from guardagent.workflow.python_source.stubs import ObjectStub, ProgramEvaluator
from guardagent.workflow.python_source.values import UNKNOWN, Arguments, LiveValue, Sequence, Values, exactly

NO_LIMIT = exactly(None)


@dataclass(frozen=True, eq=False)
class ChatCall(LiveValue):
    """One chat of two agents: who starts it, with whom, and its limit of turns."""

    sender: Values
    recipient: Values
    max_turns: Values = NO_LIMIT


@dataclass(frozen=True, eq=False)
class ChatSequence(LiveValue):
    """Chats in sequence, that one call starts.

    Attributes:
        chats: the chats in order.
        complete: there are no other chats.
        interpreter: the interpreter of the program.
        file: the file of the call.
        line: the line of the call.
    """

    chats: tuple[ChatCall, ...]
    complete: bool
    interpreter: ProgramEvaluator
    file: str
    line: int

    @property
    def has_agents(self) -> bool:
        """Whether any of its agents is known."""
        return any(
            isinstance(one, ObjectStub) for chat in self.chats for one in (*chat.sender.known, *chat.recipient.known)
        )


@dataclass(frozen=True, eq=False)
class RegisteredTool(LiveValue):
    """A tool of an agent, by the name that models see, with its function if it is known."""

    name: str
    function: object = None


def start(interpreter: ProgramEvaluator, chats: tuple[ChatCall, ...], line: int, *, complete: bool = True) -> None:
    """Records that the program starts chats."""
    made = ChatSequence(chats, complete, interpreter, str(interpreter.current_file), line)
    if made.has_agents:
        interpreter.started.append(made)


def chats_of(interpreter: ProgramEvaluator, queue: Values, sender: Values) -> tuple[tuple[ChatCall, ...], bool]:
    """Returns the chats of a queue, a list of dictionaries, and whether these are all."""
    items = interpreter.ordered_elements(queue)
    found: list[ChatCall] = []
    for item in items if items is not None else [interpreter.elements(queue)]:
        for one in item.known:
            fields = {key.known[0]: value for key, value in interpreter.pairs(one) or () if key.strings}
            if "recipient" in fields:
                limit = fields.get("max_turns", NO_LIMIT)
                found.append(ChatCall(fields.get("sender", sender), fields["recipient"], limit))
    return tuple(found), items is not None and all(item.complete for item in items)


def add_to(stub: ObjectStub, attribute: str, *values: Values) -> None:
    """Adds to a list of a stub."""
    before = stub.attributes.get(attribute)
    old = before.known[0].items if before is not None and before.known else ()
    stub.attributes[attribute] = exactly(Sequence((*old, *values)))


def initiate_chat(agent: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`agent.initiate_chat(recipient, ...)`."""
    limit = arguments.get("max_turns") or NO_LIMIT
    start(agent.interpreter, (ChatCall(exactly(agent), arguments.get("recipient", 0) or UNKNOWN, limit),), line)
    return UNKNOWN


def initiate_chats(agent: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`agent.initiate_chats([{"recipient": ...}, ...])`."""
    chats, complete = chats_of(agent.interpreter, arguments.get("chat_queue", 0) or UNKNOWN, exactly(agent))
    start(agent.interpreter, chats, line, complete=complete)
    return UNKNOWN


def run(agent: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`agent.run(...)`: a chat with a recipient, or the agent alone with some tools."""
    if "recipient" in arguments.keywords:
        return initiate_chat(agent, arguments, line)
    tools = arguments.get("tools")
    add_to(agent, "_listed_tools", *([tools] if tools is not None else []))
    agent.interpreter.started.append(agent)
    return UNKNOWN


def register_nested_chats(agent: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`agent.register_nested_chats([...], trigger=...)`: chats that the agent holds before it answers."""
    chats, complete = chats_of(agent.interpreter, arguments.get("chat_queue", 0) or UNKNOWN, exactly(agent))
    nested = ChatSequence(chats, complete, agent.interpreter, str(agent.interpreter.current_file), line)
    add_to(agent, "_nested", exactly(nested))
    return exactly(None)
