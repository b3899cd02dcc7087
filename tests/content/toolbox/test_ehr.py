"""columns_read on programs in EHRAgent's style, honest and adversarial."""

from __future__ import annotations

import json
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guardagent import Toolbox
from tests.tiers import examples

ROOT = Path(__file__).parents[3]
SCHEMA = {
    "patient": ["patientunitstayid", "patienthealthsystemstayid", "uniquepid", "age", "gender", "hospitaladmittime"],
    "lab": ["patientunitstayid", "labname", "labresult", "labresulttime"],
    "medication": ["patientunitstayid", "drugname", "dosage", "routeadmin", "drugstarttime"],
    "cost": ["patienthealthsystemstayid", "chargetime", "cost"],
}
Expected = dict[str, list[str]]


columns_read = Toolbox.load().functions["columns_read"]


def reads(**databases: str) -> Expected:
    return {name: sorted(columns.split()) for name, columns in databases.items()}


ACCESSORS: dict[str, tuple[str, Expected]] = {
    "filter and value": (
        """
        db = LoadDB('patient')
        one = FilterDB(db, 'uniquepid=001-5||max(hospitaladmittime)')
        answer = GetValue(one, 'age')
        """,
        reads(patient="uniquepid hospitaladmittime age"),
    ),
    "loaded, not read": ("db = LoadDB('lab')", reads(lab="")),
    "nothing at all": ("answer = 1 + 1", {}),
    "the empty text": ("", {}),
    "prose": ("The patient's age cannot be found: there is no such database.", {}),
    "an aggregate": ("answer = GetValue(LoadDB('cost'), 'cost, sum')", reads(cost="cost")),
    "two columns": ("answer = GetValue(LoadDB('lab'), 'labname, labresult')", reads(lab="labname labresult")),
    "two and an aggregate": ("GetValue(LoadDB('lab'), 'labname, labresult, max')", reads(lab="labname labresult")),
    "brackets about the column": ("GetValue(LoadDB('lab'), \"['labname']\")", reads(lab="labname")),
    "a list of columns": ("GetValue(LoadDB('lab'), ['labname', 'labresult'])", reads(lab="labname labresult")),
    "keyword arguments": (
        """
        one = FilterDB(data=LoadDB(name='lab'), argument='labname=x')
        answer = GetValue(argument='labresult', data=one)
        """,
        reads(lab="labname labresult"),
    ),
    "every operator": (
        "FilterDB(LoadDB('lab'), 'a>=1||b<=1||c>1||d<1||e=1||f in [1]||max(g)||min(h)')",
        reads(lab="a b c d e f g h"),
    ),
    "operators in a value": (
        "FilterDB(LoadDB('medication'), 'drugname=acetaminophen-caff 500 > 5 <= x in y')",
        reads(medication="drugname"),
    ),
    "spaces and quotes": (
        """FilterDB(LoadDB('lab'), " 'labname' = x|| labresult >5 ")""",
        reads(lab="labname labresult"),
    ),
    "not in": ("FilterDB(LoadDB('lab'), 'labname not in [1, 2]')", reads(lab="labname")),
    "an operator after max": ("FilterDB(LoadDB('lab'), 'max(labresult)>5')", reads(lab="labresult")),
    "a bare column": ("FilterDB(LoadDB('lab'), 'labname')", reads(lab="labname")),
    "an empty command": ("FilterDB(LoadDB('lab'), 'labname=x||')", reads(lab="labname")),
    "case of a database": ("GetValue(LoadDB('Lab'), 'labname')", reads(lab="labname")),
    "as an attribute of a module": ("GetValue(tools.LoadDB('lab'), 'labname')", reads(lab="labname")),
    "in one expression": (
        "answer = GetValue(FilterDB(LoadDB('lab'), 'labname=x'), 'labresult')",
        reads(lab="labname labresult"),
    ),
}

TEXTS: dict[str, tuple[str, Expected]] = {
    "str.format with data": (
        """
        since = Calendar('-1 year')
        FilterDB(LoadDB('lab'), 'labresulttime>{}||labname=x'.format(since))
        """,
        reads(lab="labresulttime labname"),
    ),
    "str.format with names": ("FilterDB(LoadDB('lab'), '{c}={v}'.format(c='labname', v=5))", reads(lab="labname")),
    "an f-string": (
        """
        x = Calculate('1+1')
        FilterDB(LoadDB('lab'), f'labname={x}||labresult>{x:.2f}||a={x!r}')
        """,
        reads(lab="labname labresult a"),
    ),
    "percent": (
        "x = len([])\nFilterDB(LoadDB('lab'), 'labname=%s||labresult>%d' % (x, x))",
        reads(lab="labname labresult"),
    ),
    "concatenation": (
        "x = GetValue(LoadDB('patient'), 'age')\nFilterDB(LoadDB('lab'), 'lab' + 'name=' + str(x))",
        reads(patient="age", lab="labname"),
    ),
    "a list in the value": (
        """
        ids = GetValue(LoadDB('patient'), 'patientunitstayid, list')
        FilterDB(LoadDB('lab'), 'patientunitstayid in {}'.format(ids))
        """,
        reads(patient="patientunitstayid", lab="patientunitstayid"),
    ),
    "a list of constants in the value": (
        "names = ['a', 'b']\nFilterDB(LoadDB('lab'), 'labname in {}'.format(names))",
        reads(lab="labname"),
    ),
    "joined ids": (
        """
        ids = [str(i) for i in GetValue(LoadDB('patient'), 'age, list')]
        FilterDB(LoadDB('lab'), 'labname in ' + ', '.join(ids))
        """,
        reads(patient="age", lab="labname"),
    ),
    "joined conditions": (
        "FilterDB(LoadDB('lab'), '||'.join(['labname=x', 'labresult>5']))",
        reads(lab="labname labresult"),
    ),
    "conditions that are collected": (
        """
        parts = ['labname=x']
        parts.append('labresult>5')
        FilterDB(LoadDB('lab'), '||'.join(parts))
        """,
        reads(lab="labname labresult"),
    ),
    "a condition that grows in a branch": (
        """
        c = 'labname=x'
        if Calculate('1'):
            c += '||labresult>5'
        FilterDB(LoadDB('lab'), c)
        """,
        reads(lab="labname labresult"),
    ),
    "parts of constants": (
        """
        year = '2105-03-01'.split('-')[0]
        FilterDB(LoadDB('lab'), 'labresulttime>=' + year + '-01'.replace('-', '/') + 'x'[:1].upper())
        """,
        reads(lab="labresulttime"),
    ),
    "strftime": (
        """
        from datetime import datetime, timedelta
        day = datetime.strptime('2105-01-01', '%Y-%m-%d') - timedelta(days=3)
        FilterDB(LoadDB('lab'), 'labresulttime>' + day.strftime('%Y-%m-%d 00:00:00'))
        """,
        reads(lab="labresulttime"),
    ),
    "data taken apart": (
        """
        times = GetValue(LoadDB('lab'), 'labresulttime, list')
        day = sorted(times)[-1].split(' ')[0][:7].replace('-', '/')
        FilterDB(LoadDB('cost'), 'chargetime<%s' % day)
        """,
        reads(lab="labresulttime", cost="chargetime"),
    ),
    "an answer that grows": (
        """
        answer = ''
        for x in GetValue(LoadDB('lab'), 'labname, list'):
            answer += x + ', '
        print(answer.strip(', '))
        """,
        reads(lab="labname"),
    ),
    "counting": (
        """
        counts = {}
        for x in GetValue(LoadDB('lab'), 'labname, list'):
            if x in counts:
                counts[x] += 1
            else:
                counts[x] = 1
        total = 0
        for name, count in sorted(counts.items(), key=lambda kv: kv[1], reverse=True)[:3]:
            total = total + count
            FilterDB(LoadDB('medication'), 'drugname=' + name)
        """,
        reads(lab="labname", medication="drugname"),
    ),
    "a counter": (
        """
        from collections import Counter
        counts = Counter(GetValue(LoadDB('lab'), 'labname, list'))
        for name, _ in counts.most_common(4):
            FilterDB(LoadDB('medication'), 'drugname=' + name)
        """,
        reads(lab="labname", medication="drugname"),
    ),
    "a dict of lists": (
        """
        from collections import defaultdict
        found = defaultdict(list)
        for x in GetValue(LoadDB('lab'), 'labname, list'):
            found[x].append(x.lower())
        for name, values in found.items():
            FilterDB(LoadDB('medication'), f'drugname={name}||dosage={values[0]}')
        """,
        reads(lab="labname", medication="drugname dosage"),
    ),
    "a column built of constants": (
        "kind = 'result'\nGetValue(LoadDB('lab'), 'lab{}, max'.format(kind))",
        reads(lab="labresult"),
    ),
    "a name never bound": ("FilterDB(LoadDB('lab'), 'labname={}'.format(nobody))", reads(lab="labname")),
}

