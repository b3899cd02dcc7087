"""Faulty policies from several domains, the findings for each, and the change that corrects it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A faulty policy file.

    `found`: the kind, the policy and the tool of every finding. Replacing `wrong` by `right` in the text
    corrects the policy.
    """

    name: str
    found: frozenset[tuple[str, str | None, str | None]]
    wrong: str
    right: str
    text: str

    @property
    def mended(self) -> str:
        assert self.wrong in self.text, self.name
        return self.text.replace(self.wrong, self.right)


Found = tuple[str, str | None, str | None]


def case(name: str, found: Found | set[Found], wrong: str, right: str, rules: str, head: str = "") -> Case:
    several = found if isinstance(found, set) else {found}
    return Case(name, frozenset(several), wrong, right, f"version: 1\n{head}policies:\n{rules}\n")


STEPS = [
    case(
        "deployment: each of two steps needs the other one first",
        {("contradictory", "build_after_test", "build"), ("contradictory", "build_after_test", "run_tests")},
        "G(tool:build -> O tool:run_tests)",
        "G(tool:build -> O tool:checkout)",
        """- {id: test_after_build, temporal: G(tool:run_tests -> O tool:build)}
- {id: build_after_test, temporal: G(tool:build -> O tool:run_tests)}
""",
    ),
    case(
        "bank: what a transfer needs first is forbidden",
        ("contradictory", "approved", "transfer"),
        "G !tool:approve",
        "G(tool:approve -> O tool:open_account)",
        """- {id: approved, temporal: G(tool:transfer -> O tool:approve)}
- {id: nobody_approves, temporal: G !tool:approve}
""",
    ),
    case(
        "hospital: once a chart is opened it has to be closed, and nothing may close it",
        ("contradictory", "closed", "open_chart"),
        "G !(tool:close_chart || tool:delete_chart)",
        "G !tool:delete_chart",
        """- {id: closed, temporal: tool:open_chart -> F tool:close_chart, on_violation: halt}
- {id: charts_stay, temporal: G !(tool:close_chart || tool:delete_chart)}
""",
    ),
    case(
        "HR: two things are both the very next step",
        ("contradictory", "payroll_next", "hire"),
        "G(tool:hire -> X tool:add_to_payroll)",
        "G(tool:hire -> X X tool:add_to_payroll)",
        """- {id: badge_next, temporal: G(tool:hire -> X tool:issue_badge)}
- {id: payroll_next, temporal: G(tool:hire -> X tool:add_to_payroll)}
""",
    ),
    case(
        "airline: with tools that no rule concerns denied, what comes first cannot come",
        ("contradictory", "seen", "rebook"),
        "unlisted: deny",
        "unlisted: allow",
        "- {id: seen, temporal: 'before(rebook(), true, get_booking(), true)'}",
        head="unlisted: deny\n",
    ),
    case(
        "shop: a precondition without G looks at the first step only",
        ("vacuous", "login_first", "refund"),
        "tool:refund -> O tool:login",
        "G(tool:refund -> O tool:login)",
        "- {id: login_first, temporal: tool:refund -> O tool:login}",
    ),
    case(
        "bank: a ban without G is over after the first step",
        ("vacuous", "no_wire", "wire"),
        "'!tool:wire'",
        "'G !tool:wire'",
        "- {id: no_wire, temporal: '!tool:wire'}",
    ),
    case(
        "support: an answer that is owed, to more than one thing, without G",
        ("vacuous", "answered", "close_ticket"),
        "tool:close_ticket -> F (tool:send_survey || tool:call_back)",
        "G(tool:close_ticket -> F (tool:send_survey || tool:call_back))",
        "- {id: answered, temporal: tool:close_ticket -> F (tool:send_survey || tool:call_back)}",
    ),
    case(
        "deployment: a step that is its own precondition",
        ("vacuous", "approved", "deploy"),
        "G(tool:deploy -> O tool:deploy)",
        "G(tool:deploy -> O tool:approve)",
        "- {id: approved, temporal: G(tool:deploy -> O tool:deploy), on_violation: halt}",
    ),
    case(
        "hospital: one rule in two spellings",
        ("duplicate", "consent_before_surgery", "operate"),
        "before(operate(), true, get_consent(), true)",
        "before(operate(), true, brief_team(), true)",
        """- {id: consent, temporal: G(tool:operate -> O tool:get_consent)}
- {id: consent_before_surgery, temporal: 'before(operate(), true, get_consent(), true)'}
""",
    ),
    case(
        "data: a set and its members",
        ("duplicate", "logged_writes", "insert"),
        "G((tool:insert || tool:update) -> O tool:log_in)",
        "G((tool:insert || tool:update) -> O tool:begin)",
        """- {id: writes, temporal: G(@writes -> O tool:log_in)}
- {id: logged_writes, temporal: G((tool:insert || tool:update) -> O tool:log_in)}
""",
        head="tags: {writes: [insert, update]}\n",
    ),
    case(
        "deployment: a warning beside a rule that blocks for less",
        ("shadowed", "reviewed", "deploy"),
        "G(tool:deploy -> O (tool:review || tool:override))",
        "G(tool:deploy -> Y (tool:review || tool:override))",
        """- {id: reviewed, temporal: G(tool:deploy -> O (tool:review || tool:override)), on_violation: warn}
- {id: reviewed_by_a_person, temporal: G(tool:deploy -> O tool:review)}
""",
    ),
    case(
        "shop: a precondition of what is forbidden",
        ("contradictory", "refund_after_login", "refund"),
        "G !tool:refund",
        "G !tool:delete_order",
        """- {id: no_refunds, temporal: G !tool:refund}
- {id: refund_after_login, temporal: G(tool:refund -> O tool:login)}
""",
    ),
    case(
        "HR: a tool that no rule names",
        ("uncovered", None, "delete_employee"),
        "temporal: G(tool:hire -> O tool:interview)",
        "temporal: G((tool:hire || tool:delete_employee) -> O tool:interview)",
        "- {id: interviewed, temporal: G(tool:hire -> O tool:interview)}",
        head="tools: [interview, hire, delete_employee]\n",
    ),
    case(
        "airline: what is denied because it was forgotten",
        ("uncovered", None, "get_booking"),
        "book|rebook",
        "book|rebook|get_booking",
        "- {id: confirmed, temporal: 'forall(book|rebook(), fact(user_confirmed) == true)'}",
        head="tools: {book: [seat], rebook: [seat], get_booking: [id]}\nunlisted: deny\n",
    ),
]

