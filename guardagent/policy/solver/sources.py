"""Where the values of a solver rule's variables come from: an expression, or the conversation as a model reads it.

args.amount, fact(user_confirmed), state(hours_since_booking(args.id)), count(f:refund(), !failed(f)), ...
conversation(user), conversation(user, tool)    what a message of one of these roles says
confirmation()                                  whether the user said yes to this very call, after it was proposed
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from guardagent.policy.evaluation.history_index import Term
from guardagent.policy.evaluation.library import CompileError
from guardagent.policy.evaluation.term_text import is_shown
from guardagent.policy.evaluation.terms import Compiler
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.language import ast
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.language.parser import read_term

ARGS = "args"
ROLES = ("user", "assistant", "tool", "system")
_CONVERSATION = re.compile(r"\s*(conversation|confirmation)\s*\(([^()]*)\)\s*")


@dataclass(frozen=True, slots=True)
class ExpressionSource:
    """A value that an expression gives.

    Attributes:
        tree: the expression.
        looks_back: whether it looks at calls of the history, and so may depend on how those in flight end.
        of_args: whether the proposed call's arguments alone decide it, which the agent chooses.
        argument: the argument that it is, where it is one as it stands.
        is_shown: whether the value may be shown: it is none of the state.
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
        roles: whose messages it may come from.
        confirmation: whether it is the user's yes to the call that was proposed.
    """

    roles: frozenset[str]
    confirmation: bool = False


Source = ExpressionSource | ConversationSource


def source_of(text: SourceText, compiler: Compiler, slot: int) -> Source:
    """The source that a text under `from:` names; `slot` is where the proposed call's arguments stand.

    Raises:
        ContentError: it does not parse, or names what there is not.
    """
    if match := _CONVERSATION.fullmatch(text.text):
        return _conversation_source(match[1], match[2], text)
    try:
        tree = read_term(text.text, {ARGS})
        term = compiler.term(tree, {ARGS: slot})
    except TemporalError as error:
        raise text.error(str(error), error.line, error.column) from None
    except CompileError as error:
        wrong = TemporalError(str(error), text.text, error.place.line, error.place.column)
        raise text.error(str(wrong), error.place.line, error.place.column) from None
    parts = list(ast.walk(tree))
    outside = (ast.State, ast.StateOf, ast.Fact, *ast.OF_HISTORY)
    return ExpressionSource(
        term,
        tree,
        reads_history=any(isinstance(part, ast.OF_HISTORY) for part in parts),
        from_args=not any(isinstance(part, outside) for part in parts)
        and any(isinstance(part, ast.Variable) and part.name == ARGS for part in parts),
        argument=tree.name if isinstance(tree, ast.Field) and isinstance(tree.body, ast.Variable) else None,
        is_shown=is_shown(tree),
    )


def _conversation_source(kind: str, inside: str, text: SourceText) -> ConversationSource:
    roles = [role.strip() for role in inside.split(",") if role.strip()]
    if kind == "confirmation":
        if roles:
            raise text.error("confirmation() takes nothing: it is the user's alone")
        return ConversationSource(frozenset({"user"}), confirmation=True)
    if not roles or not set(roles) <= set(ROLES):
        expected = f"conversation(ROLE, ...) with the roles whose messages may say it, of {', '.join(ROLES)}"
        raise text.error(f"{text.text.strip()!r} names no roles; expected {expected}")
    return ConversationSource(frozenset(roles))