NAMES: dict[str, tuple[str, Expected]] = {
    "rebinding": (
        """
        db = LoadDB('patient')
        GetValue(db, 'age')
        db = LoadDB('lab')
        GetValue(db, 'labname')
        """,
        reads(patient="age", lab="labname"),
    ),
    "a name for the name": ("name = 'lab'\nGetValue(LoadDB(name), 'labname')", reads(lab="labname")),
    "an alias of an accessor": ("fetch = LoadDB\nget = GetValue\nget(fetch('lab'), 'labname')", reads(lab="labname")),
    "an alias of a table": ("a = b = LoadDB('lab')\nc = b\nGetValue(c, 'labname')", reads(lab="labname")),
    "swapping": (
        """
        a, b = LoadDB('lab'), LoadDB('patient')
        a, b = b, a
        GetValue(a, 'age')
        """,
        reads(lab="", patient="age"),
    ),
    "either of two": (
        "db = LoadDB('lab' if Calculate('1') else 'medication')\nGetValue(db, 'patientunitstayid')",
        reads(lab="patientunitstayid", medication="patientunitstayid"),
    ),
    "rebound in one branch": (
        """
        db = LoadDB('patient')
        if Calculate('1') > 0:
            db = LoadDB('lab')
        GetValue(db, 'patientunitstayid')
        """,
        reads(patient="patientunitstayid", lab="patientunitstayid"),
    ),
    "rebound in both branches": (
        """
        db = LoadDB('patient')
        if Calculate('1') > 0:
            db = LoadDB('lab')
        else:
            db = LoadDB('lab')
        GetValue(db, 'labname')
        """,
        reads(patient="", lab="labname"),
    ),
    "dead code": ("if False:\n    GetValue(LoadDB('lab'), 'labname')", reads(lab="labname")),
    "code after a break": (
        "for i in []:\n    break\n    GetValue(LoadDB('lab'), 'labname')",
        reads(lab="labname"),
    ),
    "a walrus": ("GetValue(db := LoadDB('lab'), 'labname')\nGetValue(db, 'labresult')", reads(lab="labname labresult")),
    "a walrus in a comprehension": (
        "[db := 'lab' for _ in range(3)]\nGetValue(LoadDB(db), 'labname')",
        reads(lab="labname"),
    ),
    "a loop over names": (
        "for name in ['lab', 'medication']:\n    GetValue(LoadDB(name), 'patientunitstayid')",
        reads(lab="patientunitstayid", medication="patientunitstayid"),
    ),
    "a loop over pairs": (
        "for db, column in [('lab', 'labname'), ('cost', 'cost')]:\n    GetValue(LoadDB(db), column)",
        reads(lab="labname", cost="cost"),
    ),
    "zip and enumerate": (
        """
        names = ['lab', 'cost']
        for i, (db, column) in enumerate(zip(names, ('labname', 'cost'))):
            GetValue(LoadDB(db), column)
        """,
        reads(lab="labname", cost="cost"),
    ),
    "by index": (
        "names = ['lab', 'cost']\nfor i in range(len(names)):\n    GetValue(LoadDB(names[i]), 'x')\nGetValue(LoadDB(names[-1]), 'cost')",
        reads(lab="x", cost="x cost"),
    ),
    "a dict of names": (
        """
        wanted = {'lab': 'labname', 'cost': 'cost'}
        for db, column in wanted.items():
            GetValue(LoadDB(db), column)
        """,
        reads(lab="labname", cost="cost"),
    ),
    "a dict that is filled": (
        """
        tables = {}
        for name in ['lab', 'cost']:
            tables[name] = LoadDB(name)
        GetValue(tables['lab'], 'labname')
        """,
        reads(lab="labname", cost=""),
    ),
    "a list that is filled": (
        """
        tables = []
        for name in ['lab', 'medication']:
            tables.append(LoadDB(name))
        for table in tables:
            GetValue(table, 'patientunitstayid')
        """,
        reads(lab="patientunitstayid", medication="patientunitstayid"),
    ),
    "a comprehension of tables": (
        "tables = [LoadDB(n) for n in ('lab', 'cost')]\nGetValue(tables[1], 'cost')",
        reads(lab="", cost="cost"),
    ),
    "a rotation in a loop": (
        """
        a, b, c = 'patient', 'patient', 'lab'
        for _ in Calculate('1'):
            LoadDB(a)
            a, b = b, c
        """,
        reads(patient="", lab=""),
    ),
    "a list that aliases another": (
        "a = ['patient']\nb = a\nb.append('lab')\nfor name in a:\n    LoadDB(name)",
        reads(patient="", lab=""),
    ),
    "names that change their place": (
        "a = ['patient', 'lab']\na.reverse()\nGetValue(LoadDB(a[0]), 'age')",
        reads(patient="age", lab="age"),
    ),
    "bound while an exception may come": (
        """
        try:
            name = 'lab'
            Calculate('1')
            name = 'patient'
        except Exception:
            LoadDB(name)
        """,
        reads(patient="", lab=""),
    ),
    "bound before a break": (
        """
        name = 'patient'
        while Calculate('1'):
            name = 'lab'
            if Calculate('1'):
                break
            name = 'patient'
        LoadDB(name)
        """,
        reads(patient="", lab=""),
    ),
    "a builtin that is shadowed, perhaps": (
        "if Calculate('1'):\n    str = lambda x: 'patient'\nLoadDB(str('lab'))",
        reads(patient="", lab=""),
    ),
    "a builtin that is uncovered": ("str = lambda x: 'patient'\ndel str\nLoadDB(str('lab'))", reads(lab="")),
    "a star": (
        "first, *rest = ['lab', 'cost', 'patient']\nfor name in rest:\n    LoadDB(name)",
        reads(lab="", cost="", patient=""),  # one more than is read
    ),
    "str as an unbound method": ("LoadDB(str.lower('LAB'))", reads(lab="")),
}

