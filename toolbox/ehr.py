"""Tell from its syntax tree which databases and columns a piece of EHRAgent code reads.

The code is interpreted, never run, over sets of possible atoms: a text (with a placeholder for what is data, another
for what cannot be followed), an integer, None (any other value that is no text), a table, a container, a function, a
tool. Branches are joined, loops repeated until nothing changes. What cannot be told raises ValueError.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import re
import textwrap
import unicodedata
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_Value = frozenset[Any]
_Env = dict[str, _Value]


class _Part(NamedTuple):
    name: str
    columns: frozenset[str] | None = None  # None: all there are
    made: frozenset[str] = frozenset()  # put in by the code itself


class _Table(NamedTuple):
    parts: tuple[_Part, ...]
    shape: str = "frame"  # or row, loc, iloc, groups, iterrows, itertuples


class _Tool(NamedTuple):
    name: str


class _Func(NamedTuple):
    node: Any
    frame: _Frame
    defaults: tuple[tuple[str, _Value], ...]


class _Args(NamedTuple):
    plain: list[_Value]
    named: _Env

    def all(self) -> _Value:
        return _NONE.union(*self.plain, *self.named.values())


class _Box(NamedTuple):
    """A list, tuple, set or dict as it was made; what is put into it later is kept by its site."""

    site: Any
    items: tuple[_Value, ...]
    keys: tuple[Any, ...] | None = None  # of a dict
    sure: bool = True  # whether each item is there, in this order


@dataclass(eq=False)
class _Frame:
    """The names of one call, comprehension or module."""

    parent: _Frame | None
    env: _Env
    inner: bool = False  # of a comprehension
    alive: bool = True
    outer: dict[str, _Frame] = field(default_factory=dict)  # whose the names declared global or nonlocal are
    caught: list[_Env] = field(default_factory=list)  # all that is bound within each try and loop around
    returned: set[Any] = field(default_factory=set)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LIMIT, _BUDGET, _LONGEST, _WIDEST, _TURNS = 200_000, 200_000, 10_000, 64, 12
_DATA, _MURKY = "\u2370", "\u2327"  # printable, so that repr keeps them
_NONE: _Value = frozenset()
_SOME, _UNKNOWN = frozenset({_DATA}), frozenset({_MURKY})
_PLAIN: _Value = frozenset({None})
_VAGUE: _Value = frozenset({None, _DATA, _MURKY})  # keys that are not known
_HEADER = re.compile(
    r"(?im)^[ \t]*(?:(?:(?:generated )?code|solution)\s*:|(answer|knowledge|question|error)\s*:[ \t]*$)"
)
_TAIL = re.compile(r"(?m)^[ \t]*(?:Answer|Error|Knowledge|Question)[ \t]*:")
_FENCE = re.compile(r"(?m)^[ \t]*(?:```.*|TERMINATE[ \t]*)$")
_CELL = re.compile(r'"cell"\s*:\s*"((?:[^"\\]|\\.)*)"')
_CALL = re.compile(r"\b(?:LoadDB|FilterDB|GetValue|SQLInterpreter)\s*\(")
_ESCAPE = re.compile(r"(?s)\\(?:u([0-9a-fA-F]{4})|(.))")
_OPERATOR = re.compile(r">=|<=|>|<|=|\s(?:not\s+)?in\s")
_EXTREME = re.compile(r"\s*(?:max|min)\s*\(([^)]*)\)?\s*")
_QUERY = re.compile(
    r"'[^']*'|\"[^\"]*\"|[@.]\s*\w+|\b(?:and|or|not|in|True|False|None)\b|`([^`]*)`|\b([^\W\d]\w*)|(\W)"
)
_SPEC = re.compile(r"(?:s|[<>^]?[-+ ]?0?\d*[,_]?(?:\.\d+)?[deEfFgGn%]?|(?:%[a-zA-Z]|[-/: ])+)")
_FIELD = re.compile(r"\{(\w*)(?:![sr])?(?::" + _SPEC.pattern + r")?\}")
_PERCENT = re.compile(r"%[-+ 0#]*\d*(?:\.\d+)?[difeEgGs]")
_BAD_FIELD = re.compile(r"\{[^{}]*[^\w{}]|%(?:\(\w*\))?[^(s%]")
_SQL = re.compile(r"(?s)'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?(?:\*/|$)|(.?" + _DATA + ".?)")
_JOINT = re.compile(rf"[\w.$`\"\]']{_DATA}|{_DATA}[\w.$`\"\[(']")
_FORBIDDEN = re.compile(  # members of modules that read files, run code or make texts out of numbers
    r"_.*|read_.*|load|loadtxt|genfromtxt|from(file|regex)|(open_)?memmap|DataSource|ExcelFile|HDFStore|eval|sys|os|io|"
    r"codecs|enum|builtins|importlib|subprocess|core|lib|compat|testing|util|ctypeslib|f2py|char|strings|rec|chararray|"
    r"base_repr|get_type_hints|ForwardRef|attrgetter|methodcaller|types|tool|argparse|inspect|tzfile|contextlib"
)
_NUMERIC = re.compile(
    r"int|float|abs|round|any|all|ord|range|(datetime|time|dateutil|pandas|decimal|fractions)\.(.*\.)?(strptime|parse|"
    r"timedelta|fromisoformat|relativedelta|Decimal|Fraction|to_(datetime|numeric|timedelta)|Timestamp|Timedelta|DateOffset)"
)
_MUTATING = re.compile(r"(operator|functools|random|collections)\..*|.*\.shuffle")
_MODULES = _words(
    "datetime time math statistics collections itertools functools operator re json calendar string typing decimal"
    " fractions random dateutil numpy pandas __future__"
)
_ACCESSORS = _words("LoadDB FilterDB GetValue SQLInterpreter")
_BANNED = _words("eval exec compile getattr setattr delattr globals locals vars __import__ open input breakpoint")
_MOVERS: dict[str, Callable[..., Iterable[Any]]] = {
    **{"zip": zip, "enumerate": enumerate, "reversed": reversed, "itertools.chain": itertools.chain},
    **dict.fromkeys(_words("list tuple iter collections.deque set frozenset sorted"), list),
}
_TOOLS = {
    **{name: name.lower() for name in _ACCESSORS | _words("str print map filter")},
    **dict.fromkeys(_words("Calculate Calendar"), "oracle"),
    **dict.fromkeys(_words("len bool isinstance type callable id"), "look"),
    **dict.fromkeys(_words("max min next random.choice"), "pick"),
    **dict.fromkeys(_words("dict collections.OrderedDict collections.Counter collections.defaultdict"), "dict"),
    **dict.fromkeys(_words("time.strftime datetime.datetime.strftime datetime.date.strftime"), "strftime"),
    **{"pandas.merge": "merge", "pandas.concat": "concat"},
}
_BUILTINS = {
    name: frozenset({_Tool(name)})
    for name in {*_TOOLS, *_MOVERS, *_BANNED} | _words("int float abs round any all ord range sum chr bytes bytearray")
    if "." not in name
}
_PURE = _words(
    "lower upper strip lstrip rstrip title capitalize removeprefix removesuffix replace split rsplit splitlines"
)
_KEEPS = _words("split rsplit strip lstrip rstrip find index count sort_values groupby str astype total_seconds")
_BOOLEAN = _words(
    "isin contains startswith endswith match fullmatch between isna isnull notna notnull eq ne gt lt ge le"
)
_GROWING = _words("append add insert extend update setdefault appendleft extendleft remove discard clear sort reverse")
_SAME = _words(
    "head tail copy reset_index dropna fillna ffill bfill sort_index sample drop astype round abs convert_dtypes nth"
    " infer_objects get_group squeeze rolling expanding resample where mask clip isnull isna notnull notna shift diff"
    " cumsum rank reindex sort_values nlargest nsmallest set_index drop_duplicates explode pivot pivot_table melt"
    " assign rename replace"
)
_TOTALS = _words("sum mean median max min std var count nunique mode idxmax idxmin quantile first last agg aggregate")
_BY = dict.fromkeys(_words("sort_values groupby set_index drop_duplicates duplicated value_counts explode get pop"), 0)
_BY |= {"nlargest": 1, "nsmallest": 1}
_BY_NAME = _words("by subset on left_on right_on columns keys index values column id_vars value_vars")


def columns_read(code: str, schema: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
    """Return which columns of which databases EHRAgent code, or a log with such code in it, reads.

    Args:
        code: The code, or a log with "Generated code:" sections, fenced blocks or "cell" texts. All attempts count.
        schema: The columns that each database is known to have. It tells whose a column of joined tables is.

    Returns:
        The columns by database, sorted; "*" stands for every column, an empty list for a database loaded, not read.

    Raises:
        ValueError: It cannot be told what the code reads.
    """
    if len(code) > _LIMIT:
        raise ValueError(f"the text is longer than {_LIMIT} characters")
    reader = _Reader(schema or {})
    try:
        _read_log(code, reader)
    except (RecursionError, MemoryError):
        raise ValueError("the code is nested too deeply to follow") from None
    return {name: sorted(reader.found[name]) for name in sorted(reader.found)}


def _read_log(text: str, reader: _Reader) -> None:
    sections = [(part, is_code, _readings(part) if is_code else []) for part, is_code in _sections(text)]
    broken = any(is_code and not readings for _, is_code, readings in sections)
    for part, is_code, readings in sections:
        named = _names(part) if is_code or broken else _CALL.search(part)
        if named and not is_code:  # calls in the text around the code
            readings += _readings(part)
        if named and (not readings or ((broken or not is_code) and any(_hides(*reading) for reading in readings))):
            raise ValueError("what calls the databases here cannot be read as code")
        reader.program([tree for _, tree in readings])


def _sections(text: str) -> list[tuple[str, bool]]:
    """Cut a log into sections, and say of each whether it is code."""
    headers = [*_HEADER.finditer(text)]
    if not all(header[1] for header in headers):
        ends = [header.start() for header in headers[1:]] + [len(text)]
        parts = [(text[header.end() : end], not header[1]) for header, end in zip(headers, ends, strict=True)]
        return [(text[: headers[0].start()], False), *parts]
    chunks = re.split(r"(?m)^[ \t]*```.*$", text)
    if len(chunks) == 1:
        chunks = _CELL.split(text)
    return [(chunk, len(chunks) == 1 or place % 2 == 1) for place, chunk in enumerate(chunks)]


def _readings(text: str) -> list[tuple[str, ast.Module]]:
    """Return all that a section can be read as: its line ends, or all its quotes too, may be escaped."""
    texts = [text]
    if "\\" in text:
        texts += [text.replace("\\n", "\n").replace("\\t", "\t"), _ESCAPE.sub(_unescape, text)]
    tidy = [textwrap.dedent(one).strip() for each in texts for one in (each, _FENCE.sub("", each))]
    readings = [(one, tree) for one in dict.fromkeys(tidy) if (tree := _parse(one))]
    cut = None if readings else _TAIL.search(text)
    return _readings(text[: cut.start()]) if cut and not _names(text[cut.start() :]) else readings


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else {"n": "\n", "t": "\t", "r": "\r"}.get(match[2], match[2])


def _names(text: str) -> bool:
    return any(name in unicodedata.normalize("NFKC", text) for name in _ACCESSORS)


def _parse(text: str) -> ast.Module | None:
    with warnings.catch_warnings(), contextlib.suppress(SyntaxError, ValueError):
        warnings.simplefilter("ignore")
        return ast.parse(text)
    return None


def _hides(text: str, tree: ast.Module) -> bool:
    """Tell whether a text has calls of the accessors that are no calls in its tree."""
    funcs = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = sum(getattr(func, "id", getattr(func, "attr", "")) in _ACCESSORS for func in funcs)
    return calls != len(_CALL.findall(unicodedata.normalize("NFKC", text)))


def _tidy(text: str) -> str:
    return _MURKY if _MURKY in text or len(text) > _LONGEST else re.sub(f"{_DATA}+", _DATA, text)


def _joined(one: _Env, two: _Env) -> _Env:
    return one if one == two else {**two, **{name: value | two.get(name, _NONE) for name, value in one.items()}}


def _settled(old: _Env, new: _Env) -> _Env:
    """Give up on texts that still grow."""
    grown = {name: {x for x in new[name] - old.get(name, _NONE) if isinstance(x, str)} for name in new}
    return {name: (value - grown[name]) | _UNKNOWN if grown[name] else value for name, value in new.items()}


def _condition_columns(text: str) -> Iterator[str]:
    for command in filter(str.strip, text.split("||")):
        operator, extreme = _OPERATOR.search(command), _EXTREME.match(command)
        head = command[: operator.start()] if operator else command
        if extreme and extreme.end() >= len(head.rstrip()):
            head = extreme[1]
        head = head.strip(" \t\n'\"`[]()!~")
        yield head if head and (operator or re.fullmatch(r"\w+", head)) else _MURKY


def _value_columns(text: str) -> list[str]:
    parts = [part.strip(" \t\n'\"[]()") or _MURKY for part in text.split(",")]
    return parts[:-1] if len(parts) > 1 and parts[-1] in ("count", "mean", "max", "min", "sum", "list") else parts


def _starred(nodes: list[ast.expr]) -> bool:
    return any(isinstance(node, ast.Starred) for node in nodes)


def _with(atom: Any, names: Iterable[str]) -> Any:
    """Return a table with columns of the code's own making."""
    if not isinstance(atom, _Table):
        return atom
    made = frozenset(names)
    return atom._replace(parts=tuple(part._replace(made=part.made | made) for part in atom.parts))


