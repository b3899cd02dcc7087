"""Faulty policies from several domains, the findings for each, and the change that corrects it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from tests.policy.tables import paragraphs


@dataclass(frozen=True)
class Case:
    """A faulty policy file.

    `findings`: the kind, the policy and the tool of every finding. Replacing `wrong` by `right` in the text
    corrects the policy.
    """

    name: str
    findings: frozenset[tuple[str, str | None, str | None]]
    wrong: str
    right: str
    text: str

    @property
    def mended(self) -> str:
        assert self.wrong in self.text, self.name
        return self.text.replace(self.wrong, self.right)


Found = tuple[str, str | None, str | None]


def case(name: str, findings: Found | set[Found], wrong: str, right: str, rules: str, head: str = "") -> Case:
    several = findings if isinstance(findings, set) else {findings}
    return Case(name, frozenset(several), wrong, right, f"version: 1\n{head}policies:\n{rules}\n")


def cases(table: str) -> list[Case]:
    """Cases as a name, findings, declarations, and rules as `id [response]: rule`; behind `~` is the corrected rule.

    A solver rule is `id [response]: {tools}` after its lines of SMT-LIB. `change: wrong ~ right` corrects any text.
    """
    made = []
    for name, expected, *lines in paragraphs(re.sub(r"\n {4}", " ", table)):
        head, smt, rules, wrong, right = "", "", "", "", ""
        for line in lines:
            title, _, text = line.partition(": ")
            faulty, _, corrected = text.partition(" ~ ")
            identifier, _, response = title.rstrip("]").partition(" [")
            start = f"- id: {identifier}\n  on_violation: {response or 'block'}\n"
            if line.startswith("("):
                smt += f"      {line}\n"
            elif title == "change":
                wrong, right = faulty, corrected
            elif title in ("labels", "tags", "tools", "unlisted"):
                head += f"{line}\n"
            elif text.startswith("{"):
                rules, smt = f"{rules}{start}  solver:\n    smt: |\n{smt}    tools: {text}\n", ""
            else:
                rules += f"{start}  temporal: {json.dumps(faulty)}\n"
                if corrected:
                    wrong, right = (f"{start}  temporal: {json.dumps(rule)}" for rule in (faulty, corrected))
        findings = {_finding(*words.split()) for words in expected.split(", ")}
        made.append(case(name, findings, wrong, right, rules, head))
    return made


def _finding(kind: str, policy: str, tool: str) -> Found:
    return kind, None if policy == "-" else policy, None if tool == "-" else tool


STEPS = cases("""
deployment: each of two steps needs the other one first
  contradictory build_after_test build, contradictory build_after_test run_tests
  test_after_build: G(tool:run_tests -> O tool:build)
  build_after_test: G(tool:build -> O tool:run_tests) ~ G(tool:build -> O tool:checkout)
bank: what a transfer needs first is forbidden
  contradictory approved transfer
  approved: G(tool:transfer -> O tool:approve)
  nobody_approves: G !tool:approve ~ G(tool:approve -> O tool:open_account)
hospital: once a chart is opened it has to be closed, and nothing may close it
  contradictory closed open_chart
  closed [halt]: tool:open_chart -> F tool:close_chart
  charts_stay: G !(tool:close_chart || tool:delete_chart) ~ G !tool:delete_chart
HR: two things are both the very next step
  contradictory payroll_next hire
  badge_next: G(tool:hire -> X tool:issue_badge)
  payroll_next: G(tool:hire -> X tool:add_to_payroll) ~ G(tool:hire -> X X tool:add_to_payroll)
shop: a precondition without G looks at the first step only
  vacuous login_first refund
  login_first: tool:refund -> O tool:login ~ G(tool:refund -> O tool:login)
bank: a ban without G is over after the first step
  vacuous no_wire wire
  no_wire: !tool:wire ~ G !tool:wire
support: an answer that is owed, to more than one thing, without G
  vacuous answered close_ticket
  answered: tool:close_ticket -> F (tool:send_survey || tool:call_back)
    ~ G(tool:close_ticket -> F (tool:send_survey || tool:call_back))
deployment: a step that is its own precondition
  vacuous approved deploy
  approved [halt]: G(tool:deploy -> O tool:deploy) ~ G(tool:deploy -> O tool:approve)
hospital: one rule in two spellings
  duplicate consent_before_surgery operate
  consent: G(tool:operate -> O tool:get_consent)
  consent_before_surgery: before(operate(), true, get_consent(), true) ~ before(operate(), true, brief_team(), true)
data: a set and its members
  duplicate logged_writes insert
  tags: {writes: [insert, update]}
  writes: G(@writes -> O tool:log_in)
  logged_writes: G((tool:insert || tool:update) -> O tool:log_in) ~ G((tool:insert || tool:update) -> O tool:begin)