FUNCTIONS: dict[str, tuple[str, Expected]] = {
    "one call each": (
        """
        def fetch(name, condition, column='patientunitstayid'):
            return GetValue(FilterDB(LoadDB(name), condition), column)

        fetch('lab', 'labname=x')
        fetch('cost', 'chargetime>5', column='cost')
        """,
        reads(lab="labname patientunitstayid", cost="chargetime cost"),
    ),
    "a table comes back": (
        """
        def one(pid):
            db = LoadDB('patient')
            return FilterDB(db, 'uniquepid={}'.format(pid))

        answer = GetValue(one('5'), 'age')
        """,
        reads(patient="uniquepid age"),
    ),
    "early returns": (
        """
        def which(x) -> str:
            if x > 5:
                return 'lab'
            return 'cost'

        LoadDB(which(Calculate('1')))
        """,
        reads(lab="", cost=""),
    ),
    "globals are read when it is called": (
        """
        name = 'patient'
        def fetch():
            return LoadDB(name)
        name = 'lab'
        GetValue(fetch(), 'labname')
        """,
        reads(lab="labname"),
    ),
    "a global is bound": (
        """
        name = 'patient'
        def switch():
            global name
            name = 'lab'
        switch()
        LoadDB(name)
        """,
        reads(patient="", lab=""),
    ),
    "a nonlocal is bound": (
        """
        def outer():
            name = 'patient'
            def inner():
                nonlocal name
                name = 'lab'
            inner()
            return LoadDB(name)
        GetValue(outer(), 'patientunitstayid')
        """,
        reads(patient="patientunitstayid", lab="patientunitstayid"),
    ),
    "locals do not leak": (
        """
        db = LoadDB('lab')
        def other():
            db = LoadDB('patient')
            return GetValue(db, 'age')
        other()
        GetValue(db, 'labname')
        """,
        reads(patient="age", lab="labname"),
    ),
    "a lambda": ("fetch = lambda n, c='x': GetValue(LoadDB(n), c)\nfetch('lab')", reads(lab="x")),
    "a lambda for each": (
        "list(map(lambda n: GetValue(LoadDB(n), 'x'), ['lab', 'cost']))",
        reads(lab="x", cost="x"),
    ),
    "a key function that reads": (
        "db = LoadDB('lab')\nsorted([1, 2], key=lambda i: GetValue(db, 'labname'))",
        reads(lab="labname"),
    ),
    "a function passed on": (
        "def twice(f, x):\n    return f(f(x))\ntwice(lambda d: FilterDB(d, 'labname=1'), LoadDB('lab'))",
        reads(lab="labname"),
    ),
    "a function in a loop in a function": (
        """
        def of(pid, table):
            rows = []
            for x in GetValue(FilterDB(table, 'patientunitstayid={}'.format(pid)), 'labresult, list'):
                rows.append(float(x))
            return rows

        table = LoadDB('lab')
        means = []
        for pid in GetValue(LoadDB('patient'), 'patientunitstayid, list'):
            means.append(sum(of(pid, table)) / len(of(pid, table)))
        answer = max(means)
        """,
        reads(patient="patientunitstayid", lab="patientunitstayid labresult"),
    ),
    "never called": ("def f():\n    return GetValue(LoadDB('lab'), 'labname')\nanswer = 1", {}),
    "a default that is bound early": (
        "n = 'lab'\nf = lambda x=n: LoadDB(x)\nn = 'patient'\nf()",
        reads(lab=""),
    ),
}

PANDAS: dict[str, tuple[str, Expected]] = {
    "a column": ("answer = LoadDB('lab')['labname'].values[0]", reads(lab="labname")),
    "a column as an attribute": ("answer = LoadDB('lab').labname.unique()", reads(lab="labname")),
    "a mask": (
        "db = LoadDB('lab')\nanswer = db[(db['labname'] == 'x') & ~(db.labresult > 5)]['labresulttime'].max()",
        reads(lab="labname labresult labresulttime"),
    ),
    "isin and str": (
        "db = LoadDB('lab')\nf = db[db['labname'].isin(['a', 'b']) | db['labname'].str.contains('x')]\nanswer = len(f)",
        reads(lab="labname"),
    ),
    "a mask from apply": (
        "db = LoadDB('lab')\nanswer = len(db[db['labname'].apply(lambda x: x.startswith('a'))])",
        reads(lab="labname"),
    ),
    "a projection": ("answer = LoadDB('lab')[['labname', 'labresult']]", reads(lab="labname labresult")),
    "a column of a projection": (
        "answer = LoadDB('lab')[['labname', 'labresult']]['labname'].tolist()",
        reads(lab="labname"),
    ),
    "a projection that only counts": ("answer = len(LoadDB('lab')[['labname', 'labresult']])", reads(lab="")),
    "the whole frame": ("answer = LoadDB('lab')", reads(lab="*")),
    "the whole frame after all": ("answer = FilterDB(LoadDB('lab'), 'labname=x')", reads(lab="* labname")),
    "not the answer in the end": ("answer = LoadDB('lab')\nanswer = len(answer)", reads(lab="")),
    "as the last expression": ("db = LoadDB('lab')\ndb", reads(lab="*")),
    "as the last expression before the end": ("db = LoadDB('lab')\ndb\nTERMINATE", reads(lab="*")),
    "printed": ("print('all:', LoadDB('lab'))\nx = 1", reads(lab="*")),
    "in a text": ("x = f'{LoadDB(\"lab\")}'", reads(lab="*")),
    "in an answer's list": ("answer = [1, (2, LoadDB('lab'))]", reads(lab="*")),
    "as values": ("x = LoadDB('lab').values[0][2]", reads(lab="*")),
    "as dicts": ("answer = LoadDB('lab').to_dict('records')", reads(lab="*")),
    "as dicts of which none is read": ("x = len(LoadDB('lab').to_dict('records'))", reads(lab="")),
    "compared": ("x = (LoadDB('lab') == 5).sum()", reads(lab="*")),
    "turned": ("x = LoadDB('lab').T", reads(lab="*")),
    "counted": (
        "db = LoadDB('lab')\nif db is None or db.empty or len(db) == 0 or not db.shape[0]:\n    pass\nx = db.columns",
        reads(lab=""),
    ),
    "a column only known at run time": ("db = LoadDB('lab')\nx = [db[c] for c in db.columns]", reads(lab="*")),
    "a row": ("row = LoadDB('lab').iloc[0]\nanswer = row['labname'] + row.labresult", reads(lab="labname labresult")),
    "a row by its place": ("answer = LoadDB('lab').iloc[0][2]", reads(lab="*")),
    "a cell": (
        "db = LoadDB('lab')\nanswer = db.loc[db['labname'] == 'x', 'labresult'].iloc[0]",
        reads(lab="labname labresult"),
    ),
    "a cell by its place": ("answer = LoadDB('lab').iloc[0, 2]", reads(lab="*")),
    "rows": (
        "for _, row in LoadDB('lab').iterrows():\n    if row['labname'] == 'x':\n        print(row['labresult'])",
        reads(lab="labname labresult"),
    ),
    "tuples": ("answer = [r.labname for r in LoadDB('lab').itertuples()]", reads(lab="labname")),
    "a row unpacked": ("for a, b in LoadDB('lab').itertuples():\n    pass", reads(lab="*")),
    "sorted": (
        "db = LoadDB('lab').sort_values(by='labresulttime', ascending=False).reset_index(drop=True).head(3)\nanswer = db['labname'].tolist()",
        reads(lab="labresulttime labname"),
    ),
    "sorted by several": (
        "x = LoadDB('lab').sort_values(['labname', 'labresult']).shape",
        reads(lab="labname labresult"),
    ),
    "grouped": ("answer = LoadDB('cost').groupby('chargetime')['cost'].sum().idxmax()", reads(cost="chargetime cost")),
    "groups": (
        "for name, group in LoadDB('lab').groupby('labname'):\n    print(name, group['labresult'].mean())",
        reads(lab="labname labresult"),
    ),
    "sizes": ("answer = LoadDB('lab').groupby('labname').size().sort_values().index[-1]", reads(lab="labname")),
    "aggregated": (
        "answer = LoadDB('lab').groupby('labname').agg({'labresult': 'mean'})['labresult'].max()",
        reads(lab="labname labresult"),
    ),
    "a total": ("answer = LoadDB('lab').max()['labresult']", reads(lab="labresult")),
    "all totals": ("answer = LoadDB('lab').max()", reads(lab="*")),
    "distinct": ("answer = len(LoadDB('lab').drop_duplicates(subset=['labname']))", reads(lab="labname")),
    "value counts": (
        "top = LoadDB('lab')['labname'].value_counts().index[0]\nf = FilterDB(LoadDB('medication'), f'drugname={top}')",
        reads(lab="labname", medication="drugname"),
    ),
    "apply": (
        "answer = LoadDB('lab').apply(lambda row: row['labname'] + row.labresult, axis=1).tolist()",
        reads(lab="labname labresult"),
    ),
    "apply that keeps it all": ("answer = LoadDB('lab').apply(lambda row: row, axis=1)", reads(lab="*")),
    "query": (
        "x = len(LoadDB('lab').query('labresult > 5 and labname == \"is it\" and labresulttime < @limit'))",
        reads(lab="labresult labname labresulttime"),
    ),
    "query with data": ("x = Calculate('1')\ny = len(LoadDB('lab').query(f'labresult > {x}'))", reads(lab="labresult")),
    "a column of its own": (
        "import pandas as pd\ndb = LoadDB('lab')\ndb['day'] = pd.to_datetime(db['labresulttime']).dt.date\nanswer = db['day'].max()",
        reads(lab="labresulttime"),
    ),
    "a column of its own, assigned": (
        "answer = LoadDB('lab').assign(x=lambda d: d['labresult'] * 2)['x'].max()",
        reads(lab="labresult"),
    ),
    "a column renamed": ("answer = LoadDB('lab').rename(columns={'labname': 'n'})['n'].unique()", reads(lab="labname")),
    "merged": (
        "m = LoadDB('patient').merge(LoadDB('cost'), on='patienthealthsystemstayid')\nanswer = m['cost'].sum()",
        reads(patient="patienthealthsystemstayid", cost="patienthealthsystemstayid cost"),
    ),
    "merged on two names": (
        "import pandas as pd\nm = pd.merge(LoadDB('lab'), LoadDB('cost'), left_on='labname', right_on='chargetime')\nanswer = m[['labresult']]",
        reads(lab="labname labresult", cost="chargetime"),
    ),
    "appended": (
        "import pandas as pd\nall = pd.concat([LoadDB('lab'), LoadDB('medication')])\nanswer = all['patientunitstayid'].nunique()",
        reads(lab="patientunitstayid", medication="patientunitstayid"),
    ),
    "filtered again": (
        "db = LoadDB('lab')\nf = db[db['labname'] == 'x']\nanswer = GetValue(FilterDB(f, 'max(labresulttime)'), 'labresult')",
        reads(lab="labname labresulttime labresult"),
    ),
    "getattr": ("x = getattr(LoadDB('lab'), 'values')", reads(lab="*")),
    "an unknown column of a projection": ("answer = LoadDB('lab')[['labname']].labresult", reads(lab="labresult")),
    "pandas on the side": (
        "import pandas as pd\nt = pd.to_datetime(GetValue(LoadDB('lab'), 'labresulttime, list'))\nanswer = (t.max() - t.min()).days",
        reads(lab="labresulttime"),
    ),
}

