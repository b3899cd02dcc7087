"""The modules that a program can import in the worker: copies with only the listed public names.

Excluded on purpose: names that evaluate strings (`typing.get_type_hints`, `dataclasses.make_dataclass`), names that
reach attributes past the guards (`operator.attrgetter` is replaced), and everything that reaches the machine.
"""

from __future__ import annotations

import datetime as dt
import importlib
import random
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

MODULES = frozenset(
    "__future__ abc ast base64 bisect calendar collections collections.abc contextlib copy csv dataclasses datetime "
    "decimal difflib enum fractions functools hashlib heapq html io itertools json math numbers operator random re "
    "statistics string textwrap time types typing unicodedata urllib urllib.parse".split()
)
"""The modules that a program can import."""

_EXPORTED: dict[str, str] = {
    "__future__": "annotations",
    "abc": "ABC abstractmethod",
    "ast": "literal_eval",
    "contextlib": "contextmanager suppress nullcontext closing",
    "copy": "copy deepcopy",
    "csv": "reader writer DictReader DictWriter QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC",
    "dataclasses": "dataclass field asdict astuple fields replace is_dataclass InitVar KW_ONLY FrozenInstanceError",
    "functools": "reduce partial lru_cache cache wraps cmp_to_key total_ordering cached_property",
    "html": "escape unescape",
    "io": "StringIO",
    "json": "loads dumps JSONDecodeError JSONDecoder",
    "re": "compile match fullmatch search findall finditer split sub subn escape error Match Pattern "
    "A ASCII I IGNORECASE M MULTILINE S DOTALL X VERBOSE U UNICODE NOFLAG",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits printable punctuation "
    "whitespace capwords Template",
    "types": "SimpleNamespace MappingProxyType",
    "typing": "Any Annotated Callable ClassVar Collection Counter DefaultDict Deque Dict Final FrozenSet Generator "
    "Generic Hashable Iterable Iterator List Literal Mapping MutableMapping NamedTuple NewType NoReturn Optional "
    "OrderedDict Protocol Sequence Set Sized SupportsFloat SupportsInt Text Tuple Type TypedDict TypeAlias TypeVar "
    "Union cast final overload runtime_checkable TYPE_CHECKING Never Self Required NotRequired Pattern Match "
    "MutableSequence MutableSet",
    "hashlib": "md5 sha1 sha256 sha512 blake2b",
    "urllib.parse": "urlparse urlsplit parse_qs parse_qsl quote unquote unquote_plus urlencode urljoin",
}
_DROPPED = frozenset({"attrgetter", "methodcaller", "getcontext", "setcontext", "localcontext", "SystemRandom", "call"})


class Modules:
    """The imports of one program; `begin` sets the clock and resets the random numbers for each run."""

    def __init__(self, getattr: Callable[..., Any]) -> None:  # noqa: A002 - replaces the built-in
        self._getattr = getattr
        self._now = dt.datetime.now(dt.UTC)
        self._loaded: dict[str, types.ModuleType] = {}

    def begin(self, now: dt.datetime) -> None:
        self._now = now
        self._loaded.pop("random", None)

    def importer(
        self, name: str, _globals: Any = None, _locals: Any = None, fromlist: Sequence[str] = (), level: int = 0
    ) -> types.ModuleType:
        """Implements `__import__` for a program."""
        if name == "_strptime" and isinstance(
            fromlist, list
        ):  # datetime imports it itself; no import statement passes a list
            return sys.modules[name]
        if level or name not in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return self._module(name if fromlist else name.partition(".")[0])

    def _module(self, name: str) -> types.ModuleType:
        if name not in self._loaded:
            module = self._loaded[name] = types.ModuleType(name)
            module.__dict__.update(self._names(name))
            for child in MODULES:
                if child.rpartition(".")[0] == name:
                    setattr(module, child.rpartition(".")[2], self._module(child))
        return self._loaded[name]

    def _names(self, name: str) -> dict[str, Any]:
        special = getattr(self, f"_{name}", None)
        names = special() if special else {}
        return {**_public(name), **names}

    def _operator(self) -> dict[str, Any]:
        def methodcaller(name: str, /, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
            return lambda value: self._getattr(value, name)(*args, **kwargs)

        return {"attrgetter": self._attrgetter, "methodcaller": methodcaller}

    def _functools(self) -> dict[str, Any]:
        def wraps(wrapped: Callable[..., Any]) -> Callable[..., Any]:
            """Ignores the original's choice of attributes, which it reads and sets past the guards."""

            def decorate(wrapper: Any) -> Any:
                if isinstance(wrapper, types.FunctionType) and isinstance(wrapped, types.FunctionType):
                    wrapper.__name__, wrapper.__doc__ = wrapped.__name__, wrapped.__doc__
                return wrapper

            return decorate

        return {"wraps": wraps}

    def _attrgetter(self, *names: str) -> Callable[[Any], Any]:
        def attribute_of(value: Any, name: str) -> Any:
            for part in name.split("."):
                value = self._getattr(value, part)
            return value

        return lambda value: (
            attribute_of(value, names[0]) if len(names) == 1 else tuple(attribute_of(value, name) for name in names)
        )

    def _datetime(self) -> dict[str, Any]:
        clock = self

        class date(dt.date, metaclass=_ClockType):  # noqa: N801 - it replaces the class of this name
            @classmethod
            def today(cls) -> Any:
                return cls(clock._now.year, clock._now.month, clock._now.day)

            def __repr__(self) -> str:
                return f"datetime.{super().__repr__()}"

        class datetime(dt.datetime, date, metaclass=_ClockType):  # noqa: N801 - a date, too, so that it compares as one
            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> Any:
                moment = clock._now.astimezone(tz) if tz else clock._now.replace(tzinfo=None)
                return cls.combine(moment.date(), moment.timetz())

            @classmethod
            def utcnow(cls) -> Any:
                return cls.now(dt.UTC).replace(tzinfo=None)

            @classmethod
            def today(cls) -> Any:
                return cls.now()

            def __repr__(self) -> str:
                return f"datetime.{super().__repr__()}"

        return {"datetime": datetime, "date": date}

    def _time(self) -> dict[str, Any]:
        def stamp() -> float:
            return self._now.timestamp()

        return {"time": stamp, "monotonic": stamp, "perf_counter": stamp, "sleep": lambda _seconds: None}

    def _random(self) -> dict[str, Any]:
        source = random.Random(0)  # noqa: S311 - random numbers must be reproducible
        names = "random randint randrange choice choices sample shuffle uniform gauss seed getrandbits triangular"
        return {name: getattr(source, name) for name in names.split()}


class _ClockType(type):
    """The metaclass of a class with another clock: an instance of the original is an instance of it."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__mro__[1])


def _public(name: str) -> dict[str, Any]:
    if name in ("random", "time", "urllib"):
        return {}
    module = importlib.import_module(name)
    names = _EXPORTED[name].split() if name in _EXPORTED else getattr(module, "__all__", None) or dir(module)
    exported = {item: getattr(module, item) for item in names if item[:1] != "_" and item not in _DROPPED}
    return {item: value for item, value in exported.items() if not isinstance(value, types.ModuleType)}


def load_all() -> None:
    """Reads the modules from disk, which is impossible once the layers are applied."""
    for name in sorted(MODULES):
        _public(name)
    dt.datetime.strptime("2000", "%Y").replace(tzinfo=dt.UTC)  # loads another module