def _literal(node: ast.expr) -> Any:
    """Return an index or a slice that is written out."""
    with contextlib.suppress(ValueError, TypeError):
        if isinstance(node, ast.Slice):
            return slice(*(part and ast.literal_eval(part) for part in (node.lower, node.upper, node.step)))
        return ast.literal_eval(node)
    return None


class _Reader:
    """Interprets programs and keeps what they read."""

    def __init__(self, schema: dict[str, list[str]]) -> None:
        self.schema = schema
        self.found: dict[str, set[str]] = {}
        self.stored: dict[Any, _Env] = {}  # what is put into containers, by site and key, None if not known
        self.frame = _Frame(None, {**_BUILTINS})
        self.path: tuple[Any, ...] = ()  # the calls and turns it is in
        self.active: list[Any] = []
        self.node: Any = ast.Pass(lineno=1)
        self.steps, self.changes, self.jumped, self.unbound = 0, 0, False, _SOME

    def program(self, trees: list[ast.Module]) -> None:
        """Interpret the readings of a section, each after all sections before."""
        start, ends = self.frame.env, [self.frame.env]
        for tree in trees:
            self.frame.env = {**start}
            *first, last = tree.body or [ast.Pass(lineno=1)]
            self.block(first)
            self.node = last
            if isinstance(last, ast.Expr):
                self.escape(self.value(last.value))
            else:
                self.block([last])
            self.escape(self.lookup("answer"))
            ends.append(self.frame.env)
        self.frame.env = functools.reduce(_joined, ends)

    def fail(self, why: str) -> NoReturn:
        raise ValueError(f"line {self.node.lineno}: {why}")

    def charge(self, work: int = 1) -> None:
        self.steps += work
        if self.steps > _BUDGET:
            self.fail("the code is too much work to follow")

    # What is read.

    def record(self, database: str, *columns: str) -> None:
        self.found.setdefault(database, set()).update(columns)

    def database(self, name: str) -> str:
        name = name.strip().lower()
        return next((known for known in self.schema if known.lower() == name), name)

    def read(self, table: _Table, column: str) -> None:
        if _DATA in column or _MURKY in column:
            self.fail("which column is read is only known at run time")
        parts = [part for part in table.parts if column not in part.made]
        able = [part for part in parts if part.columns is None or column in part.columns] or parts
        sure = [part for part in able if column in self.schema.get(part.name, ())]
        for part in sure if len(sure) == 1 else able:
            self.record(part.name, column)

    def escape(self, value: _Value) -> None:
        """Take it that all that a value holds gets out."""
        for table in self.leaves(value):
            for part in table.parts if isinstance(table, _Table) else ():
                if part.columns is None:
                    self.record(part.name, "*")
                for column in part.columns or ():
                    self.read(table, column)

    def leaves(self, *values: _Value) -> set[Any]:
        """Collect what values hold, however deep, with the keys."""
        atoms, out, seen = [atom for value in values for atom in value], set(), set()
        while atoms:
            self.charge()
            atom = atoms.pop()
            if not isinstance(atom, _Box):
                out.add(atom)
            elif atom not in seen:
                seen.add(atom)
                atoms += [*self.every(atom), *(atom.keys or ()), *self.stored.get(atom.site, ())]
        return out

    def opaque(self, *values: _Value) -> _Value:
        """Hand values to something unknown. What comes back is data, or cannot be followed if texts went in."""
        murky, atoms = False, self.leaves(*values)
        while atoms:
            atom = atoms.pop()
            self.escape(frozenset({atom}))
            if isinstance(atom, _Func):
                atoms |= self.leaves(self.repeat(atom, None))
            if isinstance(atom, _Tool) and atom.name in _ACCESSORS:
                self.fail(f"{atom.name} is handed to something that cannot be followed")
            murky |= isinstance(atom, _Tool) or (isinstance(atom, str) and atom != _DATA)
        return _UNKNOWN if murky else _SOME

    # Containers and texts.

    def put(self, box: _Box, keys: _Value, value: _Value) -> None:
        stored = self.stored.setdefault(box.site, {})
        for key in keys:
            known = stored.get(key, _NONE)
            self.charge(1 + len(known))
            self.changes += not value <= known or key not in stored
            stored[key] = known | value

    def every(self, box: _Box) -> _Value:
        return _NONE.union(*box.items, *self.stored.get(box.site, {}).values())

    def get(self, box: _Box, index: _Value) -> _Value:
        stored, out = self.stored.get(box.site, {}), _NONE
        known: dict[Any, _Value] = dict(zip(box.keys or range(len(box.items)), box.items, strict=True))
        for key in index:
            place = key + len(known) if isinstance(key, int) and key < 0 and box.keys is None else key
            if key in _VAGUE or not box.sure or (box.keys is None and (stored or place not in known)):
                out |= self.every(box)
            else:
                out = out.union(known.get(place, _NONE), *(stored.get(one, _NONE) for one in (key, *_VAGUE)))
        return out or _UNKNOWN

    def turns(self, value: _Value) -> list[_Value]:
        """Return what a loop takes, in order; nothing if that is not known."""
        box = next(iter(value)) if len(value) == 1 else None
        if not isinstance(box, _Box) or not box.sure or box.site in self.stored:
            return []
        return [*box.items] if box.keys is None else [frozenset({key}) for key in box.keys]

    def elements(self, value: _Value) -> _Value:
        out = _NONE
        for atom in value:
            if isinstance(atom, _Box):
                out |= self.every(atom) if atom.keys is None else {*atom.keys, *self.stored.get(atom.site, ())}
            elif isinstance(atom, _Table):
                out |= self.rows(atom)
            else:
                out |= _PLAIN if atom is None or isinstance(atom, int) else _SOME if atom == _DATA else _UNKNOWN
        return out or _SOME

    def rows(self, table: _Table) -> _Value:
        frame, row = (frozenset({table._replace(shape=shape)}) for shape in ("frame", "row"))
        if table.shape in ("groups", "iterrows"):
            return frozenset({_Box(table, (_SOME, frame if table.shape == "groups" else row))})
        if table.shape == "row":
            return self.opaque(row)
        return row if table.shape == "itertuples" else _UNKNOWN  # else the names of the columns

    def moved(self, func: Callable[..., Iterable[Any]], *values: _Value, order: bool = True) -> _Value:
        """Call a function that only moves elements about."""
        turns = [self.turns(value) for value in values]
        sure = order and all(turns)
        made = func(*(turns if sure else ([self.elements(value)] for value in values)))
        items = tuple(self.wrapped(place, item, sure=sure) for place, item in enumerate(made))
        return frozenset({_Box(self.node, items if sure else (_NONE.union(*items),), sure=sure)})

    def wrapped(self, place: int, item: Any, *, sure: bool) -> _Value:
        if isinstance(item, tuple):
            return frozenset({_Box((self.node, place), tuple(self.wrapped(place, one, sure=sure) for one in item))})
        return item if isinstance(item, frozenset) else frozenset({item if sure else None})

    def choices(self, value: _Value) -> list[Any]:
        """Return all that a value may be within a text, a container with all that may be in it."""
        out: list[Any] = []
        for atom in value:
            if isinstance(atom, (str, int)) or atom is None:
                out.append(_DATA if atom is None else atom)
            elif isinstance(atom, _Box) and atom.sure and atom.site not in self.stored:
                combos = itertools.islice(itertools.product(*map(self.choices, atom.items)), _WIDEST + 1)
                out += [[*combo] if atom.keys is None else dict(zip(atom.keys, combo, strict=True)) for combo in combos]
            else:
                out += self.opaque(frozenset({atom}))
        return out if len(out) <= _WIDEST else [_MURKY]

    def text(self, func: Callable[..., Any], *values: _Value) -> _Value:
        """Call a function that makes texts with all that its arguments may be."""
        out = _NONE
        for combo in itertools.islice(itertools.product(*map(self.choices, values)), _WIDEST + 1):
            made: Any = _MURKY
            told = str(combo)
            self.charge(1 + len(told) // 64)
            if _MURKY not in told and len(told) < _LONGEST:
                with contextlib.suppress(TypeError, ValueError, LookupError):
                    made = func(*combo)
            many = isinstance(made, list)
            out |= {_Box(self.node, tuple(frozenset({part}) for part in made)) if many else _tidy(made)}
        return out if len(out) <= _WIDEST else _UNKNOWN

    def join(self, text: str, value: _Value) -> _Value:
        texts = [*self.choices(self.elements(value))]
        if self.turns(value):
            return self.text(text.join, value)
        if all(one == _DATA for one in texts):
            return frozenset({_DATA + text + _DATA})
        if "||" in text and all(isinstance(x, str) and x.strip("|") == x and x != _MURKY for x in texts):
            return frozenset({_tidy(text.join(sorted(texts)))})  # conditions, whose order does not matter
        return _UNKNOWN

    def formatted(self, text: str, args: _Args) -> _Value:
        form = _FIELD.sub(r"{\1}", text)
        if _BAD_FIELD.search(form.replace("%", "")) or "**" in args.named:
            return self.opaque(args.all()) | _UNKNOWN
        names = [*args.named]
        fill = lambda *values: form.format(*values[len(names) :], **dict(zip(names, values, strict=False)))  # noqa: E731
        return self.text(fill, *args.named.values(), *args.plain)

    def percent(self, text: str, right: _Value) -> _Value:
        form = _PERCENT.sub("%s", text)
        if _BAD_FIELD.search(form.replace("{", "")):
            return self.opaque(right) | _UNKNOWN
        return self.text(lambda value: form % (tuple(value) if isinstance(value, list) else value), right)

    def text_method(self, text: str, name: str, args: _Args) -> _Value:
        if name == "format":
            return self.formatted(text, args)
        if name == "join":
            return self.join(text, args.all())
        if name not in _PURE or (_DATA in text and name in ("replace", "split", "rsplit", "splitlines")):
            out = self.opaque(args.all())
            return (
                _PLAIN if name in _BOOLEAN or name in ("count", "find", "index") or name[:2] == "is" else out | _UNKNOWN
            )
        return self.text(getattr(text, name), *args.plain)

    # Names, functions, control flow.

    def bind(self, name: str, value: _Value) -> None:
        if name in _ACCESSORS:
            self.fail(f"{name} is redefined")
        frame = self.frame.outer.get(name)
        if frame:
            self.share(frame, name, value)
            return
        self.frame.env[name] = value
        for env in self.frame.caught:
            env[name] = env.get(name, _NONE) | value

    def share(self, frame: _Frame, name: str, value: _Value) -> None:
        """Bind a name that others see, which may or may not happen."""
        for env in (frame.env, *frame.caught):
            self.changes += not value <= env.get(name, _NONE) or name in _ACCESSORS
            env[name] = env.get(name, _NONE) | value

    def lookup(self, name: str) -> _Value:
        frame: _Frame | None = self.frame
        while frame:
            if name in frame.env:
                return frame.env[name]
            frame = frame.parent
        return self.unbound

    def assign(self, target: ast.expr, value: _Value) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            lists = [self.turns(frozenset({atom})) for atom in value]
            sure = all(len(one) == len(target.elts) for one in lists) and not _starred(target.elts)
            for place, part in enumerate(target.elts):
                self.assign(part, _NONE.union(*(one[place] for one in lists)) if sure else self.elements(value))
        elif isinstance(target, ast.Starred):
            self.assign(target.value, frozenset({_Box(target, (value,), sure=False)}))
        elif isinstance(target, ast.Subscript):
            self.store(target, self.value(target.value), value)
        elif isinstance(target, ast.Attribute) and self.value(target.value) and self.opaque(value) == _UNKNOWN:
            self.fail(f"a text is kept in .{target.attr}")

    def store(self, target: ast.Subscript, bases: _Value, value: _Value) -> None:
        keys, slices = self.value(target.slice), isinstance(target.slice, ast.Slice)
        for base in bases:
            if isinstance(base, _Box):
                self.put(base, _PLAIN if slices else keys, self.elements(value) if slices else value)
            elif self.opaque(value, keys if base == _DATA else _NONE) == _UNKNOWN and base != _MURKY:
                self.fail("a text is put into data")
        if isinstance(target.value, ast.Name) and any(isinstance(base, _Table) for base in bases) and len(keys) == 1:
            names = {name for name in self.leaves(keys) if isinstance(name, str)}
            self.bind(target.value.id, frozenset(_with(base, names) for base in bases))

    def block(self, nodes: Sequence[ast.stmt]) -> None:
        for node in nodes:
            self.node = node
            self.charge()
            handler = getattr(self, "s_" + type(node).__name__.lower(), None)
            if handler is None:
                self.fail(f"{type(node).__name__} cannot be followed")
            handler(node)

    def branch(self, *arms: Sequence[ast.stmt]) -> None:
        start, ends = self.frame.env, []
        for arm in arms:
            self.charge(1 + len(start) // 32)
            self.frame.env = {**start}
            self.block(arm)
            ends.append(self.frame.env)
        self.frame.env = functools.reduce(_joined, ends)

    def loop(self, value: _Value, body: Callable[[_Value], object]) -> None:
        """Do something with each element; with elements of unknown number, until nothing changes any more."""
        frame, path, turns, jumped = self.frame, self.path, self.turns(value), self.jumped
        caught = {**frame.env}
        frame.caught.append(caught)
        for count, item in enumerate(turns or [_NONE] * _TURNS):
            head, changes, self.jumped = {**frame.env}, self.changes, False
            self.charge(1 + len(head) // 32)
            self.path = (*path, count) if turns else path
            body(item or self.elements(value))
            frame.env = _joined(frame.env, caught) if self.jumped else frame.env
            if not turns:
                frame.env = _joined(head, frame.env)
                frame.env = _settled(head, frame.env) if count > 1 else frame.env
                if frame.env == head and changes == self.changes:
                    break
        else:
            if not turns or self.turns(value) != turns:
                self.fail("the loop changes too much to follow")
        frame.caught.pop()
        self.path, self.jumped = path, jumped

    def repeat(self, func: _Func, plain: list[_Value] | None) -> _Value:
        """Call a function any number of times."""
        out: set[Any] = set()
        self.loop(_PLAIN, lambda _item: out.update(self.apply(func, plain, {})))
        return frozenset(out)

    def apply(self, func: _Func, plain: list[_Value] | None, named: _Env) -> _Value:
        """Interpret one call of a function; without arguments, any call."""
        spec, defaults, body = func.node.args, dict(func.defaults), func.node.body
        if func.node in self.active or not func.frame.alive or spec.vararg or spec.kwarg or "**" in named:
            self.fail("a function that calls itself, outlives the one around it or takes *args cannot be followed")
        saved = self.frame, self.path, self.node, self.jumped
        self.frame, self.path = _Frame(func.frame, {}), (*self.path, self.node)
        self.active.append(func.node)
        for place, name in enumerate(arg.arg for arg in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]):
            given = plain[place] if plain and place < len(plain) else named.get(name) or defaults.get(name) or _UNKNOWN
            self.bind(name, _UNKNOWN if plain is None else given)
        if isinstance(func.node, ast.Lambda):
            out = self.value(body)
        else:
            self.block(body)
            out = frozenset(self.frame.returned) | _PLAIN
        self.frame.alive = False
        self.frame, self.path, self.node, self.jumped = saved
        self.active.pop()
        return out

    # Statements.

    def s_expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def s_return(self, node: ast.Return) -> None:
        self.frame.returned |= self.value(node.value) if node.value else _PLAIN

    def s_raise(self, node: ast.stmt) -> None:
        self.opaque(*map(self.value, ast.iter_child_nodes(node)))

    def s_pass(self, node: ast.stmt) -> None:
        self.jumped |= not isinstance(node, ast.Pass)

    s_assert, s_break, s_continue = s_raise, s_pass, s_pass

    def s_assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def s_annassign(self, node: ast.AnnAssign) -> None:
        self.value(node.annotation)
        if node.value:
            self.assign(node.target, self.value(node.value))

    def s_augassign(self, node: ast.AugAssign) -> None:
        old, new = self.value(node.target), self.value(node.value)
        for box in old:
            if isinstance(box, _Box):
                self.put(box, _PLAIN, self.elements(new))
        self.assign(node.target, self.combine(node.op, old, new))

    def s_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.bind(target.id, _BUILTINS.get(target.id, _SOME))
            elif isinstance(target, ast.Subscript):
                self.opaque(self.value(target.slice))
                for box in self.value(target.value):
                    if isinstance(box, _Box):
                        self.put(box, _PLAIN, _NONE)

    def s_if(self, node: ast.If) -> None:
        self.test(node.test)
        self.branch(node.body, node.orelse)

    def s_while(self, node: ast.While) -> None:
        self.loop(_PLAIN, lambda _item: (self.test(node.test), self.block(node.body)))
        self.block(node.orelse)

    def s_for(self, node: ast.For) -> None:
        self.loop(self.value(node.iter), lambda item: (self.assign(node.target, item), self.block(node.body)))
        self.block(node.orelse)

    def s_try(self, node: ast.Try) -> None:
        caught = {**self.frame.env}
        self.frame.caught.append(caught)
        self.block([*node.body, *node.orelse])
        ends = [self.frame.env]
        for handler in node.handlers:
            self.frame.env = {**caught}
            self.value(handler.type or ast.Constant(None))
            if handler.name:
                self.bind(handler.name, _UNKNOWN)
            self.block(handler.body)
            ends.append(self.frame.env)
        self.frame.caught.pop()
        self.frame.env = functools.reduce(_joined, [*ends, caught] if node.finalbody else ends)
        self.block(node.finalbody)

    def s_with(self, node: ast.With) -> None:
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars:
                self.assign(item.optional_vars, value)
        self.block(node.body)

    def s_functiondef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            self.fail("a decorated function cannot be followed")
        for note in [node.returns, *(arg.annotation for arg in ast.walk(node.args) if isinstance(arg, ast.arg))]:
            self.value(note or ast.Constant(None))
        self.bind(node.name, self.v_lambda(node))

    def s_global(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            frame = self.frame.parent or self.frame
            while frame.parent and (isinstance(node, ast.Global) or name not in frame.env):
                frame = frame.parent
            self.frame.outer[name] = frame

    s_nonlocal = s_global

    def s_import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            name = module + alias.name
            first, *rest = name.split(".")
            if first not in _MODULES or any(map(_FORBIDDEN.fullmatch, rest)) or getattr(node, "level", 0):
                self.fail(f"what {name} does cannot be followed")
            self.unbound = _UNKNOWN if alias.name == "*" else self.unbound
            whole = bool(alias.asname or module)
            self.bind(alias.asname or (alias.name if module else first), frozenset({_Tool(name if whole else first)}))

    s_importfrom = s_import

    # Expressions.

    def value(self, node: Any) -> _Value:
        self.charge()
        handler = getattr(self, "v_" + type(node).__name__.lower(), None)
        if handler is None:
            self.fail(f"{type(node).__name__} cannot be followed")
        value: _Value = handler(node)
        if len(value) > _WIDEST:
            self.fail("there are too many possible values to follow")
        return value

    def test(self, node: ast.expr) -> _Value:
        """Evaluate a condition. Whether a row is empty tells of its data."""
        value = self.value(node)
        self.escape(frozenset(atom for atom in value if isinstance(atom, _Table) and atom.shape == "row"))
        return value

    def v_constant(self, node: ast.Constant) -> _Value:
        value = node.value
        if isinstance(value, str):
            return frozenset({value if _DATA not in value and _tidy(value) == value else _MURKY})
        return frozenset({value}) if type(value) is int else _UNKNOWN if isinstance(value, bytes) else _PLAIN

    def v_name(self, node: ast.Name) -> _Value:
        value = self.lookup(node.id)
        banned = any(isinstance(atom, _Tool) and atom.name in _BANNED for atom in value)
        if banned or (node.id[:2] == "__" and node.id != "__name__"):
            self.fail(f"what {node.id} does cannot be followed")
        return value

    def v_namedexpr(self, node: ast.NamedExpr) -> _Value:
        value, frame = self.value(node.value), self.frame
        while frame.parent and frame.inner:
            frame = frame.parent
        self.bind(node.target.id, value) if node.target.id in _ACCESSORS else None
        self.share(frame.outer.get(node.target.id, frame), node.target.id, value)
        return value

    def v_joinedstr(self, node: ast.JoinedStr) -> _Value:
        form, values = "", []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                values.append(self.value(part.value))
                spec = "".join(self.value(part.format_spec)) if part.format_spec else ""
                form += (
                    "{" + ("!a" if part.conversion == 97 else "!r" if part.conversion == 114 else "") + ":" + spec + "}"
                )
            else:
                form += "".join(self.value(part)).replace("{", "{{").replace("}", "}}")
        return self.formatted(form, _Args(values, {}))

    def v_list(self, node: ast.List | ast.Tuple | ast.Set) -> _Value:
        values = tuple(self.value(part) for part in node.elts)
        sure = not isinstance(node, ast.Set) and not _starred(node.elts)
        return frozenset({_Box(node, values if sure else (_NONE.union(*values),), sure=sure)})

    v_tuple = v_set = v_list

    def v_starred(self, node: ast.Starred) -> _Value:
        return self.elements(self.value(node.value))

    def v_dict(self, node: ast.Dict) -> _Value:
        keys = [self.value(key) if key else _UNKNOWN for key in node.keys]
        values = [self.value(value) for value in node.values]
        sure = all(len(key) == 1 and not key & _VAGUE for key in keys)
        every = _NONE.union(*keys)
        if sure and len(every) == len(keys):
            return frozenset({_Box(node, (*values,), tuple(next(iter(key)) for key in keys))})
        return frozenset({_Box(node, (_NONE.union(*values),) * len(every), (*every,), sure=False)})

    def v_slice(self, node: ast.Slice) -> _Value:
        self.opaque(*map(self.value, ast.iter_child_nodes(node)))
        return _PLAIN

    def v_unaryop(self, node: ast.UnaryOp) -> _Value:
        value = self.test(node.operand)
        if not isinstance(node.op, ast.Not):
            self.opaque(value)
        number = next(iter(value)) if len(value) == 1 and isinstance(node.op, ast.USub) else None
        return frozenset({-number}) if isinstance(number, int) else _PLAIN

    def v_boolop(self, node: ast.BoolOp) -> _Value:
        return _NONE.union(*map(self.test, node.values))

    def v_ifexp(self, node: ast.IfExp) -> _Value:
        self.test(node.test)
        return self.value(node.body) | self.value(node.orelse)

    def v_compare(self, node: ast.Compare) -> _Value:
        values = [self.value(part) for part in (node.left, *node.comparators)]
        if not all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            self.opaque(*values)
        return _PLAIN

    def v_binop(self, node: ast.BinOp) -> _Value:
        return self.combine(node.op, self.value(node.left), self.value(node.right))

    def combine(self, op: ast.operator, left: _Value, right: _Value) -> _Value:
        both = left | right
        if isinstance(op, ast.Mod) and any(isinstance(atom, str) and atom != _DATA for atom in left):
            return _NONE.union(*(self.percent(str(text), right) for text in left))
        if any(isinstance(atom, _Box) for atom in both):
            return self.moved(itertools.chain, left, right, order=isinstance(op, ast.Add))
        if tables := frozenset(atom for atom in both if isinstance(atom, _Table)):
            return tables
        if isinstance(op, ast.Add) and any(isinstance(atom, str) for atom in both):
            return self.text("{}{}".format, left, right)
        return _UNKNOWN if self.opaque(both) == _UNKNOWN else _PLAIN

    def v_lambda(self, node: ast.Lambda | ast.FunctionDef) -> _Value:
        spec = node.args
        names = [arg.arg for arg in [*spec.posonlyargs, *spec.args]]
        pairs = [*zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True)]
        pairs += [(arg.arg, default) for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default]
        return frozenset({_Func(node, self.frame, tuple((name, self.value(default)) for name, default in pairs))})

    def v_listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> _Value:
        out: list[_Value] = []
        sure = self.generate(node.generators, lambda: out.append(self.value(node.elt)))
        return frozenset({_Box(node, (*out,) if sure else (_NONE.union(*out),), sure=sure)})

    v_setcomp = v_generatorexp = v_listcomp

    def v_dictcomp(self, node: ast.DictComp) -> _Value:
        made = _Box(node, (), ())
        self.generate(node.generators, lambda: self.put(made, self.value(node.key), self.value(node.value)))
        return frozenset({made})

    def generate(self, generators: list[ast.comprehension], make: Callable[[], object]) -> bool:
        """Interpret the loops of a comprehension; return whether its elements are made in order."""
        if not generators:
            make()
            return True
        source, tests = self.value(generators[0].iter), generators[0].ifs
        exact = [bool(self.turns(source)) and not tests]

        def body(item: _Value) -> None:
            self.assign(generators[0].target, item)
            for test in tests:
                self.test(test)
            exact.append(self.generate(generators[1:], make))

        frame = self.frame
        self.frame = inner = _Frame(frame, {}, inner=True)
        self.loop(source, body)
        inner.alive, self.frame = False, frame
        return all(exact)

    def v_attribute(self, node: ast.Attribute) -> _Value:
        return _NONE.union(*(self.member(atom, node.attr) for atom in self.value(node.value)))

    def member(self, atom: Any, name: str) -> _Value:
        if name in _ACCESSORS:
            return frozenset({_Tool(name)})
        if name[:2] == "__" or isinstance(atom, _Func) or (isinstance(atom, _Tool) and _FORBIDDEN.fullmatch(name)):
            self.fail(f"what .{name} does cannot be followed")
        if isinstance(atom, _Tool):
            return frozenset({_Tool(f"{atom.name}.{name}")})
        if isinstance(atom, _Table):
            return self.column(atom, name)
        if isinstance(atom, _Box):
            self.put(atom, _PLAIN, _UNKNOWN)
        return _PLAIN if atom is None else _SOME if atom == _DATA and name not in ("dtype", "dtypes") else _UNKNOWN

    def column(self, table: _Table, name: str) -> _Value:
        if name in ("loc", "iloc", "at", "iat"):
            shape = "row" if table.shape == "row" and "i" not in name else "iloc" if "i" in name else "loc"
            return frozenset({table._replace(shape=shape)})
        if name in ("empty", "shape", "size", "ndim", "columns", "index", "dtypes", "axes"):
            return _PLAIN if name in ("empty", "shape", "size", "ndim") else _UNKNOWN
        if name in ("values", "T"):
            return self.opaque(frozenset({table}))
        self.read(table, name)
        return _SOME

    def v_subscript(self, node: ast.Subscript) -> _Value:
        base, index = self.value(node.value), self.value(node.slice)
        return _NONE.union(*(self.item(atom, index, node.slice) for atom in base))

    def item(self, atom: Any, index: _Value, node: ast.expr) -> _Value:
        place = _literal(node)
        if isinstance(atom, _Table):
            return self.pick(atom, index, pair=isinstance(node, ast.Tuple))
        if isinstance(atom, _Box) and isinstance(node, ast.Slice):
            return self.moved(lambda turns: turns[place or slice(None)], frozenset({atom}), order=bool(place))
        if isinstance(atom, _Box):
            return self.get(atom, index)
        if isinstance(atom, str) and _DATA not in atom and place is not None:
            return self.text(lambda text: text[place], frozenset({atom}))
        return frozenset({atom}) if atom in (None, _DATA) else _UNKNOWN

    def pick(self, table: _Table, index: _Value, *, pair: bool) -> _Value:
        """Subscript a table by a column, columns or a mask; through loc and iloc, by rows and these."""
        frame, row = table._replace(shape="row" if table.shape == "row" else "frame"), table._replace(shape="row")
        if table.shape in ("loc", "iloc"):
            if not pair:
                return frozenset({frame, row})
            index = self.turns(index)[-1]
        return _NONE.union(*(self.chosen(frame, atom) for atom in index))

    def chosen(self, frame: _Table, atom: Any) -> _Value:
        names = {name for name in self.leaves(frozenset({atom})) if isinstance(name, str)}
        if names & {_DATA, _MURKY} or isinstance(atom, (int, _Table)):
            return self.opaque(frozenset({frame})) | {frame}
        if isinstance(atom, str):
            self.read(frame, atom)
            return _SOME
        if isinstance(atom, _Func):
            self.repeat(atom, [frozenset({frame})])
        parts = [
            part._replace(columns=part.columns & names if part.columns else frozenset(names)) for part in frame.parts
        ]
        return frozenset({frame._replace(parts=(*parts,)) if names else frame})

    # Calls.

    def v_call(self, node: ast.Call) -> _Value:
        func = node.func if isinstance(node.func, ast.Attribute) and node.func.attr not in _ACCESSORS else None
        base = self.value(func.value if func else node.func)
        plain: list[_Value] = []
        named = {keyword.arg or "**": self.value(keyword.value) for keyword in node.keywords}
        for arg in node.args:
            value = self.value(arg.value if isinstance(arg, ast.Starred) else arg)
            turns = self.turns(value) if isinstance(arg, ast.Starred) else [value]
            plain += turns or [self.elements(value)]
            named |= {} if turns else {"**": _NONE}
        self.node, args = node, _Args(plain, named)
        return _NONE.union(*(self.method(atom, func.attr, args) if func else self.call(atom, args) for atom in base))

    def call(self, atom: Any, args: _Args) -> _Value:
        if isinstance(atom, _Func):
            return self.apply(atom, args.plain, args.named)
        if isinstance(atom, _Tool):
            return self.use(atom.name, args)
        if atom == _MURKY:
            self.fail("it is only known at run time what is called")
        return self.opaque(args.all())

    def use(self, name: str, args: _Args) -> _Value:
        base, _, last = name.rpartition(".")
        if name in _TOOLS:
            out: _Value = getattr(self, "t_" + _TOOLS[name])(args)
            return out
        if name in _MOVERS:
            self.opaque(*args.named.values())
            order = name not in ("set", "frozenset", "sorted")
            return _SOME if args.plain == [_SOME] else self.moved(_MOVERS[name], *args.plain or [_NONE], order=order)
        if base in ("str", "list", "dict", "set", "tuple") and args.plain:
            rest = _Args(args.plain[1:], args.named)
            return _NONE.union(*(self.method(atom, last, rest) for atom in args.plain[0]))
        out = self.opaque(args.all())
        for box in args.all() if _MUTATING.fullmatch(name) else ():
            if isinstance(box, _Box):
                self.put(box, _PLAIN, _UNKNOWN)
        return _PLAIN if _NUMERIC.fullmatch(name) else _UNKNOWN if name in ("chr", "bytes", "bytearray") else out

    def method(self, atom: Any, name: str, args: _Args) -> _Value:
        if isinstance(atom, _Tool):
            return _NONE.union(*(self.call(tool, args) for tool in self.member(atom, name)))
        if name[:2] == "__" or isinstance(atom, _Func):
            self.fail(f"what .{name} does cannot be followed")
        if isinstance(atom, _Table):
            return self.table_method(atom, name, args)
        if isinstance(atom, _Box):
            return self.box_method(atom, name, args)
        if name == "strftime":
            return self.t_strftime(args)
        text = isinstance(atom, str) and atom not in (_DATA, _MURKY)
        return self.text_method(atom, name, args) if text else self.data_method(atom, name, args)

    def data_method(self, atom: Any, name: str, args: _Args) -> _Value:
        funcs = frozenset(one for one in args.all() if isinstance(one, _Func))
        called = _NONE.union(*(self.repeat(func, [_SOME]) for func in funcs))
        texty = self.opaque(called, args.all() - funcs) == _UNKNOWN
        if texty and name in _GROWING and atom != _MURKY:
            self.fail("a text is put into data")
        if name == "replace" and len(args.plain) > 1 and args.plain[0] != _UNKNOWN:
            texty = not all(isinstance(x, str) and re.fullmatch(r"[\s\d,.:;/()-]*", x) for x in args.plain[1])
        if name in _BOOLEAN or called == _PLAIN:
            return _PLAIN
        odd = name in ("decode", "encode", "to_bytes", "tobytes", "translate", "view", "to_markdown")
        return _UNKNOWN if atom == _MURKY or odd or (texty and name not in _KEEPS) else _SOME

    def box_method(self, box: _Box, name: str, args: _Args) -> _Value:
        given, this = args.all(), frozenset({box})
        self.opaque(frozenset(one for one in given if isinstance(one, _Func)))
        if name in ("keys", "values", "items", "most_common"):
            keys = self.moved(list, this)
            known = bool(self.turns(this)) and box.keys is not None
            values = frozenset({_Box(self.node, box.items if known else (self.every(box),), sure=known)})
            return keys if name == "keys" else values if name == "values" else self.moved(zip, keys, values)
        if name in ("pop", "get", "setdefault", "popleft"):
            if name != "get":
                self.put(box, args.plain[0] if name == "setdefault" else _PLAIN, _NONE.union(*args.plain[1:]))
            return self.get(box, args.plain[0] if args.plain else _PLAIN).union(*args.plain[1:])
        if name in ("append", "add", "appendleft", "insert"):
            self.put(box, _PLAIN, given)
        elif name in ("extend", "update", "extendleft"):
            for one in given - _PLAIN:
                keys = self.elements(frozenset({one})) if box.keys is not None else _PLAIN
                values = self.every(one) if isinstance(one, _Box) and one.keys else self.elements(frozenset({one}))
                self.put(box, keys, values)
            self.put(box, frozenset(args.named), _NONE.union(*args.named.values()))
        elif name in _GROWING:
            self.put(box, _PLAIN, _NONE)
        elif name not in ("count", "index", "copy"):
            self.put(box, _PLAIN, _UNKNOWN)
            return self.opaque(given) | _UNKNOWN
        return this if name == "copy" else _PLAIN

    def t_str(self, args: _Args) -> _Value:
        return self.text(str, *args.plain)

    def t_print(self, args: _Args) -> _Value:
        self.escape(args.all())
        return _PLAIN

    def t_look(self, _args: _Args) -> _Value:
        return _PLAIN

    def t_oracle(self, args: _Args) -> _Value:
        self.escape(args.all())
        return _SOME

    def t_pick(self, args: _Args) -> _Value:
        self.opaque(frozenset(atom for atom in args.all() if isinstance(atom, _Func)))
        value = _NONE.union(*args.plain) if len(args.plain) > 1 else self.elements(_NONE.union(*args.plain))
        return value | args.named.get("default", _NONE)

    def t_dict(self, args: _Args) -> _Value:
        made = _Box(self.node, (*args.named.values(),), (*args.named,))
        for atom in _NONE.union(*args.plain):
            if isinstance(atom, (_Tool, _Func)):  # what makes defaults
                self.put(made, _PLAIN, self.call(atom, _Args([], {})))
            elif isinstance(atom, _Box) and atom.keys is not None:
                for key in self.elements(frozenset({atom})):
                    self.put(made, frozenset({key}), self.get(atom, frozenset({key})))
            else:
                for one in self.elements(frozenset({atom})):
                    pair = [self.get(one, frozenset({place})) for place in (0, 1)] if isinstance(one, _Box) else []
                    self.put(made, *(pair or [frozenset({one}), _PLAIN]))
        return frozenset({made})

    def t_map(self, args: _Args) -> _Value:
        out: set[Any] = set()
        self.opaque(frozenset(atom for atom in args.plain[0] if isinstance(atom, _Tool)))
        given = _Args([self.elements(value) for value in args.plain[1:]], {})
        self.loop(_PLAIN, lambda _item: out.update(*(self.call(atom, given) for atom in args.plain[0] - _PLAIN)))
        return frozenset({_Box(self.node, (frozenset(out),), sure=False)})

    def t_filter(self, args: _Args) -> _Value:
        self.t_map(args)
        return frozenset({_Box(self.node, (self.elements(args.plain[1]),), sure=False)})

    def t_strftime(self, args: _Args) -> _Value:
        """Return what a format leaves of a time."""
        formats = [text for text in args.all() if isinstance(text, str) and text != _DATA]
        texts = [re.sub(r"%[-#]?(.)", lambda match: "%" if match[1] == "%" else _DATA, text) for text in formats]
        return frozenset(map(_tidy, texts)) or _SOME

    def t_merge(self, args: _Args) -> _Value:
        rest = _Args(args.plain[1:], args.named)
        return _NONE.union(*(self.method(atom, "merge", rest) for atom in args.plain[0]))

    def t_concat(self, args: _Args) -> _Value:
        tables = [atom for atom in self.leaves(args.all()) if isinstance(atom, _Table)]
        parts = dict.fromkeys(part for table in tables for part in table.parts)
        return frozenset({_Table((*parts,))}) if tables else self.opaque(args.all())

    # Tables.

    def t_loaddb(self, args: _Args) -> _Value:
        names = {name for name in self.leaves(args.all()) if isinstance(name, str)}
        if "**" in args.named or not names or any(_DATA in name or _MURKY in name for name in names):
            self.fail("LoadDB gets a database name that is only known at run time")
        for name in names:
            self.record(self.database(name))
        return frozenset(_Table((_Part(self.database(name)),)) for name in names)

    def target(self, args: _Args, who: str) -> Iterator[tuple[_Table, str]]:
        """Yield the tables and the texts that an accessor gets."""
        values = [*args.plain, *args.named.values()]
        frames = [value for value in values if any(isinstance(atom, _Table) for atom in value)]
        texts = [x for value in values if value not in frames for x in self.leaves(value) if isinstance(x, str)]
        if len(frames) != 1 or frames[0] & {_DATA, _MURKY} or not texts or _MURKY in texts or "**" in args.named:
            self.fail(f"{who} gets a table or a text that is only known at run time")
        yield from itertools.product([atom for atom in frames[0] if isinstance(atom, _Table)], texts)

    def t_filterdb(self, args: _Args) -> _Value:
        tables = set()
        for table, text in self.target(args, "FilterDB"):
            tables.add(table)
            for column in _condition_columns(text):
                self.read(table, column)
        return frozenset(tables)

    def t_getvalue(self, args: _Args) -> _Value:
        for table, text in self.target(args, "GetValue"):
            for column in _value_columns(text):
                self.read(table, column)
        return _SOME

    def table_method(self, table: _Table, name: str, args: _Args) -> _Value:
        frame, given = table._replace(shape="row" if table.shape == "row" else "frame"), args.all()
        this, row = frozenset({frame}), frozenset({table._replace(shape="row")})
        funcs = frozenset(atom for atom in given if isinstance(atom, _Func))
        called = _NONE.union(*(self.repeat(func, [this if table.shape == "groups" else row]) for func in funcs))
        if name in ("merge", "join"):
            return self.merged(frame, args, named=name == "merge")
        if name in ("query", "eval"):
            return self.queried(frame, self.choices(given))
        if name == "filter" and "items" in args.named:
            return self.pick(frame, args.named["items"], pair=False)
        columns, made = self.columns_in(name, args)
        for column in columns:
            self.read(frame, column)
        frame = _with(frame, made)
        if name == "pipe":
            return called
        if self.opaque(called, given - funcs) == _UNKNOWN and name in ("fillna", "replace", "where", "mask", "assign"):
            self.fail("a text is put into a table")
        if name in ("iterrows", "itertuples", "groupby"):
            return frozenset({table._replace(shape="groups" if name == "groupby" else name)})
        if (name in _SAME and (columns or name != "drop_duplicates")) or (funcs and name == "filter"):
            return frozenset({frame})
        if name in _TOTALS:
            return frozenset({frame if table.shape == "groups" else frame._replace(shape="row")})
        if not (columns and name in _BY) and not funcs and name != "size":
            self.escape(this)
        return _PLAIN if called == _PLAIN or name == "duplicated" else _SOME

    def columns_in(self, name: str, args: _Args) -> tuple[set[str], set[str]]:
        """Return the columns that the arguments of a method name, and those that it makes."""
        boxes = [box for box in args.all() if isinstance(box, _Box)]
        made: set[str] = {*args.named} if name in ("agg", "aggregate", "assign") else set()
        at = _BY.get(name, len(args.plain))
        values = [*args.plain[at : at + 1], *(args.named[key] for key in args.named if key in _BY_NAME)]
        if name in ("agg", "aggregate", "rename"):
            values = [self.elements(frozenset({box})) for box in boxes if box.keys is not None]
        if name == "rename":
            made = {text for box in boxes for text in self.every(box)}
        elif made:
            values += [self.get(box, frozenset({0})) for box in boxes if box.keys is None]
        texts = {text for text in self.leaves(*values) if isinstance(text, str)}
        return set() if name in ("drop", "reindex") else texts, made

    def merged(self, frame: _Table, args: _Args, *, named: bool) -> _Value:
        keys = {key: {x for x in self.leaves(value) if isinstance(x, str)} for key, value in args.named.items()}
        out = _NONE
        for other in (atom for atom in args.all() if isinstance(atom, _Table)):
            for side, columns in ((frame, ("on", "left_on")), (other, ("on", "right_on") if named else ())):
                for column in itertools.chain(*(keys.get(key, ()) for key in columns)):
                    self.read(side, column)
            both = _Table((*frame.parts, *other.parts))
            out |= {_with(both, itertools.chain(*(part.made for part in both.parts)))}
            if named and not keys.keys() & {"on", "right_on", "right_index"}:
                self.escape(out)
        return out or self.opaque(args.all(), frozenset({frame}))

    def queried(self, frame: _Table, texts: list[Any]) -> _Value:
        """Read the columns in a condition of DataFrame.query."""
        for text in texts:
            previous = ""
            for match in _QUERY.finditer(str(text)):
                name = match[1] or match[2]
                if _MURKY in match[0] or (match[0] == _DATA and previous not in "=<>[,+-*/ "):
                    self.fail("which column is read is only known at run time")
                if name and text[match.end() : match.end() + 1] != "(":
                    self.read(frame, name)
                previous = match[0].strip() or previous
        return frozenset({frame})

    # SQL.

    def t_sqlinterpreter(self, args: _Args) -> _Value:
        texts = [text for text in self.leaves(args.all()) if isinstance(text, str)]
        if not texts or "**" in args.named or _MURKY in texts:
            self.fail("SQLInterpreter gets a text that is only known at run time")
        for text in texts:
            self.sql(text)
        return _SOME

    def sql(self, text: str) -> None:
        """Read the tables and columns of SELECT statements."""
        import sqlglot
        from sqlglot import exp
        from sqlglot.optimizer.scope import traverse_scope

        if any(match[1] and _JOINT.search(match[1]) for match in _SQL.finditer(text)):
            self.fail("a name in the SQL is only known at run time")
        plain = _SQL.sub(lambda match: match[0].replace(_DATA, "?" if match[1] else " "), text)
        try:
            trees = [tree for tree in sqlglot.parse(plain, read="sqlite") if tree]
            scopes = [scope for tree in trees for scope in traverse_scope(tree)]
        except sqlglot.errors.SqlglotError:
            self.fail("the SQL cannot be parsed")
        if not trees or not all(isinstance(tree, exp.Query) for tree in trees):
            self.fail("the SQL is no SELECT")
        known: set[int] = set()
        for scope in scopes:
            known |= self.sql_scope(scope, known)
        for node in itertools.chain(*(tree.walk() for tree in trees)):
            self.charge()
            if _odd(node, known):
                self.fail(f"{node.sql()[:40]} in the SQL cannot be followed")

    def sql_scope(self, scope: Any, known: set[int]) -> set[int]:
        """Read one SELECT of a statement, and return the nodes that it accounts for."""
        from sqlglot import exp

        chain, outer = [], scope
        while outer:
            chain.append({name.lower(): source for name, (_, source) in outer.selected_sources.items()})
            outer = outer.parent
        known = known | {id(node) for node, _ in scope.selected_sources.values()}
        own = self.sql_tables(chain[0])
        tops = scope.expression.expressions if isinstance(scope.expression, exp.Select) else []
        for top in tops:
            if isinstance(top, exp.Star) and not isinstance(scope.expression.parent, exp.Exists):
                self.found |= {database: self.found[database] | {"*"} for database in own}
        shared = [name.name for join in scope.find_all(exp.Join) for name in join.args.get("using") or ()]
        for name, database in itertools.product(shared, own):
            if self.spelled(database, name) or not any(self.spelled(other, name) for other in own):
                self.record(database, self.spelled(database, name) or name.lower())
        for column in scope.find_all(exp.Column):
            for database in self.sql_owners(column, chain) if id(column) not in known else ():
                self.record(database, self.spelled(database, column.name) or column.name.lower())
            known.add(id(column))
        return known

    def spelled(self, database: str, name: str) -> str | None:
        return next((known for known in self.schema.get(database, ()) if known.lower() == name.lower()), None)

    def sql_tables(self, sources: dict[str, Any]) -> list[str]:
        tables = [source for source in sources.values() if type(source).__name__ == "Table"]
        for table in tables:
            if type(table.this).__name__ != "Identifier" or re.match(r"sqlite_|pragma_", table.name, re.IGNORECASE):
                self.fail(f"{table.sql()[:40]} in the SQL cannot be followed")
            self.record(self.database(table.name))
        return [self.database(table.name) for table in tables]

    def sql_owners(self, column: Any, chain: list[dict[str, Any]]) -> list[str]:
        """Return the databases that a column of a SELECT may belong to."""
        from sqlglot import exp

        name, of = column.name.lower(), column.table.lower()
        if of:
            source = next((sources[of] for sources in chain if of in sources), None)
            if not source:
                self.fail(f"{column.sql()[:40]} in the SQL is of no table there")
            return self.sql_tables({of: source})
        sides = [self.sql_tables(sources) for sources in chain]
        listed = [[database for database in side if self.spelled(database, name)] for side in sides]
        operand = isinstance(column.parent, exp.Predicate) and column.arg_key != "this"
        if operand and column.this.args.get("quoted") and not any(listed) and (self.schema or not name.isidentifier()):
            return []  # SQLite takes it for a text
        derived = [source.expression.named_selects for source in chain[0].values() if not isinstance(source, exp.Table)]
        if name in [output.lower() for outputs in derived for output in outputs]:
            return []
        select = column.find_ancestor(exp.Select)
        if name in [top.alias.lower() for top in (select.expressions if select else ())]:
            late = column.find_ancestor(exp.Group, exp.Having, exp.Ordered)
            if isinstance(column.parent, exp.Ordered) or (late and self.schema and not any(listed)):
                return []
        if len(listed[0]) == 1:
            return listed[0]
        outer = [side for side in listed[1:] if side]
        return outer[0] if outer and not listed[0] else next(filter(None, sides), [])


def _odd(node: Any, known: set[int]) -> bool:
    """Tell whether a node of SQL may read something that no SELECT accounts for."""
    from sqlglot import exp

    if isinstance(node, exp.Placeholder):
        while node.parent and not isinstance(node, (exp.Predicate, exp.Limit, exp.Offset, exp.Select)):
            node = node.parent
        return not (
            isinstance(node, (exp.Limit, exp.Offset)) or (isinstance(node, exp.Predicate) and node.find(exp.Column))
        )
    if isinstance(node, (exp.Column, exp.Table)):
        within = node.find_ancestor(exp.Select, exp.SetOperation)  # names outputs in the ORDER BY of a UNION
        return id(node) not in known and not (isinstance(node, exp.Column) and isinstance(within, exp.SetOperation))
    if isinstance(node, exp.Star):
        return not isinstance(node.parent, (exp.Select, exp.Count, exp.Column))
    if isinstance(node, exp.In):
        return isinstance(node.args.get("field"), exp.Column)
    return isinstance(node, exp.Join) and node.method == "NATURAL"