SQL: dict[str, tuple[str, Expected]] = {
    "one table": (
        "select LabName from LAB where labresult > 5 order by labresulttime",
        reads(lab="labname labresult labresulttime"),
    ),
    "an alias": ("select l.labname from lab as l where l.labresult is not null", reads(lab="labname labresult")),
    "count": ("select count(*) from lab", reads(lab="")),
    "count of a column": ("select count(distinct labname) from lab", reads(lab="labname")),
    "star": ("select * from lab", reads(lab="*")),
    "star of one": ("select l.*, p.age from lab l, patient p", reads(lab="*", patient="age")),
    "joined": (
        "select p.age, l.labname from patient p join lab l on p.patientunitstayid = l.patientunitstayid",
        reads(patient="age patientunitstayid", lab="labname patientunitstayid"),
    ),
    "using": (
        "select age, labname from patient join lab using (patientunitstayid)",
        reads(patient="age patientunitstayid", lab="labname patientunitstayid"),
    ),
    "unqualified": ("select labname, age from patient, lab", reads(patient="age", lab="labname")),
    "unknown and unqualified": ("select secret from patient, lab", reads(patient="secret", lab="secret")),
    "in a subquery": (
        "select labname from lab where patientunitstayid in (select patientunitstayid from patient where uniquepid = '1')",
        reads(lab="labname patientunitstayid", patient="patientunitstayid uniquepid"),
    ),
    "correlated": (
        "select age from patient where exists (select * from lab where lab.patientunitstayid = patient.patientunitstayid and gender = 'f')",
        reads(patient="age patientunitstayid gender", lab="patientunitstayid"),
    ),
    "a derived table": (
        "select t.n, max(t.m) from (select labname as n, labresult as m from lab) as t group by t.n",
        reads(lab="labname labresult"),
    ),
    "a common table": (
        "with t as (select drugname d, count(*) c from medication group by drugname) select d from t where c > 5",
        reads(medication="drugname"),
    ),
    "a union": (
        "select labname from lab union select drugname from medication order by labname",
        reads(lab="labname", medication="drugname"),
    ),
    "grouped and having": (
        "select labname, count(*) as n from lab group by labname having max(labresult) > 5 order by n desc limit 3",
        reads(lab="labname labresult"),
    ),
    "a name for a group": (
        "select strftime('%Y', labresulttime) as y, count(*) from lab group by y having y > 5",
        reads(lab="labresulttime"),
    ),
    "a name that hides a column": ("select 1 as labresult from lab where labresult > 5", reads(lab="labresult")),
    "a window": (
        "select max(labresult) over (partition by labname order by labresulttime) from lab",
        reads(lab="labname labresult labresulttime"),
    ),
    "case": ("select case when labresult > 5 then labname else 'x' end from lab", reads(lab="labname labresult")),
    "no table": ("select 1", {}),
    "texts in double quotes": (
        'select dosage from medication where drugname = \\"aspirin 5 mg\\"',
        reads(medication="dosage drugname"),
    ),
    "names in double quotes": ('select \\"dosage\\" from \\"medication\\"', reads(medication="dosage")),
}

