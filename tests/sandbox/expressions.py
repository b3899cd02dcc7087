"""Random expressions over the language of guard programs: numbers, strings, sorting, dates, JSON, patterns."""

from __future__ import annotations

import random
import re

MODULES = "math json re datetime decimal collections base64 hashlib copy itertools functools unicodedata".split()

POOLS = {  # each pool has an alternative in each line
    "float": """2.675
0.1
1.005
2.5
3.5
-2.5
0.5
1e16
1e22
123456789.125
-0.0
1e-7
5e-324
1.7976931348623157e308
(0.1 + 0.2)
99.995
-1.005
1234.5678
float("nan")
float("inf")""",
    "int": """0
1
-1
7
-7
10
255
2**63
-(2**64)
10**20
12345
True
False
-123""",
    "text": r"""'abc'
''
'ÄÖß'
'a,b,,c'
' x y '
'123'
'-5'
'1_000'
'٣'
'Straße'
'ǅ'
'İ'
'a\tb\n'
'3.14'
'1e5'
'hello world'
'\u00a0x\u2003'
'ﬁ'
'aAbB'
'²'
'½'
'é'
' 12 '
'+7'
'nan'""",
    "list": """[3, 1, 2]
['b', 'A', 'a', 'B']
[1.5, 1, 2, 0.5]
[]
[(1, 'b'), (1, 'a'), (0, 'z')]
[True, 1, 0, False]
['ä', 'z', 'a', 'Z']
[[2], [1, 5], [1]]
([0.1] * 10)
[None, 1]
['10', '9', '1']""",
    "dict": """{'a': 1, 'b': 2}
{}
{'x': [1, 2], 'y': None}
{1: 'a', '1': 'b'}
{True: 't', 1: 'o'}
{2.0: 'f', 2: 'i'}""",
    "date": """datetime.date(2024, 2, 29)
datetime.datetime(2024, 2, 29, 23, 59, 59, 999999)
datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
datetime.date(2023, 12, 31)
datetime.datetime(2024, 3, 31, 1, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
datetime.date(1900, 1, 1)""",
    "delta": """datetime.timedelta(days=1, seconds=-1)
datetime.timedelta(hours=36.5)
datetime.timedelta(microseconds=0.5)""",
    "decimal": """decimal.Decimal('2.675')
decimal.Decimal('1.10')
decimal.Decimal('1E+5')
decimal.Decimal('-0')
decimal.Decimal(2.675)
decimal.Decimal('100')""",
    "digits": "0\n1\n2\n3\n-1\n-2\nNone",
    "spec": ".2f\n.0f\n.3g\n,.2f\n08.3f\ne\n%\n.1%\ng\n>10\n+.1f\n,\n_\nx\nb\n#x\n^10\n010\ns\n.10g\n.17g\nd",
    "percent": "%d\n%.2f\n%5s\n%r\n%x\n%05.1f\n%e\n%g\n%s",
    "arithmetic": "+\n-\n*\n/\n//\n%",
    "compare": "<\n<=\n==\n!=\n>",
    "power": "2\n0.5\n-1\n3\n0",
    "test": "isdigit\nisdecimal\nisnumeric\nisalpha\nisalnum\nisspace\nisupper\nislower\nistitle\nisidentifier",
    "change": "upper\nlower\ntitle\ncapitalize\nswapcase\ncasefold\nstrip\nsplit\nsplitlines\nlstrip\nrstrip",
    "search": "split\nrsplit\npartition\nrpartition\nfind\nrfind\nindex\ncount\nstartswith\nendswith\nremoveprefix",
    "slice": "0\n-1\n1:\n::-1\n10\n-3:2\n::2\n:100",
    "key": "str\nlambda v: -v\nlen\nlambda v: str(v).lower()\nrepr\nabs",
    "pattern": r"""r'\d+'
r'\w+'
r'(a)|(b)'
r''
r'\s'
r'[A-Z]'
r'\b'
r'^.'
r'a$'
r'x*'
r'(,)'""",
    "json": """'1e400'
'NaN'
'1.0'
'12345678901234567890'
'[1,]'
'{"a": 1, "a": 2}'
'1e5'
' 1 '
'-0'
'01'""",
    "moment": """'2024-02-30'
'2024-02-29'
'2024-02-29T10:00'
'2024-02-29T10:00:00Z'
'20240229'
'2024-W09-4'
'2024-02-29 10:00:00.5+02:00'
'2024-2-9'""",
    "strftime": "'%Y-%m-%d'\n'%d.%m.%y %H:%M'\n'%A %B %j %U %p %I'\n'%a %b'\n'%z|%Z'\n'%f'\n'%V %G %u'",
    "written": "'29.02.2024', '%d.%m.%Y'\n'29.2.2024', '%d.%m.%Y'\n'2024-02-29', '%Y-%m-%d'\n'1.1.24', '%d.%m.%y'",
    "math": "floor\nceil\ntrunc\nsqrt\nlog10\nlog2\nisnan\nfabs\nexp",
    "fold": "any\nall\nlen\ntuple\nset\nmin\nmax\nsum\nsorted",
}
POOLS["number"] = POOLS["float"] + "\n" + POOLS["int"]
POOLS["any"] = "\n".join(POOLS[name] for name in ("number", "text", "list", "dict"))

