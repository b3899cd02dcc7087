"""Sources of a solver rule's variables: an expression, or the conversation as a model reads it.

args.amount, fact(user_confirmed), state(hours_since_booking(args.id)), count(f:refund(), !failed(f)), ...
conversation(user), conversation(user, tool)    a value stated in a message of one of these roles
confirmation()                                  whether the user approved this call after it was proposed
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from guardagent.policy.evaluation.history_index import Term
from guardagent.policy.evaluation.library import CompileError
from guardagent.policy.evaluation.operands import is_shown
from guardagent.policy.evaluation.terms import Compiler
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.language import ast
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.language.term_parser import read_term

ARGS = "args"
ROLES = ("user", "assistant", "tool", "system")
_CONVERSATION = re.compile(r"\s*(conversation|confirmation)\s*\(([^()]*)\)\s*")


@dataclass(frozen=True, slots=True)
class ExpressionSource:
    """A value computed by an expression.

    Attributes:
        tree: the expression.
        reads_history: whether it reads the history, and so may depend on the outcome of calls in flight.
        from_args: whether it depends on the proposed call's arguments only, which the agent chooses.
        argument: the argument's name, if the expression is just one argument.
        is_shown: whether messages may show the value; values of the state stay hidden.
    """

    term: Term
    tree: ast.Term
    reads_history: bool
    from_args: bool
    argument: str | None = None
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class ConversationSource:
    """A value that a model reads in the conversation.

    Attributes:
        roles: the roles whose messages may state it.
        confirmation: whether it is the user's approval of the proposed call.
    """

    roles: frozenset[str]
    confirmation: bool = False


Source = ExpressionSource | ConversationSource


def source_of(text: SourceText, compiler: Compiler, slot: int) -> Source:
    """Parses the text under `from:`; `slot` is the index of the proposed call's arguments.

    Raises:
        ContentError: the text does not parse, or names something unknown.
    """
    if match := _CONVERSATION.fullmatch(text.text):
        return _conversation_source(match[1], match[2], text)
    try:
        tree = read_term(text.text, {ARGS}, compiler.library.names)
        term = compiler.term(tree, {ARGS: slot})
    except TemporalError as error:
        raise text.error(str(error), error.line, error.column) from None
    except CompileError as error:
        wrong = TemporalError(str(error), text.text, error.place.line, error.place.column)
        raise text.error(str(wrong), error.place.line, error.place.column) from None
    parts = list(ast.walk(tree))
    outside = (ast.State, ast.StateOf, ast.Fact, ast.Principal, ast.Now, ast.Zone, *ast.OF_EARLIER)
    return ExpressionSource(
        term,
        tree,
        reads_history=any(isinstance(part, ast.OF_EARLIER) for part in parts),
        from_args=not any(isinstance(part, outside) for part in parts)
        and any(isinstance(part, ast.Variable) and part.name == ARGS for part in parts),
        argument=tree.name if isinstance(tree, ast.Field) and isinstance(tree.body, ast.Variable) else None,
        is_shown=is_shown(tree),
    )


def _conversation_source(kind: str, inside: str, text: SourceText) -> ConversationSource:
    roles = [role.strip() for role in inside.split(",") if role.strip()]
    if kind == "confirmation":
        if roles:
            raise text.error("'confirmation()' has arguments; expected none, since only the user can confirm")
        return ConversationSource(frozenset({"user"}), confirmation=True)
    if not roles or not set(roles) <= set(ROLES):
        expected = f"'conversation(ROLE, ...)' with roles from {', '.join(map(repr, ROLES))}"
        raise text.error(f"{text.text.strip()!r} has no valid roles; expected {expected}")
    return ConversationSource(frozenset(roles))