REFUSED: dict[str, tuple[str, str]] = {
    "a database known at run time": ("LoadDB(Calculate('1'))", "line 1: the database of LoadDB"),
    "the line is told": ("x = 1\n\nLoadDB(open)", "line 3"),
    "a database that is data": ("LoadDB(GetValue(LoadDB('lab'), 'labname'))", "LoadDB"),
    "a database never bound": ("LoadDB(nobody)", "LoadDB"),
    "a database in part known": ("LoadDB('lab' + Calculate('1'))", "LoadDB"),
    "no database": ("LoadDB()", "LoadDB"),
    "a column known at run time": ("FilterDB(LoadDB('lab'), '{}=5'.format(Calendar('now')))", "column"),
    "a condition known at run time": ("FilterDB(LoadDB('lab'), Calendar('now'))", "column"),
    "a command that is no condition": ("FilterDB(LoadDB('lab'), 'rows 1 to 5')", "column"),
    "a value known at run time": ("GetValue(LoadDB('lab'), Calculate('1'))", "column"),
    "a table never bound": ("GetValue(nobody, 'age')", "GetValue"),
    "chr": ("FilterDB(LoadDB('lab'), 'labname=' + chr(124) * 2 + 'labresult>5')", "FilterDB"),
    "bytes": ("LoadDB(bytes([108, 97, 98]).decode())", "LoadDB"),
    "a text from json": ("import json\nFilterDB(LoadDB('lab'), 'a=' + json.loads('\"\\\\u007c\"'))", "FilterDB"),
    "a text through a regular expression": ("import re\nLoadDB(re.sub('x', 'b', 'lax'))", "LoadDB"),
    "a text hidden in data": (
        "x = GetValue(LoadDB('lab'), 'a').replace('a', '||b>5')\nFilterDB(LoadDB('lab'), 'c=' + x)",
        "FilterDB",
    ),
    "a text hidden in a list of data": ("x = GetValue(LoadDB('lab'), 'a, list')\nx.append('1||b>5')", "string"),
    "a text hidden in a column": ("db = LoadDB('lab')\ndb['x'] = '1||labresult>5'", "string"),
    "a text hidden in a format": ("FilterDB(LoadDB('lab'), f'a={5:|>3}')", "FilterDB"),
    "a text hidden in a time's format": (
        "from datetime import datetime\nFilterDB(LoadDB('lab'), 'a=' + datetime.now().strftime('||{}').format(Calculate('1')))",
        "column",
    ),
    "a text of a module": ("import string\nFilterDB(LoadDB('lab'), 'a=' + string.punctuation[27])", "FilterDB"),
    "a text of a module's star": ("from string import *\nFilterDB(LoadDB('lab'), 'a=' + punctuation[27])", "FilterDB"),
    "eval": ("eval('1')", "eval"),
    "exec in disguise": ("e = exec\ne('x')", "exec"),
    "setattr": ("setattr(LoadDB('lab'), 'columns', ['labresult'])", "setattr"),
    "a dunder by getattr": ("getattr(LoadDB, '__globals__')", "__globals__"),
    "globals": ("globals()['x']", "globals"),
    "open": ("open('lab.csv')", "open"),
    "a dunder": ("x = LoadDB.__globals__", "__globals__"),
    "builtins": ("__builtins__.print(1)", "__builtins__"),
    "os": ("import os\nos.listdir('.')", "os"),
    "os by name": ("from os import listdir", "os"),
    "sqlite3": ("import sqlite3 as datetime", "sqlite3"),
    "a module through another": ("import re\nre.enum.sys", "enum"),
    "read_csv": ("import pandas as pd\npd.read_csv('lab.csv')", "read_csv"),
    "read_csv by name": ("from pandas import read_csv", "read_csv"),
    "numpy.load": ("import numpy as np\nnp.loadtxt('lab.csv')", "loadtxt"),
    "an accessor handed on": ("list(map(LoadDB, ['lab']))", "LoadDB"),
    "an accessor in a partial": ("import functools\nf = functools.partial(LoadDB, 'lab')", "LoadDB"),
    "an accessor redefined": ("def LoadDB(x):\n    return None", "LoadDB"),
    "an accessor rebound": ("LoadDB = FilterDB", "LoadDB"),
    "an accessor rebound as a parameter": ("f = lambda LoadDB: LoadDB('lab')\nf(len)", "LoadDB"),
    "recursion": ("def f(x):\n    return f(x)\nf(1)", "recursive"),
    "mutual recursion": ("def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\nf(1)", "recursive"),
    "a closure that stays": (
        "def make(n):\n    return lambda: LoadDB(n)\na = make('lab')\nb = make('patient')\na()",
        "outlives",
    ),
    "a class": ("class A:\n    pass", "ClassDef"),
    "a match": ("match 1:\n    case x:\n        pass", "Match"),
    "a generator": ("def f():\n    yield LoadDB('lab')\nf()", "Yield"),
    "a decorator": ("@print\ndef f():\n    pass", "decorated"),
    "a loop that builds a database's name": ("n = ''\nfor x in 'ab':\n    n += 'lab'\nLoadDB(n)", "LoadDB"),
    "a method that is kept": ("x = []\nput = x.append\nput('lab')", "run time"),
    "SQL that is data": ("SQLInterpreter(Calculate('1'))", "SQL"),
    "SQL that is none": ("SQLInterpreter('hello there')", "SQL"),
    "SQL with a column that is data": ("SQLInterpreter('select {} from lab'.format(Calculate('1')))", "SQL"),
    "SQL with a table that is data": ("SQLInterpreter('select x from {}'.format(Calculate('1')))", "SQL"),
    "SQL with half a name that is data": (
        "SQLInterpreter('select x from lab where y{} = 5'.format(Calculate('1')))",
        "SQL",
    ),
    "SQL that updates": ("SQLInterpreter('update lab set labname = 5')", "SELECT"),
    "SQL that tells the schema": ("SQLInterpreter('select sql from sqlite_master')", "sqlite_master"),
    "SQL with a table function": (
        "SQLInterpreter('select * from pragma_table_info(\"lab\")')",
        "(?i)pragma_table_info",
    ),
    "a pragma": ("SQLInterpreter('pragma table_info(lab)')", "SELECT"),
    "a natural join": ("SQLInterpreter('select age from lab natural join patient')", "cannot be followed"),
    "SQL with a table in IN": ("SQLInterpreter('select age from patient where age in lab')", "cannot be followed"),
    "SQL of a table not there": ("SQLInterpreter('select x.age from patient')", "no table"),
    "code that does not parse": ("answer = LoadDB('lab'", "cannot be parsed as code"),
}


def table(*groups: dict[str, tuple[Any, Any]]) -> list[Any]:
    return [pytest.param(*case, id=name) for group in groups for name, case in group.items()]


@pytest.mark.parametrize(("code", "expected"), table(ACCESSORS, TEXTS, NAMES, FUNCTIONS))
def test_finds_exactly_what_is_read(code: str, expected: Expected) -> None:
    """Each read is found, under its database, and no other."""
    assert columns_read(textwrap.dedent(code) + "\npass", SCHEMA) == expected


@pytest.mark.parametrize(("code", "expected"), table(PANDAS))
def test_finds_what_pandas_reads(code: str, expected: Expected) -> None:
    """Tables give columns, projections and rows; a table that gets out whole is read whole."""
    assert columns_read(code, SCHEMA) == expected


@pytest.mark.parametrize(("query", "expected"), table(SQL))
def test_finds_what_sql_reads(query: str, expected: Expected) -> None:
    """Columns of SQL are resolved to the tables they come from."""
    assert columns_read(f'answer = SQLInterpreter("{query}")', SCHEMA) == expected


@pytest.mark.parametrize(("code", "why"), table(REFUSED))
def test_refuses_code_that_cannot_be_analyzed(code: str, why: str) -> None:
    """Code that cannot be analyzed is an error with its line."""
    with pytest.raises(ValueError, match=why):
        columns_read(code, SCHEMA)


FETCH = "db = LoadDB('lab')\none = FilterDB(db, 'labname=x')\nanswer = GetValue(one, 'labresult')"
READ = reads(lab="labname labresult")
OTHER = "answer = GetValue(LoadDB('cost'), 'cost')"
ESCAPED = FETCH.replace("\n", "\\n")
BOTH = READ | reads(cost="cost")