deployment: a warning beside a rule that blocks for less
  shadowed reviewed deploy
  reviewed [warn]: G(tool:deploy -> O (tool:review || tool:override))
    ~ G(tool:deploy -> Y (tool:review || tool:override))
  reviewed_by_a_person: G(tool:deploy -> O tool:review)
shop: a precondition of what is forbidden
  contradictory refund_after_login refund
  no_refunds: G !tool:refund ~ G !tool:delete_order
  refund_after_login: G(tool:refund -> O tool:login)
HR: a tool that no rule names
  uncovered - delete_employee
  tools: [interview, hire, delete_employee]
  interviewed: G(tool:hire -> O tool:interview) ~ G((tool:hire || tool:delete_employee) -> O tool:interview)
airline: what is denied because it was forgotten
  uncovered - get_booking
  tools: {book: [seat], rebook: [seat], get_booking: [id]}
  unlisted: deny
  confirmed: forall(book|rebook(), fact(user_confirmed) == true)
    ~ forall(book|rebook|get_booking(), fact(user_confirmed) == true)
""")

DATA = [
    *cases("""
clinic: an appointment whose number may be a part of another one in the chat
  underconstrained named cancel
  named: forall(cancel(number=n), n in text(user)) ~ forall(cancel(number=n), mentions(text(user), n))
bank: an account that is sought in an output of any shape
  underconstrained account_shown transfer
  account_shown: forall(transfer(to=i), some(f:get_accounts(), i in output(f)))
    ~ forall(transfer(to=i), some(f:get_accounts(), mentions(output(f), i)))
bank: an optional field of a value that need not be a mapping
  underconstrained own_account call
  own_account: forall(call(arguments=a), !known(a.account_id) || a.account_id == "mine")
    ~ forall(call(arguments=a), !has(a, "account_id") || a.account_id == "mine")
bank: an optional field in a case
  underconstrained limit pay
  limit: forall(pay(options=o), known(o["limit"]) -> o["limit"] <= 5)
    ~ forall(pay(options=o), has(o, "limit") -> o.limit <= 5)
mail: an optional field of each item
  underconstrained to send
  to: forall(send(mails=ms), all(m in ms, !known(m.bcc) || m.bcc == "a"))
    ~ forall(send(mails=ms), all(m in ms, m.bcc == "a"))
shop: a login that an optional field asks for
  underconstrained login order
  login: before(order(options=o), known(o.express), login(), true)
    ~ before(order(options=o), has(o, "express"), login(), true)
shop: an optional field of an output
  underconstrained paid ship
  paid: forall(ship(), !known(output(last(get_order())).due)) ~ forall(ship(), output(last(get_order())).due == 0)
shop: an order that is sought in the output of the last call, with a negation
  underconstrained no_repeat refund
  no_repeat: forall(refund(order=o), !(o in output(last(list_refunds()))))
    ~ forall(refund(order=o), !(o in keys(output(last(list_refunds())))))
bank: an hour that no day has
  contradictory hours transfer
  hours: forall(transfer(), hour(now) == 24) ~ forall(transfer(), hour(now) < 18)
shop: the last order can be no newer than now
  vacuous order_first refund
  order_first: forall(refund(), !(time(last(order())) > now)) ~ forall(refund(), now - time(last(order())) <= 1h)
mail: no rule reads a label
  vacuous - -
  labels: {untrusted: get_webpage, private: read_file}
  recipient: forall(send_email(to=r), !("untrusted" in sources(r)))
    ~ forall(send_email(to=r), sources(r) & {"untrusted", "private"} == {})
mail: no recipient has and lacks the same label
  contradictory recipient send_email
  labels: {user: request}
  recipient: forall(send_email(to=r), "user" in sources(r) && !("user" in sources(r)))
    ~ forall(send_email(to=r), "user" in sources(r))
shop: an amount that cannot be
  contradictory within refund
  within: forall(refund(amount=a), a > 500 && a < 100) ~ forall(refund(amount=a), a > 0 && a < 100)
bank: two rules that no amount keeps
  contradictory large transfer
  small: forall(transfer(amount=a), a <= 1000)
  large [halt]: forall(transfer(amount=a), a >= 10000) ~ forall(transfer(amount=a), a >= 100)
deployment: an environment that is two at once
  contradictory staging_only deploy
  production_only: forall(deploy(env=e), e == "production")
  staging_only: forall(deploy(env=e), e == "staging") ~ forall(deploy(env=e), fact(approved) == true)