FORMS = """round({float}, {digits})
round({number}, {digits})
round({number})
({number}) {arithmetic} ({number})
({number}) ** {power}
divmod({number}, {number})
format({number}, '{spec}')
f'{{{float}:{spec}}}'
'{{:{spec}}}|{{!r:>8}}'.format({number}, {text})
'{percent}' % ({number},)
str({any})
repr({any})
int({number})
int({text})
float({text})
int({text}, 16)
({number}) {compare} ({number})
({number}) {compare} {decimal}
bool({any})
abs({number})
math.{math}({number})
math.fsum({list})
math.isclose({number}, {number})
sum([{number}, {number}, {number}])
{text}.{test}()
{text}.{change}()
{text}.{search}({text})
{text}.split(',', {digits})
{text}.center(7)
{text}.zfill(5)
{text}.replace({text}, '-')
{text}.encode()
{text}[{slice}]
{text} {compare} {text}
{text} in {text}
','.join(map(str, {list}))
sorted({list})
sorted({list}, reverse=True)
sorted({list}, key={key})
sorted([{number}, {number}, {number}])
max({number}, {number})
{fold}({list})
{list}.index(True)
{list}.count(1)
{list} {compare} {list}
sorted({dict}.items(), key=str)
{dict}.get(True, 'no')
{dict} == {dict}
{{**{dict}, **{dict}}}
json.dumps({any})
json.dumps({dict}, sort_keys=True, indent=2)
json.loads({json})
re.findall({pattern}, {text})
re.sub({pattern}, '-', {text})
re.split({pattern}, {text})
bool(re.fullmatch({pattern}, {text}))
bool(re.search({pattern}, {text}))
str({date})
repr({delta})
({date}) {compare} ({date})
({date}) - ({date})
({date}) + ({delta})
({delta}) * {power}
({delta}).total_seconds()
({date}).isoformat()
({date}).strftime({strftime})
({date}).weekday()
({date}).replace(year=2023)
datetime.date.fromisoformat({moment})
datetime.datetime.fromisoformat({moment})
datetime.datetime.strptime({written})
str({decimal})
({decimal}) {arithmetic} ({decimal})
({decimal}) {arithmetic} ({int})
round({decimal}, {digits})
format({decimal}, '.2f')
float({decimal})
int({decimal})
chr({int})
hex({number})
list(range({int}, 5, 2))
unicodedata.normalize('NFKC', {text})
({int}) & ({int})
({int}) << 3
isinstance({number}, int)
({float}).is_integer()
({float}).as_integer_ratio()
math.gcd({int}, {int})
collections.Counter({text}).most_common(2)
base64.b64encode({text}.encode())
hashlib.sha256({text}.encode()).hexdigest()
list(itertools.accumulate({list}))
functools.reduce(lambda a, b: a + b, {list})""".splitlines()

_PLACE = re.compile(r"\{(\w+)\}")
_ALTERNATIVES = {name: pool.splitlines() for name, pool in POOLS.items()}


def expressions(count: int, seed: int) -> list[str]:
    """Different expressions, of each form about as many."""
    chance = random.Random(seed)  # noqa: S311 - a fixed seed
    made: dict[str, None] = {}
    for at in range(20 * count):
        if len(made) == count:
            break
        made[_filled(FORMS[at % len(FORMS)], chance)] = None
    return list(made)


def _filled(form: str, chance: random.Random) -> str:
    filled = _PLACE.sub(lambda place: chance.choice(_ALTERNATIVES[place[1]]), form)
    return filled.replace("{{", "{").replace("}}", "}") if "{{" in form else filled
