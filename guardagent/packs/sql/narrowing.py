"""Whether an UPDATE, a DELETE or an upsert leaves some rows out, as far as its text shows.

A condition is read as what it says about the tables: a value for a column, or a link of two tables. A subquery after
IN or EXISTS says the same as a join. A row is left out if something is said of its table, or of one linked to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

_ID = re.compile(r"(?:^|_)(?:id|pk|rowid|uuid|key)$", re.IGNORECASE)
_FOREIGN = re.compile(r"(.+?)_?(?:id|Id|ID|uuid|pk|key)$")
_TIME = re.compile(r"_(?:at|on|date|time|until)$", re.IGNORECASE)
_PAST = re.compile(
    r"(?:^|_)(?:created|updated|modified|inserted|added|registered|born|joined|last)(?:_|$)", re.IGNORECASE
)
_NOW = re.compile(r"\bnow\b|current_|date\(\)|sysdate|localtime|utc_", re.IGNORECASE)
_WORDS = re.compile(r"name|mail|title|status|text|note|city|country|address|comment|body|url|slug|sku", re.IGNORECASE)
# What keeps different values of a column different for the most part. Parts of times that are the same for all do not.
_KEEPING = (exp.Paren, exp.Lower, exp.Upper, exp.Trim, exp.Date, exp.TsOrDsToDate, exp.Year, exp.Month, exp.Day,
            exp.DateTrunc, exp.TimestampTrunc, exp.Left, exp.Right, exp.Substring, exp.Coalesce, exp.TimeToStr,
            exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract, exp.JSONBExtractScalar, exp.Cast)  # fmt: skip
_PARTS = frozenset("YEAR MONTH DAY HOUR QUARTER WEEK DOW DOY".split())
_OPPOSITES = ({"null", "not null"}, {"true", "false"})
_FLIPPED = {exp.LT: exp.GTE, exp.LTE: exp.GT, exp.GT: exp.LTE, exp.GTE: exp.LT}
_MODIFIERS = frozenset("quick ignore low_priority".split())
_OTHER = "*"  # some column


@dataclass(frozen=True, slots=True)
class _Atom:
    """A part of a condition: one end for a column with a value, two for a link; none if it is never true."""

    ends: tuple[tuple[str, str], ...] = ()
    kind: str = ""
    bound: str = ""


_Conjunction = list["_Atom | list[_Conjunction]"]  # a list inside is a disjunction


@dataclass(frozen=True, slots=True)
class _Source:
    """A table as a statement names it: the tables that it reads, and whether it gives some of their rows only."""

    tables: frozenset[str]
    limited: bool = False
    derived: bool = False


@dataclass(slots=True)
class _QueryScope:
    """The names of tables in a query, with the sources of the whole statement."""

    queries: Mapping[str, exp.Expr | None]
    sources: dict[str, _Source] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    parent: _QueryScope | None = None
    outer: dict[str, _Conjunction] = field(default_factory=dict)  # of LEFT JOIN, what links the table

    def inner(self) -> _QueryScope:
        return _QueryScope(self.queries, self.sources, parent=self)

    def owner(self, column: exp.Column) -> str:
        """The key of the source of a column; empty if it is not known."""
        name = column.table.lower()
        if not name:
            return next(iter(self.names.values())) if len(self.names) == 1 else ""
        scope: _QueryScope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.parent
        return scope.names[name] if scope else ""

    def add(self, table: exp.Expr) -> str:
        name = table.alias_or_name.lower()
        if name in self.names and name:
            return self.names[name]
        key = f"{name}#{len(self.sources)}"
        self.sources[key] = _Source(frozenset())  # for a query that reads itself
        self.sources[key] = self._source(table)
        self.names[name or key] = key
        return key

    def _source(self, table: exp.Expr) -> _Source:
        query = table.this if isinstance(table, exp.Subquery) else table
        if isinstance(table, exp.Table):
            name = table.name.lower()
            if not isinstance(table.this, exp.Identifier):  # a function
                return _Source(frozenset(), derived=True)
            if table.db or name not in self.queries:
                return _Source(frozenset({name}))
            query = self.queries[name]
            queries = {**self.queries, name: None}
        else:
            queries = dict(self.queries)
        if not isinstance(query, exp.Query | exp.DML | exp.Values):
            return _Source(frozenset(), derived=True)
        tables = _tables(query, queries)
        return _Source(tables, _is_limited(query, _QueryScope(queries)), derived=True)


def is_narrow(statement: exp.Expr) -> bool:
    """Whether a DELETE, an UPDATE or an upsert leaves some rows out."""
    scope = _QueryScope(_common_queries(statement))
    if isinstance(statement, exp.Insert):
        query = statement.expression
        read = _tables(query, scope.queries) if isinstance(query, exp.Query) else set()
        written = {table.name.lower() for table in [statement.this.find(exp.Table)] if table}
        return not (written & read) or _is_limited(query, scope)
    origin = statement.args.get("from_")
    using = statement.args.get("using")
    tables = [*([origin.this] if origin else []), *(using if isinstance(using, list) else [])]
    conjunction = [item for table in tables for item in _of_tables(table, scope)]
    conjunction += _of_tables(statement.this, scope) if isinstance(statement.this, exp.Expr) else []
    if where := statement.args.get("where"):
        conjunction += _conjunction(where.this, scope)
    targets = _targets(statement, scope)
    return bool(targets) and all(_left_out(target, conjunction, scope.sources) is not None for target in targets)


def _targets(statement: exp.Expr, scope: _QueryScope) -> set[str]:
    """The keys of the tables that a statement changes; MySQL changes several."""
    first = scope.add(statement.this)
    if isinstance(statement, exp.Delete):
        named = [table.name.lower() for table in statement.args.get("tables") or ()]
        return {scope.names.get(name, "") for name in named if name not in _MODIFIERS} or {first}
    if not statement.this.args.get("joins"):
        return {first}
    changed = {scope.owner(each.this) for each in statement.expressions if isinstance(each.this, exp.Column)}
    return {key for key in scope.names.values() if not scope.sources[key].derived} if "" in changed else changed


def _common_queries(statement: exp.Expr) -> dict[str, exp.Expr | None]:
    """The queries of WITH by their names; None for a name with several."""
    queries = list(statement.root().find_all(exp.CTE))
    times = Counter(query.alias.lower() for query in queries)
    return {query.alias.lower(): query.this if times[query.alias.lower()] == 1 else None for query in queries}


def _tables(query: exp.Expr, queries: Mapping[str, exp.Expr | None]) -> frozenset[str]:
    """The tables that a query reads, also through those of WITH."""
    names: set[str] = set()
    for table in query.find_all(exp.Table):
        name = table.name.lower()
        inner = queries.get(name)
        names |= _tables(inner, {**queries, name: None}) if inner is not None else {name} - queries.keys()
    return frozenset(names)


def _of_tables(table: exp.Expr, scope: _QueryScope) -> _Conjunction:
    """Takes a table and those that it is joined to into a scope, and gives what the joins say."""
    first, conjunction = scope.add(table), _Conjunction()
    for join in table.args.get("joins") or ():
        conjunction += _of_join(join, first, scope)
    return conjunction


def _of_join(join: exp.Join, first: str, scope: _QueryScope) -> _Conjunction:
    conjunction = _of_tables(join.this, scope)
    key = scope.add(join.this)
    links: _Conjunction = [
        _Atom(((first, name.name.lower()), (key, name.name.lower()))) for name in join.args.get("using") or ()
    ]
    links += _conjunction(join.args["on"], scope) if join.args.get("on") else []
    if not join.side:
        return conjunction + links
    if join.side == "LEFT":
        scope.outer[key] = links
    return conjunction


def _is_limited(query: exp.Expr | None, scope: _QueryScope) -> bool:
    """Whether a query gives some rows of each of its tables only."""
    match query:
        case exp.Subquery() | exp.Paren():
            return _is_limited(query.this, scope)
        case exp.Intersect():
            return _is_limited(query.left, scope) or _is_limited(query.right, scope)
        case exp.Except():
            return _is_limited(query.left, scope)
        case exp.SetOperation():
            return _is_limited(query.left, scope) and _is_limited(query.right, scope)
        case exp.Update() | exp.Delete():
            return is_narrow(query)
        case exp.Values():
            return True
        case exp.Select():
            inner = scope.inner()
            conjunction = _of_query(query, inner)
            return bool(inner.names) and all(_left_out(key, conjunction, scope.sources) for key in inner.names.values())
    return False


def _of_query(query: exp.Select, scope: _QueryScope) -> _Conjunction:
    """Takes the tables of a query into its scope, and gives what it says about them."""
    conjunction: _Conjunction = []
    if origin := query.args.get("from_"):
        conjunction += _of_tables(origin.this, scope)
        first = scope.add(origin.this)
        conjunction += [item for join in query.args.get("joins") or () for item in _of_join(join, first, scope)]
    if where := query.args.get("where"):
        conjunction += _conjunction(where.this, scope)
    return conjunction


# --- which rows are left out


def _left_out(target: str, conjunction: _Conjunction, sources: Mapping[str, _Source]) -> list[_Atom] | None:
    """The parts that leave rows of a table out: one, or one of each part of an OR. None if nothing does."""
    atoms = [item for item in conjunction if isinstance(item, _Atom)]
    reached = {target}
    while link := next(_new_links(atoms, reached), None):
        atom, (start, own), (end, its) = link
        if not _is_total(own, its, sources[start], sources[end]):
            return [atom]
        reached.add(end)
    for atom in atoms:
        keys = {key for key, _ in atom.ends}
        if atom.kind == "order" and target in keys:
            return [atom]
        if len(atom.ends) < 2 and (keys <= reached or (keys == {""} and reached >= set(sources))):
            return [atom]
    for parts in (item for item in conjunction if isinstance(item, list)):
        chosen = [_left_out(target, [*atoms, *part], sources) for part in parts]
        flat = [atom for part in chosen for atom in part or ()]
        if all(part is not None for part in chosen) and not _cover_all(flat):
            return flat
    return None


def _new_links(atoms: list[_Atom], reached: set[str]) -> Iterator[tuple[_Atom, tuple[str, str], tuple[str, str]]]:
    """The links from sources that were reached to others."""
    for atom in atoms:
        for start, end in (atom.ends, atom.ends[::-1]) if len(atom.ends) == 2 else ():
            if start[0] in reached and end[0] not in reached:
                yield atom, start, end


def _is_total(own: str, other: str, source: _Source, joined: _Source) -> bool:
    """Whether a link finds a row for each: of the same table, or of one that a foreign key names."""
    if joined.limited:
        return False
    if not joined.tables:  # a function, such as generate_series
        return True
    if source.tables & joined.tables:
        return joined.derived or own == other
    match = _FOREIGN.fullmatch(own)
    stem = match[1].lower() if match else ""
    return bool(stem) and (
        bool(re.fullmatch(r"id|uuid|pk|key|\*", other))
        or (other == own and any(table.startswith(stem[:-1]) for table in joined.tables))
    )


def _cover_all(atoms: list[_Atom]) -> bool:
    """Whether the parts of an OR hold for every row together, such as `a < 5` and `a >= 5`."""
    return any(
        first.ends == second.ends
        and len(first.ends) == 1
        and (
            {first.kind, second.kind} in _OPPOSITES
            or ({first.kind, second.kind} == {"low", "high"} and _meet(first, second, atoms))
        )
        for first, second in combinations(atoms, 2)
    )


def _meet(first: _Atom, second: _Atom, atoms: list[_Atom]) -> bool:
    low, high = (first, second) if first.kind == "low" else (second, first)
    try:
        apart = float(low.bound) - float(high.bound) > 1
    except ValueError:
        apart = bool(low.bound and high.bound) and high.bound < low.bound
    return not apart or sum(atom.ends == first.ends for atom in atoms) > 2


# --- what a condition says


def _conjunction(condition: exp.Expr, scope: _QueryScope, negated: bool = False) -> _Conjunction:  # noqa: FBT001, FBT002
    if condition.args.get("negate"):
        positive = condition.copy()
        positive.set("negate", None)
        return _conjunction(positive, scope, not negated)
    match condition:
        case exp.Paren():
            return _conjunction(condition.this, scope, negated)
        case exp.Not():
            return _conjunction(condition.this, scope, not negated)
        case exp.And() | exp.Or():
            parts = [_conjunction(part, scope, negated) for part in condition.flatten()]
            return [parts] if isinstance(condition, exp.Or) != negated else [item for part in parts for item in part]
        case exp.Column():
            plain = not _ID.search(condition.name) and not condition.this.args.get("quoted")
            return [_Atom(((scope.owner(condition), condition.name.lower()),), _truth(not negated))] if plain else []
        case exp.EQ() | exp.NullSafeEQ() | exp.NEQ():
            return _equality(condition.left, condition.right, scope, negated != isinstance(condition, exp.NEQ))
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _bound(
                _FLIPPED[type(condition)] if negated else type(condition), condition.left, condition.right, scope
            )
        case exp.Is():
            return _is(condition, scope, negated)
        case exp.Exists():
            return _orphans(condition.this, scope) if negated else _existing(condition.this, (), scope)
    return [] if negated else _positive(condition, scope)


def _positive(condition: exp.Expr, scope: _QueryScope) -> _Conjunction:
    match condition:
        case exp.Between():
            low, high = condition.args["low"], condition.args["high"]
            if condition.args.get("symmetric"):
                return []
            ends = _bound(exp.GTE, condition.this, low, scope) + _bound(exp.LTE, condition.this, high, scope)
            return (
                []
                if _number(low) is not None and (_number(low) or 0) <= 1
                else [_Atom(end.ends) for end in ends if isinstance(end, _Atom)]
            )
        case exp.In():
            return _membership(condition, scope)
        case exp.Like() | exp.ILike() | exp.SimilarTo() | exp.Glob() | exp.RegexpLike() | exp.RegexpILike():
            end = _end(condition.this, scope)
            return [_Atom((end,))] if end and _is_selective(condition) else []
    return []


def _is_selective(condition: exp.Expr) -> bool:
    """Whether a pattern is one that not every text matches."""
    if not isinstance(condition.expression, exp.Literal):
        return False
    pattern = condition.expression.name
    if isinstance(condition, exp.RegexpLike | exp.RegexpILike):
        try:
            return not re.search(pattern, "") and not all(re.search(pattern, sign) for sign in "aemnst")
        except re.error:
            return False
    parts = pattern.split("|") if isinstance(condition, exp.SimilarTo) else [pattern]
    return all(part.strip("%_*?(){}+") for part in parts)


def _truth(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"


def _end(term: exp.Expr, scope: _QueryScope) -> tuple[str, str] | None:
    """The source and the column of a term that depends on one, in a way that is plain to see."""
    if isinstance(term, exp.Column) and not isinstance(term.this, exp.Star) and not _is_constant(term):
        return scope.owner(term), term.name.lower()
    if isinstance(term, exp.Extract):
        return _end(term.expression, scope) if term.name.upper() in _PARTS else None
    if isinstance(term, exp.DateTrunc | exp.TimestampTrunc) and term.text("unit").upper() not in _PARTS:
        return None
    if not isinstance(term, _KEEPING) or (isinstance(term, exp.Cast) and term.to.this == exp.DataType.Type.BOOLEAN):
        return None
    others = [part for key, part in term.args.items() if key != "this" and isinstance(part, exp.Expr)]
    return _end(term.this, scope) if all(map(_is_constant, others)) else None


def _is_constant(term: exp.Expr) -> bool:
    """Whether a term is the same for every row. Some dialects read the parameter $1 as a column."""
    columns = term.find_all(exp.Column)
    return term.find(exp.Query, exp.Star) is None and all(column.name.startswith("$") for column in columns)


def _equality(left: exp.Expr, right: exp.Expr, scope: _QueryScope, negated: bool) -> _Conjunction:  # noqa: FBT001
    left, right = left.unnest(), right.unnest()
    if isinstance(right, exp.Boolean) and (end := _end(left, scope)):
        return [] if _WORDS.search(end[1]) else [_Atom((end,), _truth(right.this != negated))]
    if negated:
        return []
    if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
        pairs = zip(left.expressions, right.expressions, strict=False)
        return [item for first, second in pairs for item in _equality(first, second, scope, negated=False)]
    if isinstance(right, exp.Any):
        query = right.find(exp.Query)
        return _existing(query, (left,), scope) if query else _value(left, right, scope)
    for first, second in ((left, right), (right, left)):
        if isinstance(second, exp.Query):
            return _existing(second, (first,), scope, single=True)
    ends = _end(left, scope), _end(right, scope)
    if ends[0] and ends[1]:
        return [] if ends[0][0] == ends[1][0] or not ends[0][0] or not ends[1][0] else [_Atom((ends[0], ends[1]))]
    if isinstance(left, exp.Literal) and isinstance(right, exp.Literal):
        return [_Atom()] if _differ(left, right) else []
    return _value(left, right, scope) or _value(right, left, scope)


def _value(term: exp.Expr, value: exp.Expr, scope: _QueryScope) -> _Conjunction:
    """The parts of an equality with a constant. MySQL reads a word as the number 0, and some read "a" as 'a'."""
    end = _end(term, scope)
    number = float(value.this) if isinstance(value, exp.Boolean) else _number(value)
    if end is None or not _is_constant(value) or (number == 0 and _WORDS.search(end[1])):
        return []
    if isinstance(value, exp.Literal) and value.is_string:
        quoted = (
            isinstance(term, exp.Column) and term.this.args.get("quoted") and term.name.lower() == value.name.lower()
        )
        if quoted or (not value.name and not isinstance(term, exp.Column)):
            return []
    return [_Atom((end,), {0.0: "false", 1.0: "true"}.get(-1 if number is None else number, ""))]


def _differ(left: exp.Literal, right: exp.Literal) -> bool:
    """Whether two constants differ in every database: MySQL reads 'a' = 0 as true."""
    if left.is_string and right.is_string:
        return left.name.strip().lower() != right.name.strip().lower()
    numbers = [re.match(r"\s*-?\d+(?:\.\d+)?", side.name) for side in (left, right)]
    first, second = (float(number[0]) if number else 0.0 for number in numbers)
    return first != second


def _number(term: exp.Expr) -> float | None:
    try:
        return (
            -float(term.this.name)
            if isinstance(term, exp.Neg)
            else float(term.name)
            if isinstance(term, exp.Literal)
            else None
        )
    except ValueError:
        return None


def _bound(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, scope: _QueryScope) -> _Conjunction:
    """`id > 0` selects every row, as does a bound that all values are above or below."""
    upward, strict = kind in (exp.GT, exp.GTE), kind in (exp.GT, exp.LT)
    if isinstance(left, exp.Column) and isinstance(right, exp.Column):  # the last of some rows of one table
        ends = _end(left, scope), _end(right, scope)
        if strict and ends[0] and ends[1] and ends[0][0] != ends[1][0] and ends[0][1] == ends[1][1]:
            sources = [scope.sources.get(end[0]) for end in ends if end]
            if all(source and not source.derived for source in sources) and sources[0] == sources[1]:
                return [_Atom((ends[0], ends[1]), "order")]
        return []
    if not isinstance(left, exp.Column):
        left, right, upward = right, left, not upward
    end = _end(left, scope)
    if not isinstance(left, exp.Column) or end is None or not _is_constant(right):
        return []
    right = simplify(right.copy())
    right = right.this if isinstance(right, exp.Cast) else right
    text = right.name if isinstance(right, exp.Literal) and right.is_string else None
    if text is None:
        selects = _is_selective_term(end[1], right, upward=upward, strict=strict)
    elif re.match(r"\d|$", text):
        selects = text > ("2015" if _PAST.search(end[1]) else "1990") if upward else text < "2035"
    else:
        selects = text.lower() > "a" if upward else text.lower() < "z"
    quoted = bool(left.this.args.get("quoted")) and text is not None
    return [_Atom((end,), "low" if upward else "high", right.name)] if selects and not quoted else []


def _is_selective_term(column: str, term: exp.Expr, *, upward: bool, strict: bool) -> bool:
    """Whether some values are above or below a number, a parameter or a time from now."""
    number = _number(term)
    if number is not None:
        least = 1 if _ID.search(column) else 0 if not strict else -1
        low_enough = number < 1_000_000 and not re.fullmatch(r"9{4,}", term.name)
        return not _WORDS.search(column) and (number > least if upward else low_enough)
    if term.find(exp.Placeholder, exp.Parameter, exp.SessionParameter, exp.Column):
        return True
    past = term.find(exp.Sub, exp.Neg, exp.DateSub, exp.DatetimeSub, exp.TimestampSub) or "'-" in term.sql()
    return bool(_NOW.search(term.sql()) and not _ID.search(column) and (upward or past or not _PAST.search(column)))


def _is(condition: exp.Expr, scope: _QueryScope, negated: bool) -> _Conjunction:  # noqa: FBT001
    end = _end(condition.this, scope)
    if end is None:
        return []
    if isinstance(condition.expression, exp.Boolean):
        return [_Atom((end,), _truth(condition.expression.this != negated))]
    if not isinstance(condition.expression, exp.Null):
        return []
    if negated:  # a time is missing until something happens
        return [_Atom((end,), "not null")] if _TIME.search(end[1]) else []
    if end[0] in scope.outer:  # no row was joined
        return _without(scope.outer[end[0]], end[0])
    return [_Atom((end,), "null")]


def _membership(condition: exp.In, scope: _QueryScope) -> _Conjunction:
    query = condition.args.get("query")
    terms = condition.this.unnest()
    left = tuple(terms.expressions) if isinstance(terms, exp.Tuple) else (terms,)
    if query is not None and isinstance(query.unnest(), exp.Query):
        return _existing(query.unnest(), left, scope)
    values = condition.expressions or [part for part in (query, condition.args.get("unnest")) if part is not None]
    if isinstance(terms, exp.Tuple):
        ends = [_end(part, scope) for part in left]
        return [_Atom((end,)) for end in ends if end] if values and all(map(_is_constant, values)) else []
    conjunction = [_value(terms, value, scope) for value in values]
    if not conjunction or not all(conjunction) or {"true", "false"} <= {atom.kind for atom in _atoms(conjunction)}:
        return []
    return [_Atom(next(_atoms(conjunction)).ends)]


def _atoms(conjunction: list[_Conjunction]) -> Iterator[_Atom]:
    return (item for part in conjunction for item in part if isinstance(item, _Atom))


# --- subqueries


def _existing(query: exp.Expr, left: tuple[exp.Expr, ...], scope: _QueryScope, *, single: bool = False) -> _Conjunction:
    """The parts that a row of a query adds, as in a join: it equals some terms. Without terms: that there is a row."""
    query = query.unnest()
    if isinstance(query, exp.Union):
        return [[_existing(side, left, scope, single=single) for side in (query.left, query.right)]]
    if isinstance(query, exp.SetOperation):
        return _existing(query.left, left, scope, single=single)
    if not isinstance(query, exp.Select):
        return []
    inner = scope.inner()
    conjunction = _of_query(query, inner)
    selected = [part.unalias() for part in query.expressions]
    summed = any(part.find(exp.AggFunc) for part in selected)
    if single and not _is_correlated(query, inner):
        return [_Atom((end,)) for end in (_end(term, scope) for term in left) if end]
    if summed and not query.args.get("group"):
        return []
    for term, part in zip(left, selected, strict=False):
        plain = part.this if isinstance(part, exp.Min | exp.Max) else part
        conjunction += _projected(term, plain, scope, inner)
    return conjunction


def _projected(term: exp.Expr, part: exp.Expr, scope: _QueryScope, inner: _QueryScope) -> _Conjunction:
    own = _end(term, scope)
    if isinstance(part, exp.Star) or isinstance(part.this, exp.Star):
        return [_Atom((own, (key, _OTHER))) for key in inner.names.values()] if own and own[0] else []
    end = _end(part, inner)
    if own and end:
        return [] if own[0] == end[0] or not own[0] or not end[0] else [_Atom((own, end))]
    return [] if part.find(exp.Func) else _value(term, part, scope)


def _is_correlated(query: exp.Expr, inner: _QueryScope) -> bool:
    names = {table.alias_or_name.lower() for table in query.find_all(exp.Table, exp.Subquery)}
    return (
        any(column.table and column.table.lower() not in names for column in query.find_all(exp.Column))
        or not inner.names
    )


def _orphans(query: exp.Expr, scope: _QueryScope) -> _Conjunction:
    """The parts of NOT EXISTS: rows without a counterpart."""
    query = query.unnest()
    if not isinstance(query, exp.Select) or query.find(exp.AggFunc, exp.Having, exp.Limit):
        return []
    inner = scope.inner()
    conjunction = _of_query(query, inner)
    plain = query.find(exp.Where) is not None and len(inner.names) == 1
    return _without(conjunction, next(iter(inner.names.values()))) if plain else []


def _without(links: _Conjunction, key: str) -> _Conjunction:
    """The parts that say that no row of a table has some links, and nothing else that could rule out all of them."""
    ends = [end for atom in links if isinstance(atom, _Atom) for end in atom.ends]
    if len(ends) != 2 * len(links) or any(isinstance(atom, _Atom) and atom.kind for atom in links):
        return []
    return [_Atom(((own, f"{column} without"),)) for own, column in ends if own != key]