HR: what has to come first cannot be kept itself
  contradictory interviewed hire, contradictory interviews interview
  interviewed: before(hire(), true, interview(), true)
  interviews: forall(interview(round=r), r < 5 && r > 5) ~ forall(interview(round=r), r < 5 && r > 1)
hospital: a condition that every number satisfies
  vacuous dose prescribe
  dose: forall(prescribe(dose=d), d < 50 || d >= 10) ~ forall(prescribe(dose=d), d < 50 && d >= 10)
bank: the same limit the other way round
  duplicate limit transfer
  at_most_1000: forall(transfer(amount=a), a <= 1000)
  limit: forall(transfer(amount=x), !(x > 1000)) ~ forall(transfer(amount=x), !(x < 1))
shop: a limit above another one
  shadowed at_most_500 refund
  at_most_500 [warn]: forall(refund(amount=a), a <= 500) ~ forall(refund(amount=a), a >= 5)
  at_most_100: forall(refund(amount=b), b <= 100)
airline: a case of a cabin that is excluded beside it
  unreachable cabins book
  cabins: forall(book(cabin=c), c in ["economy", "business"] && (c == "first" -> fact(member) == true))
    ~ forall(book(cabin=c), c in ["economy", "business", "first"] && (c == "first" -> fact(member) == true))
bank: what a data rule asks for is more than a solver rule permits
  contradictory small transfer
  change: a > 100 ~ a > 10
  worth_it: forall(transfer(amount=a), a > 100 && fact(user_confirmed) == true)
  (declare-const amount Real)
  small: {transfer: {permit: (<= amount 100.0), variables: {amount: {from: args.amount}}}}
deployment: what has to be done by the end, twice
  duplicate summary_at_the_end write_summary
  summary: exists(write_summary(kind="x"))
  summary_at_the_end: exists(write_summary(kind="x")) ~ exists(write_summary(kind="y"))
