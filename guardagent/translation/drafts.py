"""One draft: the rules that a model wrote for some sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent.errors import AnswerError
from guardagent.policy.policies import Policies
from guardagent.policy.review.record import NeededFact
from guardagent.translation.context import TranslationContext

DECLARATIONS = ("tags", "labels", "counters", "constants", "define")


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """A rule with its grounds and its boundary cases.

    Attributes:
        id: the id in the policy file.
        rule: the keys of the policy without its id, as in a policy file: `temporal` or `solver`, `message`, ….
        quotes: the words of the document that it rests on, by the number of their sentence.
        cases: records of `check` with `id`, `label` and, for a violation, `rules`; or those of `audit`, which have
            `events` and are judged to their end. They judge this rule alone.
    """

    id: str
    rule: Mapping[str, Any]
    quotes: Mapping[int, str]
    cases: tuple[Mapping[str, Any], ...] = ()

    @property
    def sentences(self) -> tuple[int, ...]:
        """The numbers of the sentences that it rests on."""
        return tuple(sorted(self.quotes))

    @property
    def source(self) -> dict[str, Any]:
        """The policy as in a policy file."""
        return {"id": self.id, **self.rule}


def new_facts(facts: Iterable[NeededFact], known: Collection[str]) -> tuple[NeededFact, ...]:
    """Returns the facts of an answer that are not known.

    Raises:
        AnswerError: the name of a fact is blank, or has several lines.
    """
    facts = tuple(facts)
    if bad := [fact.name for fact in facts if not fact.name.strip() or not fact.name.isprintable()]:
        raise AnswerError(f"the name of a fact is {bad[0]!r:.60}; expected a name such as user_confirmed")
    return tuple(fact for fact in facts if fact.name not in known)


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """A sentence that can be read in several ways.

    Attributes:
        sentence: its number.
        question: the question to the owner of the document.
        readings: at least two readings in natural language.
        follows: the one of them that the rules of the draft follow; empty if its author does not say.
        otherwise: the rules by the other reading. Each replaces the rule of its id, or stands beside the others. Empty
            if the author does not say them.
    """

    sentence: int
    question: str
    readings: tuple[str, ...]
    follows: str = ""
    otherwise: tuple[RuleDraft, ...] = ()

    @property
    def other(self) -> str:
        """The first reading that the rules do not follow."""
        return next((reading for reading in self.readings if reading != self.follows), "")


@dataclass(frozen=True, slots=True)
class Draft:
    """One translation of some sentences.

    Attributes:
        sentences: the numbers of the sentences that were to be translated.
        rules: the rules.
        declarations: the keys `tags`, `labels`, `counters`, `constants` and `define` that the rules need.
        facts: facts that the host has to give and that are not in the context.
        declined: the sentences for which no rule can be written, with the reason.
        ambiguities: what the author of the draft could not decide.
        rulings: the answers that its author knew, by the keys of their rulings.
    """

    sentences: tuple[int, ...]
    rules: tuple[RuleDraft, ...] = ()
    declarations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: tuple[NeededFact, ...] = ()
    declined: Mapping[int, str] = field(default_factory=dict)
    ambiguities: tuple[Ambiguity, ...] = ()
    rulings: tuple[str, ...] = ()

    @property
    def mentioned(self) -> set[int]:
        """The numbers of the sentences that it says something about."""
        others = (rule for ambiguity in self.ambiguities for rule in ambiguity.otherwise)
        quoted = {number for rule in (*self.rules, *others) for number in rule.quotes}
        return quoted | {*self.declined, *(ambiguity.sentence for ambiguity in self.ambiguities)}

    def renumbered(self, numbers: Mapping[str, int]) -> Draft:
        """This draft with other numbers of its sentences, by the old ones."""

        def quoting(rules: Iterable[RuleDraft]) -> tuple[RuleDraft, ...]:
            return tuple(
                replace(rule, quotes={numbers[str(at)]: text for at, text in rule.quotes.items()}) for rule in rules
            )

        return replace(
            self,
            sentences=tuple(numbers[str(at)] for at in self.sentences),
            rules=quoting(self.rules),
            declined={numbers[str(at)]: reason for at, reason in self.declined.items()},
            ambiguities=tuple(
                replace(each, sentence=numbers[str(each.sentence)], otherwise=quoting(each.otherwise))
                for each in self.ambiguities
            ),
        )

    def switched(self, ambiguity: Ambiguity) -> Draft:
        """This draft by the other reading of one of its ambiguities; the rules so far become its `otherwise`."""
        others = {rule.id: rule for rule in ambiguity.otherwise}
        own = {rule.id: rule for rule in self.rules}
        rules = {**own, **others}
        rules = {name: rule for name, rule in rules.items() if rule.rule}
        back = tuple(own.get(name, RuleDraft(name, {}, rule.quotes)) for name, rule in others.items())
        switched = replace(ambiguity, follows=ambiguity.other, otherwise=back)
        ambiguities = tuple(switched if each == ambiguity else each for each in self.ambiguities)
        return replace(self, rules=tuple(rules.values()), ambiguities=ambiguities)

    def content(self, context: TranslationContext, only: Iterable[str] | None = None) -> dict[str, Any]:
        """The content of a policy file with the rules of this draft, or only those with the given ids.

        Declarations other than `DECLARATIONS`, such as `toolbox`, are not part of it.
        """
        wanted = None if only is None else set(only)
        rules = [rule.source for rule in self.rules if wanted is None or rule.id in wanted]
        return {
            **context.frame,
            **{name: dict(self.declarations[name]) for name in DECLARATIONS if self.declarations.get(name)},
            "policies": rules,
        }

    def policies(self, context: TranslationContext, only: Iterable[str] | None = None) -> Policies:
        """Loads the rules.

        Raises:
            InputError: a rule or a declaration is invalid; the message has the path of keys.
        """
        return context.load(self.content(context, only))


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a draft, for its author and then for the reviewer.

    Attributes:
        kind: a short name, such as `syntax`, `case`, `mutant`.
        message: what is wrong and what was expected, in one or two sentences that a model can act on.
        rule: the id of the rule; empty if it concerns none.
        sentences: the numbers of the sentences concerned.
        example: a call or case that shows it.
        fatal: whether the draft cannot be used with it.
        others: the ids of other rules that are part of it.
    """

    kind: str
    message: str
    rule: str = ""
    sentences: tuple[int, ...] = ()
    example: str = ""
    fatal: bool = False
    others: tuple[str, ...] = ()