LOGS: dict[str, tuple[str, Expected]] = {
    "a whole log": (f"Knowledge:\n- It's in the lab.\n\nGenerated code:\n{FETCH}\nAnswer:\n5.0", READ),
    "an escaped log": (f"Knowledge:\n- It's in the lab.\n\nGenerated code:\n{ESCAPED}\nAnswer:\nno, x", READ),
    "code on the header's line": (f"Solution: {FETCH}\nAnswer:\n5", READ),
    "other cases and spaces": (f"  GENERATED CODE: \n{FETCH}\n  ANSWER :\n5", READ),
    "indented": ("Code:\n" + textwrap.indent(FETCH, "    ") + "\nAnswer:\n5", READ),
    "two attempts": (f"Code:\n{OTHER}\nError:\nKeyError: 'cost'\nCode:\n{FETCH}\nAnswer:\n5", BOTH),
    "an attempt after the answer": (f"Code:\n{FETCH}\nAnswer:\n5\nCode:\n{OTHER}", BOTH),
    "a benign attempt after the answer": (f"Code:\n{FETCH}\nAnswer:\n5\nCode:\nanswer = 1", READ),
    "a benign attempt before": (f"Code:\nanswer = 1\nCode:\n{FETCH}\nAnswer:\n5", READ),
    "an attempt that goes on": (
        "Code:\ndb = LoadDB('lab')\nCode:\nanswer = db['labname'].max()",
        reads(lab="labname"),
    ),
    "calls after the answer": (f"Code:\n{FETCH}\nAnswer:\n{OTHER}", BOTH),
    "calls under knowledge": (f"Knowledge:\n{OTHER}\nCode:\n{FETCH}\nAnswer:\n5", BOTH),
    "fences": (f"I would run\n```python\n{FETCH}\n```\nand then\n```\n{OTHER}\n```", BOTH),
    "a fence without an end": (f"```python\n{FETCH}", READ),
    "fences in a section": (f"Code:\n```python\n{FETCH}\n```\nAnswer:\n5", READ),
    "cells": (f"{json.dumps({'cell': FETCH})}\n-----\n{json.dumps({'cell': OTHER})}\n-----\ndone", BOTH),
    "only code": (FETCH, READ),
    "only escaped code": (ESCAPED, READ),
    "escaped code after a comment": ("# fetch it\\n" + ESCAPED, READ),
    "escaped quotes and tabs": (
        json.dumps("if 1:\n\tanswer = LoadDB(\"lab\")['labname'].max()")[1:-1],
        reads(lab="labname"),
    ),
    "escaped letters": ("Code:\n# x\\n\\u004c\\u006fadDB('lab')\nAnswer:\n5", reads(lab="*")),
    "wide letters": ("answer = \uff2coadDB('lab')['labname'].max()", reads(lab="labname")),
    "terminated": (f"Code:\n{FETCH}\nTERMINATE\nAnswer:\n5", READ),
    "an error after the code": (f"Code:\n{FETCH}\nError: 'x' is not in list\nAnswer:\n5", READ),
    "an answer on its line": (f"Code:\n{FETCH}\nAnswer: no growth, x", READ),
    "a variable called answer": (
        "Code:\ndb = LoadDB('lab')\nanswer: int = 5\nAnswer: int = 5\nx = db['labname'].max()\nAnswer:\n5",
        reads(lab="labname"),
    ),
    "a variable called code": (
        "Code:\ndb = LoadDB('lab')\ncode: int = 5\nx = db['labname'].max()\nAnswer:\n5",
        reads(lab="labname"),
    ),
    "an attempt that is prose": (f"Solution:\nWe'll look it up.\nCode:\n{FETCH}\nAnswer:\n5", READ),
    "code cut within a text": (f"Code:\nx = '''\nCode:\n'''\n{FETCH}\ny = '''\nAnswer:\n'''", READ),
    "code cut within a short text": (
        "Code:\nx = 'a\\\nCode: '; answer = LoadDB(\"lab\").labname.max() #'\nAnswer:\n5",
        reads(lab="labname"),
    ),
    "code cut within a dict": (
        "Code:\nx = {\nAnswer:\n5}\nf = LoadDB\ndb = f('lab')\nanswer = db.labname.max()\nAnswer:\n5",
        reads(lab="labname"),
    ),
    "code cut by a fence in a text": (
        "f = LoadDB\nx = '''\n```\n'''\nanswer = f('lab')['labname'].max()\ny = '''\n```\n'''",
        reads(lab="labname"),
    ),
    "an escape in a text": ("Code:\nprint('a\\nb')\n" + FETCH + "\nAnswer:\n5", READ),
}

BAD_LOGS: dict[str, tuple[str, str]] = {
    "an attempt that does not parse": (f"Code:\n{FETCH}(\nAnswer:\n5", "parsed as code"),
    "a call that is no code": (f"Code:\n{FETCH}\nAnswer:\n5 by LoadDB('cost') and so on", "parsed as code"),
    "a call in a text": (f"Code:\n{FETCH}\nAnswer:\n'''\n{OTHER}\n'''", "parsed as code"),
    "a call in a comment": (f"Code:\n{FETCH}\nAnswer:\n# {OTHER}", "parsed as code"),
    "a call between fences": (f"```\n{FETCH}\n```\nand LoadDB('cost') too\n```\nx = 1\n```", "parsed as code"),
    "calls behind an error's line": (f"Code:\nx = 1\nError: it's over\n{OTHER}\nAnswer:\n5", "parsed as code"),
}


@pytest.mark.parametrize(("log", "expected"), table(LOGS))
def test_finds_the_code_in_a_log(log: str, expected: Expected) -> None:
    """All attempts count, wherever they stand and however they are written."""
    assert columns_read(log, SCHEMA) == expected


@pytest.mark.parametrize(("log", "why"), table(BAD_LOGS))
def test_refuses_calls_that_hide_in_a_log(log: str, why: str) -> None:
    """A call in the log that cannot be analysed is never left out."""
    with pytest.raises(ValueError, match=why):
        columns_read(log, SCHEMA)