"""),
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
]

SOLVER = cases("""
airline: what allows to cancel is written as an implication
  underconstrained eligible cancel
  change: (=> (or ~ (= (or
  (declare-datatypes ((Cabin 0)) (((basic_economy) (economy) (business))))
  (declare-const hours Real) ; booked {} hours ago
  (declare-const cabin Cabin)
  (declare-const can_cancel Bool)
  (assert (! (=> (or (<= hours 24.0) (= cabin business)) can_cancel) :named within_a_day))
  eligible: {cancel: {permit: can_cancel, variables: {hours: {from: args.hours}, cabin: {from: args.cabin}}}}
bank: an amount that is bounded on one side only
  underconstrained fee transfer
  change: (>= fee (/ amount 100.0)) ~ (= fee (/ amount 100.0))
  (declare-const amount Real)
  (declare-const charged Real)
  (declare-const fee Real)
  (assert (>= fee (/ amount 100.0)))
  fee: {transfer: {permit: (= charged fee), variables: {amount: {from: args.amount}, charged: {from: args.fee}}}}
hospital: a fact that nobody gives
  underconstrained consent operate
  change: variables: { ~ variables: {consent: {from: fact(consent)},
  (declare-const age Int)
  (declare-const consent Bool)
  consent: {operate: {permit: (and consent (>= age 0)), variables: {age: {from: args.age}}}}
dinner: a share of nobody
  underconstrained share pay
  change: (<= (div total people) 9) ~ (and (> people 0) (<= (div total people) 9))
  (declare-const total Int)
  (declare-const people Int)
  share: {pay: {permit: (<= (div total people) 9), variables: {total: {from: args.all}, people: {from: args.people}}}}
deployment: a variable that may be whatever permits it
  underconstrained approved deploy
  change: approved: {free: any} ~ approved: {from: fact(approved)}
  (declare-datatypes ((Env 0)) (((staging) (production))))
  (declare-const env Env)
  (declare-const approved Bool)
  approved: {deploy: {permit: (or (= env staging) approved), variables: {env: {from: args.env}, approved: {free: any}}}}
HR: of two implications one way is open
  underconstrained raises raise_salary
  change: (assert (=> (not manager) (not may_raise))) ~ (assert (=> (or (not manager) (> percent 10)) (not may_raise)))
  (declare-const manager Bool)
  (declare-const percent Int)
  (declare-const may_raise Bool)
  (assert (=> (and manager (<= percent 10)) may_raise))
  (assert (=> (not manager) (not may_raise)))
  raises: {raise_salary: {permit: may_raise, variables:
    {manager: {from: fact(is_manager)}, percent: {from: args.percent}}}}
shop: a permit that no amount satisfies
  contradictory refunds refund
  change: (and (> amount 500) (< amount 100)) ~ (and (> amount 0) (< amount 100))
  (declare-const amount Int)
  refunds: {refund: {permit: (and (> amount 500) (< amount 100)), variables: {amount: {from: args.amount}}}}
bank: assertions that contradict each other
  contradictory limits transfer
  change: (= limit 500) ~ (= limit 1000)
  (declare-const amount Int)
  (declare-const limit Int)
  (assert (! (= limit 500) :named ordinary))
  (assert (! (>= limit 1000) :named premium))
  limits: {transfer: {permit: (<= amount limit), variables: {amount: {from: args.amount}}}}
airline: two rules that no number of bags keeps
  contradictory at_least book
  change: permit: (>= bags 4) ~ permit: (>= bags 1)
  (declare-const bags Int)
  at_most: {book: {permit: (<= bags 3), variables: {bags: {from: args.bags}}}}
  (declare-const bags Int)
  at_least: {book: {permit: (>= bags 4), variables: {bags: {from: args.bags}}}}
shop: a number of things that is never below nothing
  vacuous items order
  change: (>= items 0) ~ (>= items 1)
  (declare-const items Int) ; {} items
  items: {order: {permit: (>= items 0), variables: {items: {from: len(args.items)}}}}
hospital: a permit that is one of all wards
  vacuous wards admit
  change: (or (= ward surgery) (= ward emergency) (= ward nursery)) ~ (or (= ward surgery) (= ward emergency))
  (declare-datatypes ((Ward 0)) (((surgery) (emergency) (nursery))))
  (declare-const ward Ward)
  wards: {admit: {permit: (or (= ward surgery) (= ward emergency) (= ward nursery)), variables:
    {ward: {from: args.ward}}}}
airline: a cabin that the assertions exclude
  unreachable cabins book
  change: (assert (not (= cabin first))) ~ (assert (or member (not (= cabin first))))
  (declare-datatypes ((Cabin 0)) (((economy) (business) (first))))
  (declare-const cabin Cabin)
  (declare-const member Bool)
  (assert (not (= cabin first)))
  cabins: {book: {permit: (or member (= cabin economy)), variables:
    {cabin: {from: args.cabin}, member: {from: fact(member)}}}}
shop: a way of delivery that cannot be
  unreachable delivery ship
  change: (not (= speed "drone")) ~ (not (= speed "mule"))
  (declare-const speed String)
  (declare-const weight Int)
  (assert (not (= speed "drone")))
  delivery: {ship: {permit: (or (= speed "standard") (< weight 5)), variables:
    {speed: {from: args.speed, enum: [standard, express, drone]}, weight: {from: args.weight}}}}
bank: one limit in two solver rules
  duplicate limit transfer
  change: (not (> sum 1000)) ~ (not (< sum 10))
  (declare-const amount Int)
  at_most_1000: {transfer: {permit: (<= amount 1000), variables: {amount: {from: args.amount}}}}
  (declare-const sum Int)
  limit: {transfer: {permit: (not (> sum 1000)), variables: {sum: {from: args.amount}}}}
HR: a solver rule that a stricter one leaves nothing to
  shadowed at_most_10 raise_salary
  change: (<= percent 10) ~ (>= percent 1)
  (declare-const percent Int)
  at_most_10 [warn]: {raise_salary: {permit: (<= percent 10), variables: {percent: {from: args.percent}}}}
  (declare-const percent Int)
  (declare-const manager Bool)
  (declare-const limit Int)
  (assert (= limit (ite manager 5 2)))
  at_most_5: {raise_salary: {permit: (<= percent limit), variables:
    {percent: {from: args.percent}, manager: {from: fact(is_manager)}}}}
HR: two facts that only say the same of each other
  underconstrained bonus pay_bonus
  change: (assert (= earned agreed)) ~ (assert (= earned agreed (> sum 10)))
  (declare-const earned Bool)
  (declare-const agreed Bool)
  (declare-const sum Int)
  (assert (= earned agreed))
  bonus: {pay_bonus: {permit: (and earned (> sum 3)), variables: {sum: {from: args.sum}}}}
deployment: a level of the file's own sort that the assertions exclude
  unreachable levels deploy
  change: (assert (not (= level canary))) ~ (assert (or approved (not (= level canary))))
  (declare-const approved Bool)
  (assert (not (= level canary)))
  levels: {deploy: {permit: (or approved (= level preview)), variables:
    {level: {sort: Level, enum: [preview, canary, full], from: args.level}, approved: {from: fact(approved)}}}}
airline: what is read in the conversation, or is not, and permits it either way
  underconstrained reasons cancel
  change: from: conversation(user), free: any ~ from: conversation(user)
  (declare-const reason String)
  (declare-const insured Bool)
  reasons: {cancel: {permit: (and insured (= reason "health")), variables:
    {reason: {from: conversation(user), free: any}, insured: {from: fact(insured)}}}}
""")