DATA = [
    case(
        "bank: an account that is sought in an output of any shape",
        ("underconstrained", "account_shown", "transfer"),
        "i in output(f)",
        "mentions(output(f), i)",
        "- {id: account_shown, temporal: 'forall(transfer(to=i), some(f:get_accounts(), i in output(f)))'}",
    ),
    case(
        "shop: an order that is sought in the output of the last call, with a negation",
        ("underconstrained", "no_repeat", "refund"),
        "o in output(last(list_refunds()))",
        "o in keys(output(last(list_refunds())))",
        "- {id: no_repeat, temporal: 'forall(refund(order=o), !(o in output(last(list_refunds()))))'}",
    ),
    case(
        "bank: an hour that no day has",
        ("contradictory", "hours", "transfer"),
        "hour(now) == 24",
        "hour(now) < 18",
        "- {id: hours, temporal: 'forall(transfer(), hour(now) == 24)'}",
    ),
    case(
        "shop: the last order can be no newer than now",
        ("vacuous", "order_first", "refund"),
        "!(time(last(order())) > now)",
        "now - time(last(order())) <= 1h",
        "- {id: order_first, temporal: 'forall(refund(), !(time(last(order())) > now))'}",
    ),
    case(
        "mail: no rule reads a label",
        ("vacuous", None, None),
        '!("untrusted" in sources(r))',
        'sources(r) & {"untrusted", "private"} == {}',
        """- {id: recipient, temporal: 'forall(send_email(to=r), !("untrusted" in sources(r)))'}""",
        head="labels: {untrusted: get_webpage, private: read_file}\n",
    ),
    case(
        "mail: no recipient has and lacks the same label",
        ("contradictory", "recipient", "send_email"),
        '"user" in sources(r) && !("user" in sources(r))',
        '"user" in sources(r)',
        """- {id: recipient, temporal: 'forall(send_email(to=r), "user" in sources(r) && !("user" in sources(r)))'}""",
        head="labels: {user: request}\n",
    ),
    case(
        "shop: an amount that cannot be",
        ("contradictory", "within", "refund"),
        "a > 500 && a < 100",
        "a > 0 && a < 100",
        "- {id: within, temporal: 'forall(refund(amount=a), a > 500 && a < 100)'}",
    ),
    case(
        "bank: two rules that no amount keeps",
        ("contradictory", "large", "transfer"),
        "a >= 10000",
        "a >= 100",
        """- {id: small, temporal: 'forall(transfer(amount=a), a <= 1000)'}
- {id: large, temporal: 'forall(transfer(amount=a), a >= 10000)', on_violation: halt}
""",
    ),
    case(
        "deployment: an environment that is two at once",
        ("contradictory", "staging_only", "deploy"),
        'e == "staging"',
        "fact(approved) == true",
        """- {id: production_only, temporal: 'forall(deploy(env=e), e == "production")'}
- {id: staging_only, temporal: 'forall(deploy(env=e), e == "staging")'}
""",
    ),
    case(
        "bank: what a data rule asks for is more than a solver rule permits",
        ("contradictory", "small", "transfer"),
        "a > 100",
        "a > 10",
        """- {id: worth_it, temporal: 'forall(transfer(amount=a), a > 100 && fact(user_confirmed) == true)'}
- id: small
  solver:
    smt: (declare-const amount Real)
    tools: {transfer: {permit: (<= amount 100.0), variables: {amount: {from: args.amount}}}}
""",
    ),
    case(
        "HR: what has to come first cannot be kept itself",
        {("contradictory", "interviewed", "hire"), ("contradictory", "interviews", "interview")},
        "r < 5 && r > 5",
        "r < 5 && r > 1",
        """- {id: interviewed, temporal: 'before(hire(), true, interview(), true)'}
- {id: interviews, temporal: 'forall(interview(round=r), r < 5 && r > 5)'}
""",
    ),
    case(
        "deployment: what has to be done by the end, twice",
        ("duplicate", "summary_at_the_end", "write_summary"),
        'exists(write_summary(kind="x")), on',
        'exists(write_summary(kind="y")), on',
        """- {id: summary, temporal: exists(write_summary(kind="x"))}
- {id: summary_at_the_end, temporal: exists(write_summary(kind="x")), on_violation: block}
""",
    ),
    case(
        "hospital: a condition that every number satisfies",
        ("vacuous", "dose", "prescribe"),
        "d < 50 || d >= 10",
        "d < 50 && d >= 10",
        "- {id: dose, temporal: 'forall(prescribe(dose=d), d < 50 || d >= 10)'}",
    ),
    case(
        "HR: a text of several that forbids nothing",
        ("vacuous", "raise", "raise_salary"),
        "p <= 10 || p > 5",
        "p <= 10 && p > 5",
        """- id: raise
  temporal:
    - forall(raise_salary(), fact(role) == "manager")
    - forall(raise_salary(percent=p), p <= 10 || p > 5)
""",
    ),
    case(
        "bank: the same limit the other way round",
        ("duplicate", "limit", "transfer"),
        "forall(transfer(amount=x), !(x > 1000))",
        "forall(transfer(amount=x), !(x < 1))",
        """- {id: at_most_1000, temporal: 'forall(transfer(amount=a), a <= 1000)'}
- {id: limit, temporal: 'forall(transfer(amount=x), !(x > 1000))'}
""",
    ),
    case(
        "shop: a limit above another one",
        ("shadowed", "at_most_500", "refund"),
        "a <= 500",
        "a >= 5",
        """- {id: at_most_500, temporal: 'forall(refund(amount=a), a <= 500)', on_violation: warn}
- {id: at_most_100, temporal: 'forall(refund(amount=b), b <= 100)'}
""",
    ),
    case(
        "airline: a case of a cabin that is excluded beside it",
        ("unreachable", "cabins", "book"),
        'c in ["economy", "business"]',
        'c in ["economy", "business", "first"]',
        """- id: cabins
  temporal: 'forall(book(cabin=c), c in ["economy", "business"] && (c == "first" -> fact(member) == true))'
""",
    ),
]

