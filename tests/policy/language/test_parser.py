"""The parser of rules over data, and its error messages."""

from __future__ import annotations

from fractions import Fraction

import pytest

from guardagent.policy.language import ast
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.language.parser import read_rule

PAY = ast.Pattern(("pay",))


def condition(text: str) -> ast.Term:
    rule = read_rule(f"forall(f:pay(id=x, n=y), {text})")
    assert isinstance(rule, ast.Forall)
    return rule.condition


def value(text: str) -> ast.Term:
    compared = condition(f"({text}) == 0")
    assert isinstance(compared, ast.Compare)
    return compared.left


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("forall(pay(), True)", ast.Forall(PAY, ast.TRUE)),
        ("exists(pay())", ast.Exists(PAY, ast.TRUE)),
        ("before(pay(), true, get(), True,)", None),
        ("seq(get(), pay())", ast.Before(PAY, ast.TRUE, ast.Pattern(("get",)), ast.TRUE)),
        ("NOT (exists(pay()))", ast.Not(ast.Exists(PAY, ast.TRUE))),
        ("exists(pay()) AND exists(pay())", ast.AllOf((ast.Exists(PAY, ast.TRUE),) * 2)),
        ("forall (\n  pay ( ) , # a comment\n  True )", ast.Forall(PAY, ast.TRUE)),
    ],
)
def test_forms(text: str, rule: ast.Rule | None) -> None:
    """The five forms and their combinations; a trailing comma is an error."""
    if rule is None:
        with pytest.raises(TemporalError):
            read_rule(text)
    else:
        assert read_rule(text) == rule


def test_patterns() -> None:
    """Alternatives, tags, quoted names, and every kind of argument."""
    text = r"""forall(f:pay|"get it"|@money(a="x\"", b=-1.50, c=true, d=/a\/b/, e=.*, "f g"=v, h='y',), true)"""
    rule = read_rule(text)
    assert isinstance(rule, ast.Forall)
    assert rule.pattern.tools == ("pay", "get it", "@money")
    assert rule.pattern.label == "f"
    assert [(argument.name, argument.value) for argument in rule.pattern.arguments] == [
        ("a", ast.ExactValue('x"')),
        ("b", ast.ExactValue(Fraction(-3, 2))),
        ("c", ast.ExactValue(value=True)),
        ("d", ast.RegexValue("a/b")),
        ("e", ast.AnyValue()),
        ("f g", ast.Variable("v")),
        ("h", ast.ExactValue("y")),
    ]


X, Y = ast.Variable("x"), ast.Variable("y")
ONE = ast.Constant(1)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("x || y && x", ast.Or((X, ast.And((Y, X))))),
        ("x OR y AND NOT x", ast.Or((X, ast.And((Y, ast.Negation(X)))))),
        ("x -> y -> x", ast.Implies(X, ast.Implies(Y, X))),
        ("!x == y", ast.Negation(ast.Compare(X, "==", Y))),
        ("x matches /a|b/", ast.Matches(X, "a|b")),
        ("any(z in x, z == y)", ast.OverItems("any", "z", X, ast.Compare(ast.Variable("z"), "==", Y))),
        ("known(x)", ast.Known(X)),
    ],
)
def test_conditions(text: str, term: ast.Term) -> None:
    """Precedence, in both spellings of the operators."""
    assert condition(text) == term


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("x - 1 - y", ast.Arithmetic(ast.Arithmetic(X, "-", ONE), "-", Y)),
        ("x + 1 * y", ast.Arithmetic(X, "+", ast.Arithmetic(ONE, "*", Y))),
        ("-x.a[1]", ast.Negative(ast.Item(ast.Field(X, "a"), ONE))),
        ("1.0", ONE),
        ("[1, x]", ast.ListOf((ONE, X))),
        ("state.now", ast.Field(ast.State(), "now")),
        ("fact(context.who)", ast.Fact(("context", "who"))),
        ("output(last(pay()))", ast.OfCall("output", ast.Selected("last", PAY, ast.TRUE))),
        ("count(pay())", ast.CountCalls(PAY, ast.TRUE)),
        ("count(z in x, true)", ast.OverItems("count", "z", X, ast.TRUE)),
    ],
)
def test_terms(text: str, term: ast.Term) -> None:
    """Terms that are values."""
    assert value(text) == term


