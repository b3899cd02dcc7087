"""Records the outputs, messages and facts of one session, and looks values up in them.

The strings that a session has seen lie in a hash index, bounded by bytes, each with its origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

from guardagent.policy.evaluation.history_query import PastCall
from guardagent.policy.language.values import StringSet, Truth, Unknown, kind_of, shown
from guardagent.policy.provenance import prose, readers
from guardagent.policy.provenance.amounts import MIN_LENGTH, SHORT, amount_keys, is_telling, number_key, opposite
from guardagent.policy.provenance.tokens import Scanner, SourceToken, short_names, words_of

# --- the index

ENTRY = 170  # bytes of an entry besides its string
WIDE = 4  # bytes of a character, unless all are ASCII


class Origin:
    """The places where a string was recorded.

    Attributes:
        labels: its labels.
        possible: labels that it may have.
        places: (labels, the place) for each place that added some.
    """

    __slots__ = ("labels", "places", "possible")

    def __init__(self, labels: int, places: tuple[tuple[int, str], ...], possible: int = 0) -> None:
        self.labels, self.places, self.possible = labels, places, possible

    def adds_to(self, other: Origin) -> bool:
        """Whether it has a label that the other one lacks."""
        return bool(self.labels & ~other.labels or self.possible & ~(other.possible | other.labels))

    def merged(self, other: Origin) -> Origin:
        added = (other.labels | other.possible) & ~self.labels
        new = tuple((labels & added, place) for labels, place in other.places if labels & added)
        return Origin(self.labels | other.labels, self.places + new, self.possible | other.possible)


class SourceIndex:
    """The seen strings of one session. Copies share their content until one of them changes.

    Args:
        limit: the maximum number of bytes.

    Attributes:
        labels: all labels that its strings have, or may have.
    """

    __slots__ = ("_bytes", "_limit", "_origins", "_shared", "labels")

    def __init__(self, limit: int) -> None:
        self._limit, self._bytes, self._shared, self.labels = limit, 0, False, 0
        self._origins: dict[str, Origin] = {}

    def copied(self) -> SourceIndex:
        copy = SourceIndex(self._limit)
        copy._origins, copy._bytes, copy.labels = self._origins, self._bytes, self.labels
        copy._shared = self._shared = True
        return copy

    def find(self, key: str) -> Origin | None:
        return self._origins.get(key)

    def has(self, key: str) -> bool:
        return key in self._origins

    def has_room(self, characters: int) -> bool:
        """Whether that many characters may still fit."""
        return self._bytes + characters <= self._limit

    def add(self, keys: set[str], origin: Origin) -> bool:
        """Adds strings with an origin; returns whether they fit. Otherwise only known ones get the new labels."""
        if self._shared:
            self._origins, self._shared = dict(self._origins), False
        self.labels |= origin.labels | origin.possible
        origins = self._origins
        known = origins.keys() & keys
        new = keys - known if known else keys
        text = "".join(new)
        size = len(text) * (1 if text.isascii() else WIDE) + ENTRY * len(new)
        fits = self._bytes + size <= self._limit
        if fits:
            self._bytes += size
            origins.update(dict.fromkeys(new, origin))
        self._merge(known, origin)
        return fits

    def _merge(self, known: Iterable[str], origin: Origin) -> None:
        origins = self._origins
        merged: dict[Origin, Origin] = {}
        for key in known:
            before = origins[key]
            if origin.adds_to(before):
                if before not in merged:
                    merged[before] = before.merged(origin)
                origins[key] = merged[before]


# --- the recorder

LIMIT = 16_000_000  # bytes of the index of one session
MODEL_BIT = 1  # of the label `model`
LONGEST_MESSAGE = 20_000  # characters of a message whose phrases are recorded
LONGEST_PHRASES = 200_000  # characters of all of them
_ORIGINS = 5  # of one value in evidence
_REMEMBERED, _MOST_REMEMBERED = 2000, 1000  # characters of a string, and strings


class Surroundings(Protocol):
    """The parts of a session that are read at a lookup."""

    @property
    def facts(self) -> Mapping[str, Any]: ...

    @property
    def in_flight(self) -> Sequence[PastCall]: ...


class _Gap(NamedTuple):
    """Something that was not recorded.

    Attributes:
        labels: the labels that it may have.
        why: the reason.
        lasting: whether it concerns seen values too; the output of a call in flight concerns unseen ones only.
    """

    labels: int
    why: str
    lasting: bool = True


@dataclass(slots=True)
class _Lookup:
    """The result of a lookup.

    Attributes:
        labels: the labels that the value has.
        possible: labels that it may have.
        causes: why others are possible.
    """

    labels: int = 0
    possible: int = 0
    causes: dict[str, None] | None = None

    def add_possible(self, labels: int, why: str) -> None:
        if labels:
            self.possible |= labels
            self.causes = {**(self.causes or {}), why: None}


class SourceRecorder:
    """The seen values of one session.

    Args:
        declared: the labels.
        limit: the maximum size of the index in bytes.
    """

    def __init__(self, declared: readers.DeclaredLabels, limit: int = LIMIT) -> None:
        self.declared, self.limit = declared, limit
        self._scanner = _scanner(declared.ids)
        self._index = SourceIndex(limit)
        self._reader = readers.MessageReader(readers.HOST_ROLES | declared.roles.keys())
        self._pending: list[readers.HostMessage] = []  # messages since the last call
        self._seen = 0  # the labels of recorded outputs and messages
        self._maybe_seen = 0
        self._lost: dict[str, int] = {}  # why something was not recorded -> the labels that it may have
        self._unread = ""  # why the messages cannot be read now
        self._phrases: list[tuple[str, Origin]] = []  # the words of labelled messages
        self._longest_phrase = 0
        self._prose: list[tuple[list[str], Origin]] = []  # labelled outputs whose runs of words are not recorded yet
        self._prose_size, self._has_runs = 0, False
        self._facts: tuple[Any, SourceIndex] | None = None
        self._memo: dict[str, StringSet] = {}  # the labels of strings that were looked up
        self._memo_facts: Any = None

    def copied(self) -> SourceRecorder:
        copy = SourceRecorder(self.declared, self.limit)
        copy._index, copy._reader, copy._pending = self._index.copied(), self._reader.copied(), list(self._pending)
        copy._seen, copy._maybe_seen, copy._lost, copy._unread = (
            self._seen,
            self._maybe_seen,
            dict(self._lost),
            self._unread,
        )
        copy._phrases, copy._prose = list(self._phrases), list(self._prose)
        copy._longest_phrase, copy._prose_size, copy._has_runs = self._longest_phrase, self._prose_size, self._has_runs
        return copy

    # --- messages

    def read_messages(self, source: Any) -> None:
        """Records the new messages of the host."""
        try:
            messages = source() if callable(source) else source
            if not self._unread and (not messages or self._reader.is_current(messages)):
                return
            new = self._reader.news(messages) if messages else []
            self._unread = ""
        except Exception as error:  # noqa: BLE001 - a host's source may raise anything
            expected = "expected mappings with 'role' and 'content'"
            self._unread = f"the messages cannot be read ({type(error).__name__}); {expected}"
            self._memo = {}
            return
        if new:
            self._pending += new
            self._record_messages(new)

    def _record_messages(self, messages: Iterable[readers.HostMessage]) -> None:
        for message in messages:
            labels = self.declared.roles.get(message.role, 0)
            place = f"a message of the role '{message.role}'"
            keys = self._scanner.recorded([message.text])
            if message.certain:
                self._seen |= labels
                origin = Origin(labels, ((labels, place),))
            else:
                self._maybe_seen |= labels
                origin = Origin(0, ((labels, f"{place} that the host inserted or changed"),), labels)
            if labels and len(message.text) <= LONGEST_MESSAGE:
                keys |= short_names(message.text)
                self._add_phrases(words_of(message.text), origin)
            self._add(keys, origin)

    def _add_phrases(self, words: str, origin: Origin) -> None:
        if len(words) + sum(len(known) for known, _ in self._phrases) <= LONGEST_PHRASES:
            self._phrases.append((words, origin))
            self._longest_phrase = max(self._longest_phrase, 4 * len(words))  # a text can be longer than its words

    # --- calls

    def reserved(self, call: PastCall, session: Surroundings) -> Mapping[str, Any] | None:
        """Returns what a call in flight keeps: the new messages, and the labels that its arguments pass on."""
        passing, kept = self.declared.passing, {}
        if passing:
            sources = self._look_up(call.args, session)
            kept = {"labels": sources.labels & passing, "possible": sources.possible & passing & ~sources.labels}
        if self._pending:
            kept |= self.dumped()
            self._pending = []
        return kept or None

    def forgotten(self, call: PastCall) -> None:
        """Takes back the messages of a call that is removed."""
        self._pending = [*_messages_of(call.provenance), *self._pending]

    def restored(self, call: PastCall) -> None:
        """Records the messages that a call of another process kept."""
        self._restore(call.provenance)

    def dumped(self) -> dict[str, Any]:
        """The messages since the last call, as JSON. Everything else is in the calls."""
        return {"messages": [list(message) for message in self._pending], "place": self._reader.dumped()}

    def loaded(self, data: Any) -> None:
        """Restores the result of `dumped`, after the calls."""
        self._restore(data)
        self._pending = _messages_of(data)

    def _restore(self, kept: Any) -> None:
        if kept and "messages" in kept:
            messages = _messages_of(kept)
            self._reader.loaded(kept["place"], messages)
            self._record_messages(messages)

    def record(self, call: PastCall, session: Surroundings) -> None:
        """Records the output of a call whose outcome is known."""
        declared = self.declared.paths_of(call.tool)
        raised, maybe = _raised(call)
        whole = raised
        for path, labels, when in declared:
            whole |= 0 if path or when else labels
        parts = [part for part in declared if part[0] or part[2]]
        self._seen |= whole
        self._maybe_seen |= maybe
        reader = readers.LeafReader()
        of_items = partial(self._of_item, session)
        labelled = [(path, partial(of_items, when, bits) if when else bits) for path, bits, when in parts]
        reader.read(call.output, whole, labelled)
        missing = 0 if call.output is None else maybe
        for at, (_, labels, _) in enumerate(parts):
            if at in reader.found_labels:
                surely, perhaps = self._split(reader.found_labels[at])
                self._seen |= surely
                self._maybe_seen |= perhaps
            else:
                missing |= labels
        self._maybe_seen |= missing
        every = whole | missing | self.declared.of_tool(call.tool)
        if not reader.complete:
            self._lose(f"the output of '{call.tool}' (call {call.place}) cannot be read", every)
        self._record_leaves(call, reader, whole, missing, every)

    def _of_item(self, session: Surroundings, when: readers.LabelCondition, labels: int, item: Any) -> int:
        """The labels of an item; those that it may have are in the bits above all labels."""
        holds = when.holds(session, item)
        return (labels if holds else 0) if type(holds) is bool else labels << len(self.declared.names)

    def _split(self, labels: int) -> tuple[int, int]:
        """(certain, possible) labels of the leaves of an output."""
        size = len(self.declared.names)
        certain = labels & (1 << size) - 1
        return certain, labels >> size & ~certain

    def _record_leaves(self, call: PastCall, reader: readers.LeafReader, whole: int, missing: int, every: int) -> None:
        place = f"'{call.tool}' (call {call.place})"
        if not self._index.has_room(self._prose_size + sum(leaves.size for leaves in reader.by_labels.values())):
            self._lose(_too_much(self.limit), every)
            return
        echo = self._echo(call, whole)
        doubtful: set[str] = set()
        for labels, leaves in reader.by_labels.items():
            keys = self._keys(leaves)
            certain, perhaps = self._split(labels)
            if echo and (not certain or call.status != "ok"):
                doubtful |= keys & echo if labels else set()
                keys -= echo
            origins = [Origin(certain, ((certain, place),))]
            if perhaps:
                origins.append(Origin(0, ((perhaps, f"{place}, where the 'when' of a label is unknown"),), perhaps))
            if missing:
                origins.append(Origin(0, ((missing, f"{place}, which lacks a labelled field"),), missing))
            for origin in origins:
                self._add(keys, origin)
                self._keep_prose(leaves.strings, origin)
        if doubtful:
            self._add(doubtful, Origin(0, ((every, f"{place}, which repeats its argument"),), every))

    def _keep_prose(self, texts: list[str], origin: Origin) -> None:
        """Keeps texts whose runs of words are recorded at the first lookup that needs them."""
        kept = [text for text in texts if len(text) > prose.SHORTEST] if origin.labels | origin.possible else []
        if kept:
            self._prose.append((kept, origin))
            self._prose_size += sum(map(len, kept))

    def _echo(self, call: PastCall, whole: int) -> set[str]:
        """The strings of a call's arguments that only the model had written before the call.

        An output that merely repeats them has not seen them, unless a label says that the tool knows.
        """
        if whole and call.status == "ok":
            return set()
        reader = readers.LeafReader()
        reader.read(call.args)
        keys = {key for leaves in reader.by_labels.values() for key in self._keys(leaves)}
        return {key for key in keys if self._index.find(key) is None}

    def _keys(self, leaves: readers.Leaves) -> set[str]:
        keys = self._scanner.recorded(leaves.strings) if leaves.strings else set()
        if names := [name for name in leaves.names if not name.isidentifier()]:
            keys |= self._scanner.recorded(names)
        keys |= leaves.numbers
        keys.discard("")
        return keys

    def _add(self, keys: set[str], origin: Origin) -> None:
        self._memo = {}
        if keys and not self._index.add(keys, origin):
            self._lose(_too_much(self.limit), origin.labels | origin.possible)

    def _lose(self, why: str, labels: int) -> None:
        self._memo = {}
        self._lost[why] = self._lost.get(why, 0) | labels

    # --- lookups

    def sources(self, value: Any, session: Surroundings) -> StringSet | Unknown:
        """The labels of the places that a value came from."""
        if type(value) is str and not session.in_flight and session.facts is self._memo_facts:
            known = self._memo.get(value)
            if known is not None:
                return known
        if type(value) is Unknown:
            return value
        sources = self._look_up(value, session)
        certain = self.declared.set_of(sources.labels)
        if type(value) is str and len(value) <= _REMEMBERED and not sources.possible and not session.in_flight:
            self._remember(value, certain, session.facts)
        if not sources.possible & ~sources.labels:
            return certain
        return Unknown(
            *(sources.causes or ()), bounds=(certain, self.declared.set_of(sources.labels | sources.possible))
        )

    def lacks(self, label: Any, session: Surroundings) -> bool:
        """Whether surely no value has a label, because nothing that was recorded has it."""
        if self._index.labels & self.declared.bit_of.get(label, -1):
            return False
        return label in self.declared.sources and not self._has_gaps(session)

    def _remember(self, value: str, labels: StringSet, facts: Any) -> None:
        """Keeps the labels of a string until something is recorded, or the facts change."""
        if facts is not self._memo_facts or len(self._memo) >= _MOST_REMEMBERED:
            self._memo, self._memo_facts = {}, facts
        self._memo[value] = labels

    def seen(self, labels: Sequence[str], session: Surroundings) -> Truth:
        """Whether an output or a message with one of these labels is in the conversation."""
        wanted = self.declared.bits(labels)
        if self._seen & wanted:
            return True
        for gap in self._gaps(session):
            if gap.labels & wanted:
                return Unknown(gap.why)
        if self._maybe_seen & wanted:
            return Unknown("a label of an output is uncertain, or a message was inserted or changed")
        known = [labels for path, labels in self.declared.facts.items() if _fact(session.facts, path) is not None]
        return any(labels & wanted for labels in known)

    def _look_up(self, value: Any, session: Surroundings | None) -> _Lookup:
        lookup = _Lookup()
        if self._prose:
            texts, self._prose, self._prose_size = self._prose, [], 0
            for strings, origin in texts:
                runs = {run for text in strings for run in self._scanner.runs(text)}
                self._has_runs = self._has_runs or bool(runs)
                self._add(runs, origin)
        gaps = list(self._gaps(session)) if self._has_gaps(session) else []
        indexes = self._indexes(session)
        if type(value) is str and value.lstrip()[:1] not in ("{", "["):  # the common case
            self._look_up_text(value, lookup, indexes, gaps, alone=True)
            return lookup
        if kind_of(value) == "number":
            self._look_up_number((number_key(value),), lookup, indexes, gaps, alone=True)
            return lookup
        reader = readers.LeafReader()
        reader.read(value)
        if not reader.complete or reader.opaque:
            lookup.add_possible(self.declared.bits(self.declared.names), "a value is not a JSON value")
        for leaves in reader.by_labels.values():
            for text in leaves.strings:
                self._look_up_text(text, lookup, indexes, gaps)
            for name in leaves.names:
                self._look_up_text(name, lookup, indexes, gaps, name=True)
            for number in leaves.numbers:
                self._look_up_number((number,), lookup, indexes, gaps)
        return lookup

    def _look_up_number(
        self,
        keys: Sequence[str],
        lookup: _Lookup,
        indexes: Sequence[SourceIndex],
        gaps: Sequence[_Gap],
        *,
        alone: bool = False,
    ) -> None:
        """Looks up a number that is a whole value; a short one counts fully only if a rule asks for it alone."""
        keys = [key for key in keys if key and (alone or is_telling(key))]
        if keys:
            identifies = alone or keys[0][0] != SHORT
            token = SourceToken(tuple(keys), identifies=identifies, within=tuple(map(opposite, keys)))
            self._look_up_token(token, lookup, indexes, gaps)

    def _look_up_text(
        self,
        text: str,
        lookup: _Lookup,
        indexes: Sequence[SourceIndex],
        gaps: Sequence[_Gap],
        *,
        name: bool = False,
        alone: bool = False,
    ) -> None:
        reading = self._scanner.read(text)
        if not name:
            origins = [*_origins(reading.keys, indexes), *self._of_phrases(text)]
            if origins or reading.keys:
                _take(origins, lookup, gaps)
            if self._has_runs and len(text) > prose.SHORTEST:
                for origin in set(_origins(self._scanner.sought_runs(text, self._index.has), indexes)):
                    why = f"a text repeats words of {origin.places[0][1]}"
                    lookup.add_possible(origin.labels | origin.possible, why)
            if amount := amount_keys(text):
                self._look_up_number(amount, lookup, indexes, gaps, alone=alone)
                return
        for token in reading.tokens:
            self._look_up_token(token, lookup, indexes, gaps)

    def _of_phrases(self, text: str) -> list[Origin]:
        """The origins of a text that is a run of words of a message."""
        if len(text) > self._longest_phrase:
            return []
        words = words_of(text)
        if len(words) - 2 < MIN_LENGTH:
            return _origins([SHORT + words], [self._index])
        return [origin for message, origin in self._phrases if words in message]

    def _look_up_token(
        self, token: SourceToken, lookup: _Lookup, indexes: Sequence[SourceIndex], gaps: Sequence[_Gap]
    ) -> None:
        for origin in _origins(token.within, indexes):
            lookup.add_possible(origin.labels | origin.possible, "an address, a path or a word contains a known value")
        if _take(_origins(token.readings, indexes), lookup, gaps):
            for part in token.parts:
                _take(_origins(part.readings, indexes), lookup, ())
            return
        for origin in _origins(token.near, indexes):
            lookup.add_possible(origin.labels | origin.possible, "a host belongs to a known domain, but is not known")
        if token.parts:
            for part in token.parts:
                self._look_up_token(part, lookup, indexes, gaps)
        elif token.identifies and not gaps:
            lookup.labels |= MODEL_BIT
        elif token.identifies:
            lookup.add_possible(MODEL_BIT, gaps[0].why)

    def _has_gaps(self, session: Surroundings | None) -> bool:
        return bool(self._lost or self._unread or (session is not None and (session.in_flight or self.declared.facts)))

    def _gaps(self, session: Surroundings | None) -> Iterator[_Gap]:
        """Everything that was not recorded, or not yet."""
        for why, labels in self._lost.items():
            yield _Gap(labels, why)
        if self._unread:
            labels = 0
            for of_role in self.declared.roles.values():
                labels |= of_role
            yield _Gap(labels, self._unread)
        if session is None:
            return
        for call in session.in_flight:
            raised, maybe = _raised(call)
            labels = self.declared.of_tool(call.tool) | raised | maybe
            yield _Gap(labels, f"the output of '{call.tool}' (call {call.place}) is not recorded yet", lasting=False)
        for path, labels in self.declared.facts.items():
            if _fact(session.facts, path) is None:
                yield _Gap(labels, f"the fact '{'.'.join(path)}' is unknown")

    def _of_facts(self, facts: Mapping[str, Any]) -> SourceIndex:
        """The index of the labelled facts, as they are now."""
        if self._facts is None or self._facts[0] is not facts:
            index = SourceIndex(self.limit)
            for path, labels in self.declared.facts.items():
                reader = readers.LeafReader()
                reader.read(_fact(facts, path))
                for leaves in reader.by_labels.values():
                    index.add(self._keys(leaves), Origin(labels, ((labels, f"the fact '{'.'.join(path)}'"),)))
            self._facts = facts, index
        return self._facts[1]

    # --- evidence

    def origins(self, value: Any, session: Surroundings) -> list[dict[str, Any]]:
        """The labelled strings in a value, each with its labels and the places that it came from."""
        reader = readers.LeafReader()
        reader.read(value)
        texts = [text for leaves in reader.by_labels.values() for text in (*leaves.strings, *leaves.names)]
        texts += [number for leaves in reader.by_labels.values() for number in leaves.numbers if is_telling(number)]
        indexes = self._indexes(session)
        origins: dict[str, dict[str, Any]] = {}
        for text in texts:
            reading = self._scanner.read(text)
            for keys in (reading.keys, *(token.readings for token in reading.tokens), amount_keys(text)):
                for origin in _origins(keys, indexes):
                    if origin.labels and len(origins) < _ORIGINS:
                        value_text = shown(text if keys == reading.keys else keys[0].lstrip(SHORT))
                        labels = sorted(self.declared.set_of(origin.labels))
                        places = list(dict.fromkeys(place for bits, place in origin.places if bits & origin.labels))
                        origins.setdefault(value_text, {"value": value_text, "labels": labels, "from": places})
        return list(origins.values())

    def _indexes(self, session: Surroundings | None) -> list[SourceIndex]:
        if session is None or not self.declared.facts:
            return [self._index]
        return [self._index, self._of_facts(session.facts)]


def _origins(keys: Iterable[str], indexes: Sequence[SourceIndex]) -> list[Origin]:
    return [origin for key in keys for index in indexes if (origin := index.find(key)) is not None]


def _take(origins: Sequence[Origin], lookup: _Lookup, gaps: Sequence[_Gap]) -> bool:
    """Adds the labels of the origins of a string; returns whether it was seen."""
    for origin in origins:
        lookup.labels |= origin.labels
        if origin.possible:
            lookup.add_possible(origin.possible, f"a value occurs in {origin.places[-1][1]}")
    for gap in gaps:
        if gap.lasting or not origins:
            lookup.add_possible(gap.labels, gap.why)
    return bool(origins)


def _raised(call: PastCall) -> tuple[int, int]:
    """The labels that a call's arguments pass on to its output: (known, possible)."""
    kept = call.provenance
    return (kept["labels"], kept["possible"]) if kept and "labels" in kept else (0, 0)


def _messages_of(kept: Any) -> list[readers.HostMessage]:
    return [readers.HostMessage(*message) for message in (kept or {}).get("messages", ())]


def _fact(facts: Any, path: Sequence[str]) -> Any:
    for name in path:
        facts = facts.get(name) if kind_of(facts) == "mapping" else None
    return facts


def _too_much(limit: int) -> str:
    return (
        f"the session has seen more values than {limit:,} bytes hold; raise 'provenance_bytes', "
        "or start a new conversation"
    )


@cache
def _scanner(ids: tuple[str, ...]) -> Scanner:
    return Scanner(ids)