SOLVER = [
    case(
        "airline: what allows to cancel is written as an implication",
        ("underconstrained", "eligible", "cancel"),
        "(=> (or",
        "(= (or",
        """- id: eligible
  solver:
    smt: |
      (declare-datatypes ((Cabin 0)) (((basic_economy) (economy) (business))))
      (declare-const hours Real) ; booked {} hours ago
      (declare-const cabin Cabin)
      (declare-const can_cancel Bool)
      (assert (! (=> (or (<= hours 24.0) (= cabin business)) can_cancel) :named within_a_day))
    tools: {cancel: {permit: can_cancel, variables: {hours: {from: args.hours}, cabin: {from: args.cabin}}}}
""",
    ),
    case(
        "bank: an amount that is bounded on one side only",
        ("underconstrained", "fee", "transfer"),
        "(>= fee (/ amount 100.0))",
        "(= fee (/ amount 100.0))",
        """- id: fee
  solver:
    smt: |
      (declare-const amount Real)
      (declare-const charged Real)
      (declare-const fee Real)
      (assert (>= fee (/ amount 100.0)))
    tools: {transfer: {permit: (= charged fee), variables: {amount: {from: args.amount}, charged: {from: args.fee}}}}
""",
    ),
    case(
        "hospital: a fact that nobody gives",
        ("underconstrained", "consent", "operate"),
        "variables: {",
        "variables: {consent: {from: fact(consent)}, ",
        """- id: consent
  solver:
    smt: |
      (declare-const age Int)
      (declare-const consent Bool)
    tools: {operate: {permit: (and consent (>= age 0)), variables: {age: {from: args.age}}}}
""",
    ),
    case(
        "deployment: a variable that may be whatever permits it",
        ("underconstrained", "approved", "deploy"),
        "approved: {free: any}",
        "approved: {from: fact(approved)}",
        """- id: approved
  solver:
    smt: |
      (declare-datatypes ((Env 0)) (((staging) (production))))
      (declare-const env Env)
      (declare-const approved Bool)
    tools: {deploy: {permit: (or (= env staging) approved), variables: {env: {from: args.env}, approved: {free: any}}}}
""",
    ),
    case(
        "HR: of two implications one way is open",
        ("underconstrained", "raises", "raise_salary"),
        "(assert (=> (not manager) (not may_raise)))",
        "(assert (=> (or (not manager) (> percent 10)) (not may_raise)))",
        """- id: raises
  solver:
    smt: |
      (declare-const manager Bool)
      (declare-const percent Int)
      (declare-const may_raise Bool)
      (assert (=> (and manager (<= percent 10)) may_raise))
      (assert (=> (not manager) (not may_raise)))
    tools:
      raise_salary:
        permit: may_raise
        variables: {manager: {from: fact(is_manager)}, percent: {from: args.percent}}
""",
    ),
    case(
        "shop: a permit that no amount satisfies",
        ("contradictory", "refunds", "refund"),
        "(and (> amount 500) (< amount 100))",
        "(and (> amount 0) (< amount 100))",
        """- id: refunds
  solver:
    smt: (declare-const amount Int)
    tools: {refund: {permit: (and (> amount 500) (< amount 100)), variables: {amount: {from: args.amount}}}}
""",
    ),
    case(
        "bank: assertions that contradict each other",
        ("contradictory", "limits", "transfer"),
        "(= limit 500)",
        "(= limit 1000)",
        """- id: limits
  solver:
    smt: |
      (declare-const amount Int)
      (declare-const limit Int)
      (assert (! (= limit 500) :named ordinary))
      (assert (! (>= limit 1000) :named premium))
    tools: {transfer: {permit: (<= amount limit), variables: {amount: {from: args.amount}}}}
""",
    ),
    case(
        "airline: two rules that no number of bags keeps",
        ("contradictory", "at_least", "book"),
        "permit: (>= bags 4)",
        "permit: (>= bags 1)",
        """- id: at_most
  solver:
    smt: (declare-const bags Int)
    tools: {book: {permit: (<= bags 3), variables: {bags: {from: args.bags}}}}
- id: at_least
  solver:
    smt: (declare-const bags Int)
    tools: {book: {permit: (>= bags 4), variables: {bags: {from: args.bags}}}}
""",
    ),
    case(
        "shop: a number of things that is never below nothing",
        ("vacuous", "items", "order"),
        "(>= items 0)",
        "(>= items 1)",
        """- id: items
  solver:
    smt: |
      (declare-const items Int) ; {} items
    tools: {order: {permit: (>= items 0), variables: {items: {from: len(args.items)}}}}
""",
    ),
    case(
        "hospital: a permit that is one of all wards",
        ("vacuous", "wards", "admit"),
        "(or (= ward surgery) (= ward emergency) (= ward nursery))",
        "(or (= ward surgery) (= ward emergency))",
        """- id: wards
  solver:
    smt: |
      (declare-datatypes ((Ward 0)) (((surgery) (emergency) (nursery))))
      (declare-const ward Ward)
    tools:
      admit:
        permit: (or (= ward surgery) (= ward emergency) (= ward nursery))
        variables: {ward: {from: args.ward}}
""",
    ),
    case(
        "airline: a cabin that the assertions exclude",
        ("unreachable", "cabins", "book"),
        "(assert (not (= cabin first)))",
        "(assert (or member (not (= cabin first))))",
        """- id: cabins
  solver:
    smt: |
      (declare-datatypes ((Cabin 0)) (((economy) (business) (first))))
      (declare-const cabin Cabin)
      (declare-const member Bool)
      (assert (not (= cabin first)))
    tools:
      book:
        permit: (or member (= cabin economy))
        variables: {cabin: {from: args.cabin}, member: {from: fact(member)}}
""",
    ),
    case(
        "shop: a way of delivery that cannot be",
        ("unreachable", "delivery", "ship"),
        '(not (= speed "drone"))',
        '(not (= speed "mule"))',
        """- id: delivery
  solver:
    smt: |
      (declare-const speed String)
      (declare-const weight Int)
      (assert (not (= speed "drone")))
    tools:
      ship:
        permit: (or (= speed "standard") (< weight 5))
        variables: {speed: {from: args.speed, enum: [standard, express, drone]}, weight: {from: args.weight}}
""",
    ),
    case(
        "bank: one limit in two solver rules",
        ("duplicate", "limit", "transfer"),
        "(not (> sum 1000))",
        "(not (< sum 10))",
        """- id: at_most_1000
  solver:
    smt: (declare-const amount Int)
    tools: {transfer: {permit: (<= amount 1000), variables: {amount: {from: args.amount}}}}
- id: limit
  solver:
    smt: (declare-const sum Int)
    tools: {transfer: {permit: (not (> sum 1000)), variables: {sum: {from: args.amount}}}}
""",
    ),
    case(
        "HR: a solver rule that a stricter one leaves nothing to",
        ("shadowed", "at_most_10", "raise_salary"),
        "(<= percent 10)",
        "(>= percent 1)",
        """- id: at_most_10
  on_violation: warn
  solver:
    smt: (declare-const percent Int)
    tools: {raise_salary: {permit: (<= percent 10), variables: {percent: {from: args.percent}}}}
- id: at_most_5
  solver:
    smt: |
      (declare-const percent Int)
      (declare-const manager Bool)
      (declare-const limit Int)
      (assert (= limit (ite manager 5 2)))
    tools:
      raise_salary:
        permit: (<= percent limit)
        variables: {percent: {from: args.percent}, manager: {from: fact(is_manager)}}
""",
    ),
    case(
        "HR: two facts that only say the same of each other",
        ("underconstrained", "bonus", "pay_bonus"),
        "(assert (= earned agreed))",
        "(assert (= earned agreed (> sum 10)))",
        """- id: bonus
  solver:
    smt: |
      (declare-const earned Bool)
      (declare-const agreed Bool)
      (declare-const sum Int)
      (assert (= earned agreed))
    tools: {pay_bonus: {permit: (and earned (> sum 3)), variables: {sum: {from: args.sum}}}}
""",
    ),
    case(
        "deployment: a level of the file's own sort that the assertions exclude",
        ("unreachable", "levels", "deploy"),
        "(assert (not (= level canary)))",
        "(assert (or approved (not (= level canary))))",
        """- id: levels
  solver:
    smt: |
      (declare-const approved Bool)
      (assert (not (= level canary)))
    tools:
      deploy:
        permit: (or approved (= level preview))
        variables:
          level: {sort: Level, enum: [preview, canary, full], from: args.level}
          approved: {from: fact(approved)}
""",
    ),
    case(
        "airline: what is read in the conversation, or is not, and permits it either way",
        ("underconstrained", "reasons", "cancel"),
        "from: conversation(user), free: any",
        "from: conversation(user)",
        """- id: reasons
  solver:
    smt: |
      (declare-const reason String)
      (declare-const insured Bool)
    tools:
      cancel:
        permit: (and insured (= reason "health"))
        variables: {reason: {from: conversation(user), free: any}, insured: {from: fact(insured)}}
""",
    ),
]