NASTY: dict[str, tuple[str, Expected]] = {
    "bound in a loop's else": (
        """
        name = 'lab'
        for _ in range(3):
            if Calculate('1'):
                break
        else:
            name = 'patient'
        LoadDB(name)
        """,
        reads(lab="", patient=""),
    ),
    "a list that grows under two names": (
        "a = ['patient']\nb = a\na += ['lab']\na.append('cost')\nfor name in b:\n    LoadDB(name)",
        reads(patient="", lab="", cost=""),
    ),
    "a global below a local of the same name": (
        """
        name = 'lab'
        def outer():
            name = 'patient'
            def inner():
                global name
                return LoadDB(name)
            return inner()
        outer()
        """,
        reads(lab=""),
    ),
    "a key that reads rows": (
        "rows = [r for _, r in LoadDB('lab').iterrows()]\nx = len(sorted(rows, key=lambda r: r['labresult']))",
        reads(lab="labresult"),
    ),
    "a key of max that reads rows": (
        "rows = [r for _, r in LoadDB('lab').iterrows()]\nx = max(rows, key=lambda r: r.labresult)['labname']",
        reads(lab="labresult labname"),
    ),
    "a key of a list's sort that reads rows": (
        "rows = [r for _, r in LoadDB('lab').iterrows()]\nrows.sort(key=lambda r: r['labresult'])",
        reads(lab="labresult"),
    ),
    "a method as a key": (
        """
        counts = {}
        for x in GetValue(LoadDB('lab'), 'labname, list'):
            counts[x] = counts.get(x, 0) + 1
        FilterDB(LoadDB('medication'), 'drugname={}'.format(max(counts, key=counts.get)))
        """,
        reads(lab="labname", medication="drugname"),
    ),
    "the next of some tables": (
        "tables = [LoadDB('lab')]\nGetValue(next(iter(tables), None), 'labname')",
        reads(lab="labname"),
    ),
    "an intersection of sets": (
        """
        a = {str(x) for x in GetValue(LoadDB('lab'), 'patientunitstayid, list')}
        b = {str(x) for x in GetValue(LoadDB('medication'), 'patientunitstayid, list')}
        for pid in a.intersection(b):
            FilterDB(LoadDB('patient'), f'patientunitstayid={pid}')
        """,
        reads(lab="patientunitstayid", medication="patientunitstayid", patient="patientunitstayid"),
    ),
    "a row as a dict": ("x = dict(LoadDB('lab').iloc[0])['labresult']", reads(lab="*")),
    "a table as a dict": ("x = dict(LoadDB('lab'))['labresult'][0]", reads(lab="*")),
    "a row unpacked into a call": ("x = '{labname}'.format(**LoadDB('lab').iloc[0])", reads(lab="*")),
    "a default that unknown code meets": (
        "import functools\ndb = LoadDB('lab')\nfunctools.reduce(lambda a, b, d=db: d['labresult'], [1, 2])",
        reads(lab="labresult"),
    ),
    "a text cut by its format": (
        "LoadDB('{:.3}'.format('labxxx'))\nLoadDB('%.4s' % 'costxxx')",
        reads(lab="", cost=""),
    ),
    "numbers in their formats": (
        "x = GetValue(LoadDB('lab'), 'labresult')\nFilterDB(LoadDB('cost'), 'cost>%.2f||chargetime<{:5d}'.format(3) % x)",
        reads(lab="labresult", cost="cost chargetime"),
    ),
    "rows by a function": ("x = len(LoadDB('lab').loc[lambda d: d['labresult'] > 5])", reads(lab="labresult")),
    "cells by a function": (
        "x = LoadDB('lab').loc[lambda d: d['labresult'] > 5, 'labname'].max()",
        reads(lab="labresult labname"),
    ),
    "all cells of some rows": (
        "db = LoadDB('lab')\nx = db.loc[db['labresult'] > 5, :]['labname'].max()",
        reads(lab="labresult labname"),
    ),
    "a cell by a place only known at run time": (
        "db = LoadDB('lab')\nfor n in range(3):\n    x = db.iloc[0, n]",
        reads(lab="*"),
    ),
    "groups of a projection": (
        "for k, g in LoadDB('lab').groupby('labname')[['labresult']]:\n    x = g['labresult'].max()",
        reads(lab="labname labresult"),
    ),
    "windows": ("for w in LoadDB('lab').rolling(3):\n    x = w['labresult'].max()", reads(lab="labresult")),
    "columns that change their names": (
        "db = LoadDB('lab')\ndb.columns = ['labresult', 'labname']\nx = db['labname']",
        reads(lab="* labname"),
    ),
    "columns that swap their names": (
        "x = LoadDB('lab').rename(columns={'labname': 'labresult'})['labresult']",
        reads(lab="labname labresult"),
    ),
    "columns renamed by a function": ("x = LoadDB('lab').rename(columns=str.upper)['X']", reads(lab="* X")),
    "a query on another table": (
        "a, b = LoadDB('lab'), LoadDB('cost')\nx = len(a.query('labresult in @b'))",
        reads(lab="labresult", cost="*"),
    ),
    "a pivot by place": (
        "x = LoadDB('lab').pivot_table('labresult', 'labname')['labresult'].max()",
        reads(lab="labname labresult"),
    ),
    "a merge by place": (
        "x = len(LoadDB('lab').merge(LoadDB('medication'), 'inner', 'patientunitstayid'))",
        reads(lab="patientunitstayid", medication="patientunitstayid"),
    ),
    "distinct rows": ("db = LoadDB('lab').drop_duplicates()\nGetValue(db, 'labname')", reads(lab="* labname")),
    "grouped by part of a column": (
        "import pandas as pd\ndb = LoadDB('lab')\nx = db.groupby(pd.to_datetime(db['labresulttime']).dt.year)['labresult'].sum()",
        reads(lab="labresulttime labresult"),
    ),
    "groups that give rows": (
        "x = LoadDB('lab').groupby('labname').apply(lambda g: g.nlargest(1, 'labresulttime'))['labresult'].tolist()",
        reads(lab="labname labresulttime labresult"),
    ),
    "a column made only perhaps": (
        """
        db = LoadDB('lab')
        names = ['x']
        if Calculate('1'):
            names.append('labresult')
        db[names] = 0
        y = db['labresult']
        """,
        reads(lab="labresult"),
    ),
    "a builtin as a key": ("x = LoadDB('lab')[print]", reads(lab="*")),
    "a function as a key that is set": (
        "db = LoadDB('lab')\ndb[lambda d: d['labresult'] > 5] = 0",
        reads(lab="labresult"),
    ),
    "a builtin for each group": ("x = LoadDB('lab').groupby('labname').apply(print)", reads(lab="* labname")),
    "a function for an unknown method": (
        "answer = LoadDB('lab').add_prefix(lambda row: 'x')",
        reads(lab="*"),
    ),
    "lists of two turns": (
        """
        for db, column in [('lab', 'labname'), ('cost', 'cost')]:
            parts = []
            parts.append(column + '=1')
            FilterDB(LoadDB(db), '||'.join(parts))
        """,
        reads(lab="labname", cost="cost"),
    ),
}

SQL_NASTY: dict[str, tuple[str, Expected]] = {
    "comments within comments": ("select labname /* /* */ , labresult from lab -- */", reads(lab="labname labresult")),
    "names like comments": ("select labname as `/*`, labresult as `*/` from lab", reads(lab="labname labresult")),
    "more names like comments": ("select labname as [--], labresult from lab", reads(lab="labname labresult")),
    "a comment": ("select labname -- , labresult\\n from lab", reads(lab="labname")),
    "a name that is a column in HAVING": (
        "select 1 as labresult from lab group by labname having labresult > 5",
        reads(lab="labname labresult"),
    ),
    "a name of an outer table": (
        "select 1 from patient where exists (select labname from lab where gender = 'f')",
        reads(patient="gender", lab="labname"),
    ),
    "a column only in a window": ("select rank() over (order by labresult) from lab", reads(lab="labresult")),
    "a column only in a filter": ("select count(*) filter (where labresult > 5) from lab", reads(lab="labresult")),
    "a column only in LIMIT": ("select 1 limit (select max(labresult) from lab)", reads(lab="labresult")),
    "an alias that is another table": ("select labname from lab p, patient LAB", reads(lab="labname", patient="")),
    "a name that hides a column in a window": (
        "select rank() over (order by labresult) labresult from lab",
        reads(lab="labresult"),
    ),
    "a text in double quotes that may be a column": (
        'select age from patient where 5 < "secret" ',
        reads(patient="age secret"),
    ),
    "two statements": ("select 1; select labname from lab", reads(lab="labname")),
    "the order of a union": ("select labname a from lab union select 'x' order by a", reads(lab="labname")),
    "a recursive table": (
        "with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select n, labname from t, lab",
        reads(lab="labname"),
    ),
}

NASTY_REFUSED: dict[str, tuple[str, str]] = {
    "a separator by name": ("LoadDB('lab,x'.split(sep=',')[0])", "LoadDB"),
    "a column made of text in a series": (
        "import pandas as pd\npd.Series(['1||b>5']).apply(lambda v: FilterDB(LoadDB('lab'), 'a=' + v))",
        "FilterDB",
    ),
    "the names of variables": ("labresult = 1\nFilterDB(LoadDB('lab'), 'a=' + dir()[0])", "dir"),
    "a column of another table in a query, apart": (
        "a, b = LoadDB('lab'), LoadDB('cost')\na.query('labresult > @b .cost')",
        "column",
    ),
    "a column of another table in a query": (
        "a, b = LoadDB('lab'), LoadDB('cost')\na.query('labresult > @b.cost')",
        "column",
    ),
    "half a name in a query": ("LoadDB('lab').query('{}result > 5'.format(Calculate('1')))", "column"),
    "SQL with a name that is compared": (
        "SQLInterpreter('select age from patient where {} = 5'.format(Calculate('1')))",
        "SQL",
    ),
    "SQL that groups by data": ("SQLInterpreter('select 1 from lab group by {}'.format(Calculate('1')))", "SQL"),
    "too few arguments": ("LoadDB('lab').merge()\nmap()", "lacks arguments"),
    "SQL with one name for two tables": ("SQLInterpreter('select age from patient LAB, lab')", "same name"),
    "SQL with a window that may be a table": (
        "SQLInterpreter('select age from patient window join lab')",
        "cannot be followed",
    ),
    "SQL that makes its parser stumble": ("SQLInterpreter('select 1 from lab group by {:.3}')", "cannot be parsed"),
    "a loop over a list that it changes": ("a = ['lab']\nfor x in a:\n    a.append(x)", "loop"),
}


@pytest.mark.parametrize(("code", "expected"), table(NASTY))
def test_finds_what_is_meant_to_be_overlooked(code: str, expected: Expected) -> None:
    """Reads in unusual places, and by unusual ways, are found."""
    assert columns_read(textwrap.dedent(code) + "\npass", SCHEMA) == expected