@pytest.mark.parametrize(
    ("text", "problem", "column"),
    [
        ("forall(pay())", "expected ','", 13),
        ("forall(pay)", "unexpected ')'; expected '(' or ':' or an operator", 11),
        ("foral(pay(), true)", "did you mean 'forall'", 6),
        ("forall(pay(), x == 1)", "unknown variable 'x'", 15),
        ("forall(pay(id=item), itm == 1)", "unknown variable 'itm'; did you mean 'item'?", 22),
        ("before(pay(), x == 1, get(id=x), True)", "unknown variable 'x'", 15),
        ("forall(pay(), any(x in [1], true) && x == 1)", "unknown variable 'x'", 38),
        ("forall(pay(), count(g:get()) == 1 && failed(g))", "unknown call 'g'", 45),
        ("forall(f:pay(), output(f) == 1)", "of a proposed call does not exist yet; expected 'args(f)'", 24),
        ("after(f:pay(), failed(f), get(), True)", "of a proposed call does not exist yet", 23),
        ("forall(f:pay(), f == 1)", "'f' is a call; expected 'output(f)', 'args(f)' or 'failed(f)'", 17),
        ("forall(f:pay(), args(g).n == 1)", "unknown call 'g'", 22),
        ("before(f:pay(), True, f:get(), True)", "the name 'f' is already in use; choose another label", 23),
        ("forall(pay(a=x, a=y), true)", "argument 'a' appears twice", 8),
        ("forall(pay(n=state), true)", "'state' cannot name a variable; choose another name", 12),
        ("forall(pay(n=x), all(x in [1], true))", "'x' cannot name the items here; choose a new name", 22),
        ("forall(pay(n=/(/), true)", "invalid regular expression: missing ): (", 14),
        (r"forall(pay(n=/(?=a)/), true)", "invalid regular expression", 14),
        (r'forall(pay(n="\q"), true)', r"unknown escape '\q' in a string", 14),
        ("forall(pay(n=x.k), true)", "unknown variable 'x'", 14),
        ("forall(pay(n=x), let x = 1 in x == 1)", "'x' cannot name the value here", 22),
        ("forall(pay(), let x = 1 == x == 1)", "unexpected '=='; expected 'let x = VALUE in CONDITION'", 25),
        ("forall(pay(n=x), let y = x == 1 || x == 2 in y)", "put the value in parentheses: 'let y = (...)", 43),
        ("forall(pay(n=x), let y = x > 1 in !y)", "put the value in parentheses: 'let y = (...)", 35),
        ("forall(pay(n=x), let y = !(x == 1) in y)", "put the value in parentheses: 'let y = (...)", 26),
        ("forall(pay(), state(open()) = 1)", "did you mean '=='?", 29),
        ('forall(pay(), "a" and "b")', "did you mean 'AND'?", 19),
        ("forall(pay(), 1 < 2 < 3)", "unexpected '< 3)'; expected ')' or '->' or 'AND'", 21),
        ("forall(pay(n=x), x matches x)", "expected a regular expression between slashes", 28),
        ("forall(pay(n=x), x + 1)", "expected a condition; 'x + 1' is neither true nor false", 18),
        ("forall(pay(n=x), lower(x))", "expected a condition; 'lower(x)' is neither true nor false", 18),
        ("forall(pay(), true", "unexpected end", 19),
        ("forall(pay(), true))", "expected the end", 20),
        ("G forall(pay(), true)", "is inside of a temporal operator", 3),
        ("seq(pay())", "unexpected ')'; expected ','", 10),
        ("count(pay()) == 1", "unexpected '(pay()) == 1'", 6),
        (f"forall(pay(), {'!' * 5000}true)", "nested too deeply", 1),
        # Disagreement: these are read, as a variable and as a label, which is not what was meant.
        ("forall(pay(n=null), true)", "'null'", 14),
        ("forall(pay(n=None), true)", "'None'", 14),
        ("forall(action:pay(), true)", "'action'", 8),
    ],
)
def test_a_syntax_error_shows_a_caret(text: str, problem: str, column: int) -> None:
    """The caret is under the place, and the message says what was expected."""
    with pytest.raises(TemporalError) as raised:
        read_rule(text)
    assert problem in str(raised.value)
    assert raised.value.column == column
    assert str(raised.value).splitlines()[-1] == " " * (column + 1) + "^"


def test_the_caret_stands_in_the_line_that_is_wrong() -> None:
    """A rule can have several lines."""
    with pytest.raises(TemporalError) as raised:
        read_rule("forall(pay(id=x),\n  x == 1 &&\n  output(first(get())).id == y)")
    assert (raised.value.line, raised.value.column) == (3, 30)
    assert str(raised.value).splitlines()[1:] == ["    output(first(get())).id == y)", " " * 31 + "^"]
