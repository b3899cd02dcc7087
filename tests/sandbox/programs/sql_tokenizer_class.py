"""A small tokenizer for SQL, with which writes, comments and stacked statements are found."""

import re


class TokenError(Exception): ...


class Tokenizer:
    kinds = (("text", r"'(?:[^']|'')*'"), ("comment", r"--[^\n]*|/\*.*?\*/"), ("number", r"\d+"), ("word", r"\w+"))
    signs = ("sign", r"[(),.;=<>*+-]")

    def __init__(self, sql):
        self.sql = sql
        self.position = self.count = 0
        self.seen = {name: set() for name, _ in (*self.kinds, self.signs)}

    @classmethod
    def from_lines(cls, lines):
        return cls("\n".join(lines))

    @staticmethod
    def is_write(word):
        return word.lower() in {"insert", "update", "delete", "drop", "alter", "grant"}

    @property
    def done(self):
        return not self.sql[self.position :].strip()

    def __iter__(self):
        pattern = re.compile("|".join(f"(?P<{name}>{rx})" for name, rx in (*self.kinds, self.signs)), re.S)
        while not self.done:
            while self.sql[self.position].isspace():
                self.position += 1
            found = pattern.match(self.sql, self.position)
            if found is None:
                raise TokenError(f"cannot read {self.sql[self.position : self.position + 10]!r}")
            self.position = found.end()
            self.count += 1
            self.seen[found.lastgroup] |= {found.group()}
            yield found.lastgroup, found.group()

    def __str__(self):
        return f"{self.count} tokens, {len(self.seen['word'])} words"


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    tokenizer = Tokenizer.from_lines(agent_output.strip().splitlines())
    info = dict(writes=0, statements=1, comments=0)
    for kind, text in tokenizer:
        info["writes"] += kind == "word" and Tokenizer.is_write(text)
        info["comments"] += kind == "comment"
        info["statements"] += text == ";" and not tokenizer.done
    most = {"writes": facts.get("writes", 0), "statements": 1, "comments": 0}
    rules = {}
    for kind, limit in most.items():
        rules[kind] = {"info": kind, "operator": "<=", "value": limit, "violation": f"{info[kind]} {kind}"}
    denied, violations = check_rule(rules, info)
    details = {**info, "summary": str(tokenizer)}
    return {"label": int(denied), "reasons": [*violations.values()], "details": details, "answer": None}
