"""The names of Python, pandas and their friends, by what the interpreter makes of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

from .values import ToolName


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FORBIDDEN = re.compile(  # members of modules that read files, run code or make texts out of numbers
    r"_.*|read_.*|load|loadtxt|genfromtxt|from(file|regex)|(open_)?memmap|DataSource|ExcelFile|HDFStore|eval|sys|os|io|"
    r"codecs|enum|builtins|importlib|subprocess|core|lib|compat|testing|util|ctypeslib|f2py|char|strings|rec|chararray|"
    r"base_repr|get_type_hints|ForwardRef|attrgetter|methodcaller|types|tool|argparse|inspect|tzfile|contextlib"
)
NUMERIC = re.compile(
    r"int|float|abs|round|any|all|ord|range|(datetime|time|dateutil|pandas|decimal|fractions)\.(.*\.)?(strptime|parse|"
    r"timedelta|fromisoformat|relativedelta|Decimal|Fraction|to_(datetime|numeric|timedelta)|Timestamp|Timedelta|DateOffset)"
)
# Of the large libraries, only what is known to compute and nothing else; their submodules reach everywhere.
COMPUTING = {
    "pandas": words(
        "to_datetime to_numeric to_timedelta Timestamp Timedelta DateOffset DataFrame Series merge concat isna isnull"
        " notna notnull unique cut qcut NaT NA date_range pivot_table crosstab get_dummies factorize value_counts"
    ),
    "numpy": words(
        "mean median average max min sum std var array nan inf unique where round abs argmax argmin argsort sort isnan"
        " nanmean nanmedian nanmax nanmin nansum count_nonzero percentile quantile float64 float32 int64 int32 cumsum"
        " diff floor ceil sqrt log exp zeros ones arange concatenate isin datetime64 timedelta64 any all logical_and"
        " logical_or logical_not"
    ),
    "ast": words("literal_eval"),
    "warnings": words("filterwarnings simplefilter"),
    "os": words(""),  # imported by habit
    "sys": words(""),
}
MUTATING = re.compile(r"(operator|functools|random|collections|heapq|bisect)\..*|.*\.shuffle")
MODULES = words(
    "datetime time math statistics collections itertools functools operator re json calendar string typing decimal"
    " fractions random dateutil numpy pandas __future__ heapq bisect copy pprint ast os sys warnings"
)
ACCESSORS = words("LoadDB FilterDB GetValue SQLInterpreter")
BANNED = words("eval exec compile setattr delattr globals locals vars dir __import__ open input breakpoint")
MOVERS: dict[str, Callable[..., Iterable[Any]]] = {
    "zip": zip,
    "enumerate": enumerate,
    "reversed": reversed,
    "itertools.chain": itertools.chain,
    **dict.fromkeys(words("list tuple iter collections.deque set frozenset sorted"), list),
}
TOOLS = {
    **{name: name.lower() for name in ACCESSORS | words("str print map filter")},
    **dict.fromkeys(words("Calculate Calendar"), "oracle"),
    **dict.fromkeys(words("len isinstance issubclass hasattr callable id"), "look"),
    **dict.fromkeys(words("max min"), "extreme"),
    **dict.fromkeys(words("next random.choice"), "pick"),
    **dict.fromkeys(words("heapq.nlargest heapq.nsmallest"), "largest"),
    **dict.fromkeys(words("copy.copy copy.deepcopy"), "same"),
    **dict.fromkeys(words("dict collections.OrderedDict collections.Counter collections.defaultdict"), "dict"),
    **dict.fromkeys(words("time.strftime datetime.datetime.strftime datetime.date.strftime"), "strftime"),
    "bool": "bool",
    "getattr": "getattr",
    "dict.fromkeys": "fromkeys",
    "operator.itemgetter": "itemgetter",
    "pprint.pprint": "print",
    "type": "type",
    "pandas.merge": "merge",
    "pandas.concat": "concat",
}
BUILTINS = {
    name: frozenset({ToolName(name)})
    for name in {*TOOLS, *MOVERS, *BANNED} | words("int float abs round any all ord range sum chr bytes bytearray")
    if "." not in name
}
PURE = words(
    "lower upper strip lstrip rstrip title capitalize removeprefix removesuffix replace split rsplit splitlines"
    " casefold swapcase zfill ljust rjust center partition rpartition expandtabs"
)
METHODS = words("keys values items get pop update to_dict to_numpy to_string to_list tolist describe info apply")
COMPARING = words(
    "add count index remove discard union intersection difference symmetric_difference issubset issuperset isdisjoint"
    " intersection_update difference_update symmetric_difference_update"
)
KEEPS = words("split rsplit strip lstrip rstrip find index count sort_values groupby str astype total_seconds")
BOOLEAN = words("isin contains startswith endswith match fullmatch between isna isnull notna notnull eq ne gt lt ge le")
GROWING = words("append add insert extend update setdefault appendleft extendleft remove discard clear sort reverse")
SHRINKING = words("remove discard clear sort reverse")
ALGEBRA = words("union intersection difference symmetric_difference copy")
ASKING = words("count index issubset issuperset isdisjoint")
SAME = words(
    "head tail copy reset_index dropna fillna ffill bfill sort_index sample drop astype round abs convert_dtypes nth"
    " infer_objects get_group where mask clip isnull isna notnull notna shift diff"
    " cumsum rank reindex sort_values nlargest nsmallest set_index drop_duplicates explode pivot pivot_table"
    " assign rename replace"
)
TOTALS = words("sum mean median max min std var count nunique mode idxmax idxmin quantile first last agg aggregate")
SPLITTING = {"groupby": "groups", "resample": "groups", "rolling": "windows", "expanding": "windows"}
BY = {  # which arguments name columns
    **dict.fromkeys(words("sort_values groupby set_index drop_duplicates duplicated value_counts explode"), slice(1)),
    **dict.fromkeys(words("get pop"), slice(1)),
    **dict.fromkeys(words("nlargest nsmallest"), slice(1, 2)),
    **dict.fromkeys(words("pivot pivot_table"), slice(3)),
}
BY_NAME = words("by subset on left_on right_on columns keys index values column id_vars value_vars weights")