@pytest.mark.parametrize(("query", "expected"), table(SQL_NASTY))
def test_finds_what_sql_is_meant_to_hide(query: str, expected: Expected) -> None:
    """SQL is read as SQLite reads it."""
    assert columns_read(f'answer = SQLInterpreter("""{query}""")', SCHEMA) == expected


@pytest.mark.parametrize(("code", "why"), table(NASTY_REFUSED))
def test_refuses_what_is_meant_to_slip_through(code: str, why: str) -> None:
    """Texts that pass through something unknown, and names that only come up at run time, are refused."""
    with pytest.raises(ValueError, match=why):
        columns_read(code, SCHEMA)


def test_without_a_schema_a_column_of_a_join_is_of_both_tables() -> None:
    """A column of unknown origin is attributed to both tables."""
    query = "SQLInterpreter('select labname from lab, patient')"
    assert columns_read(query) == reads(lab="labname", patient="labname")


HOSTILE = {
    "too long": "x" * 2_000_000,
    "parentheses": "LoadDB(" + "(" * 10_000 + ")" * 10_000,
    "few parentheses": "LoadDB(" + "(" * 90 + "1" + ")" * 90 + ")",
    "minus": "LoadDB(" + "-" * 100_000 + "1)",
    "a long sum": "LoadDB(" + "'a' + " * 30_000 + "'b')",
    "a doubling text": "s = 'ab'\n" + "s = s + s\n" * 60 + "LoadDB(s)",
    "a text in a text": "s = 'ab'\n" + "s = s.replace('a', s)\n" * 60 + "LoadDB(s)",
    "a wide field": "LoadDB('{:999999999}'.format('x') + '%999999999d' % 1)",
    "all combinations": "s = " + " + ".join(["('a' if x else 'b')"] * 40) + "\nLoadDB(s)",
    "nested loops": "".join(" " * n + f"for a{n} in [1, 2, 3, 4, 5, 6, 7, 8]:\n" for n in range(18))
    + " " * 18
    + "LoadDB(x)",
    "nested unknown loops": "".join(" " * n + f"for a{n} in z:\n" for n in range(18))
    + " " * 18
    + "x = x + 'a'\nLoadDB(x)",
    "calls of calls": "def f0(x):\n  LoadDB(x)\n"
    + "".join(f"def f{n}(x):\n  f{n - 1}(x)\n  f{n - 1}(x)\n" for n in range(1, 40))
    + "f39(1)",
    "lists of lists": "x = []\nwhile a:\n  x = [x, x]\nLoadDB(x)",
    "doubling lists": "x = ['a', 'b']\n" + "x = x + x\n" * 40 + "for y in x:\n  LoadDB(y + z)",
    "headers": "Code:\n(\n" * 20_000 + "LoadDB(",
    "fences": "```\n(\n" * 20_000 + "LoadDB(",
    "cells": '"cell": "' * 20_000 + "LoadDB(",
    "SQL of parentheses": "SQLInterpreter('select " + "(" * 3_000 + "1" + ")" * 3_000 + "')",
    "SQL of many tables": "SQLInterpreter('select x from " + ", ".join(f"t{n} a" for n in range(900)) + "')",  # noqa: S608 - no database hears it
    "nulls": "LoadDB('\0",
    "surrogates": "LoadDB('\ud800",
}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE)
def test_gives_up_on_hostile_code_soon(code: str) -> None:
    """Code that is made to take long, or to go deep, is refused in time."""
    started = time.process_time()
    with pytest.raises(ValueError, match=r"\w"):
        columns_read(code, SCHEMA)
    assert time.process_time() - started < 5


def columns(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from(SCHEMA[name])


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, Expected]:
    """Draw a program in straight lines, and what it reads."""
    lines: list[str] = []
    found: dict[str, set[str]] = {}
    bound: dict[str, str] = {}
    for _ in range(draw(st.integers(1, 12))):
        variable = draw(st.sampled_from("abc"))
        table = bound.get(variable)
        if table is None or draw(st.booleans()):
            table = bound[variable] = draw(st.sampled_from(sorted(SCHEMA)))
            lines.append(f"{variable} = LoadDB({table!r})")
            found.setdefault(table, set())
            continue
        column = draw(columns(table))
        other = draw(st.sampled_from("abc"))
        lines.append(
            draw(
                st.sampled_from(
                    [
                        f"{other} = FilterDB({variable}, '{column}=' + str(x))",
                        f"{other} = FilterDB({variable}, 'max({column})')",
                        f"{other} = {variable}[{variable}['{column}'] == x]",
                        f"{other} = {variable}.sort_values('{column}')",
                        f"x = GetValue({variable}, '{column}, list')",
                        f"x = {variable}.{column}.unique()",
                        f"x = [r['{column}'] for _, r in {variable}.iterrows()]",
                    ]
                )
            )
        )
        found[table].add(column)
        if lines[-1].startswith(other):
            bound[other] = table
    return "\n".join(lines), {name: sorted(read) for name, read in found.items()}


@given(programs())
def test_reads_of_straight_programs_are_exact(case: tuple[str, Expected]) -> None:
    """A program built with known reads has just these, escaped or not, in a log or alone."""
    code, expected = case
    log = "Knowledge:\n- none\n\nGenerated code:\n{}\nAnswer:\n5"
    for text in (code, code.replace("\n", "\\n"), log.format(code), log.format(code.replace("\n", "\\n"))):
        assert columns_read(text + "\n" if text is code else text, SCHEMA) == expected


PIECES = [
    "LoadDB('lab')",
    "x = ",
    "Code:\n",
    "Answer:\n",
    "```",
    "\n",
    "\\n",
    "'",
    '"',
    "(",
    ")",
    "for x in y:\n ",
    "#",
    "\\",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
@example("Code:")
@example("\\")
@example('"cell": "\\')
@settings(max_examples=examples(300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes it fail in another way."""
    try:
        found = columns_read(text, SCHEMA)
    except ValueError:
        return
    assert all(isinstance(column, str) for read in found.values() for column in read)


@pytest.fixture
def runs() -> Path:
    path = ROOT.parent / "shared" / "data" / "eicu-ac"
    if not path.exists():
        pytest.skip("the reference runs are not on this machine")
    return path


def test_agrees_with_the_reference_runs(runs: Path) -> None:
    """The missing columns match the reference, except for one run whose truth counts a column that it never reads."""
    table_of = json.loads((runs / "access_table.json").read_text())
    for line in (runs / "public.jsonl").read_text().splitlines():
        row = json.loads(line)
        allowed = table_of["access"][row["role"]]
        needed = columns_read(row["agent_output"], table_of["schema"])
        lacks = {name: set(read) - set(allowed.get(name, ())) for name, read in needed.items()}
        lacks = {name: read for name, read in lacks.items() if read or name not in allowed}
        truth = {name: set(read) for name, read in row["inaccessible"].items()}
        assert lacks == truth or row["id"] == "950d609056aea9c4b9dcc4f0:general administration", row["id"]


def test_the_same_question_is_worked_out_once() -> None:
    """The host checks again what the program has checked, with the schema in another order."""
    code = "answer = GetValue(LoadDB('lab'), 'labname')  # asked twice"
    work = columns_read.__globals__["_read"]
    before = work.cache_info()
    for schema in (SCHEMA, dict(reversed(SCHEMA.items()))):
        assert columns_read(code, schema) == {"lab": ["labname"]}
    assert (work.cache_info().misses - before.misses, work.cache_info().hits - before.hits) == (1, 1)


def test_a_schema_with_a_text_in_place_of_columns_is_an_error() -> None:
    """Its letters would be taken for columns."""
    with pytest.raises(ValueError, match="not a mapping of databases to lists"):
        columns_read("db = LoadDB('lab')", {"lab": "name"})
