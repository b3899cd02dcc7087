"""An order desk with rules, and agents that follow or violate them: `python -m benchmarks.conformance --episodes 1000`.

Each episode is played twice from the same seed: with the guard and without. An independent implementation of the rules
in plain Python judges the episodes (see policy.md and rule_book.py). The exit status is 1 if the guard allowed a call
that the rule book forbids, refused a call that it allows, or did not prevent harm.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from benchmarks.conformance.agents import AGENTS, ALL_AGENTS
from benchmarks.conformance.desk import shop_rules
from benchmarks.conformance.scores import measured, scores, sound

_COLUMNS = {
    "conformance": "conformance %",
    "conformance_calls": "of calls %",
    "harm": "harm %",
    "utility": "utility %",
    "made": "calls made",
    "judged": "judged",
    "refused": "refused",
    "let_through": "let through",
    "blocked": "blocked",
    "cpu_us_p50": "µs p50",
    "cpu_us_p99": "µs p99",
    "reading_us_p50": "reading µs p50",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conformance", description=__doc__)
    parser.add_argument("--episodes", type=int, default=1000, help="of each agent, with the guard and without (1000)")
    parser.add_argument(
        "--agents", default=",".join(AGENTS), help=f"some of {', '.join(ALL_AGENTS)}; default: all but the last"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first episode; the others follow (0)")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object for each agent, with and without the guard"
    )
    options = parser.parse_args(arguments)
    names = options.agents.split(",")
    if unknown := [name for name in names if name not in ALL_AGENTS]:
        parser.error(f"unknown agent {unknown[0]!r}; expected some of {', '.join(ALL_AGENTS)}")
    if options.episodes < 1:
        parser.error("expected at least one episode")
    rows = []
    for name in names:
        for rules in (None, shop_rules()):
            episodes = measured(name, options.episodes, options.seed, rules)
            rows.append({"agent": name, "guarded": rules is not None, **scores(episodes)})
            if options.json:
                print(json.dumps(rows[-1]), flush=True)
    if not options.json:
        print(table(rows))
    return 0 if all(sound(row) for row in rows if row["guarded"]) else 1


def table(rows: list[dict[str, Any]]) -> str:
    """The scores as a table in Markdown."""
    lines = [["agent", "guard", *_COLUMNS.values()], ["---"] * (2 + len(_COLUMNS))]
    for row in rows:
        cells = ["" if row[name] is None else f"{row[name]:,}" for name in _COLUMNS]
        lines.append([row["agent"], "yes" if row["guarded"] else "no", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
