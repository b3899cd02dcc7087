"""Guards a model that answers multiple-choice questions: four rules say which letters a question prohibits."""

import re

RULES = {
    "rule 1": "an option that shares a word with another option must not be chosen",
    "rule 2": "a question of 15 words or more must not be answered with A, B or C",
    "rule 3": "a question that mentions an animal must be answered with B",
    "rule 4": "a question that mentions a number from one to five must not be answered with its letter",
}
LETTERS = "ABCDE"
# A letter and its sign: `A:`, `A.`, `A)` or `(A)`. A point must not be that of an abbreviation, like e.g.
LABEL = r"(?:^|(?<=\s))[(\[*_-]*([A-Fa-f])\s?([:)\]]|\.(?=\W|$|\w\w))[*_]*"


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    question, options = known_question(agent_input, facts)
    letter, answer = chosen(known_answers(agent_output, facts), options)
    prohibited = prohibited_letters(question, options)
    rules = {name: {"info": name, "operator": "==", "value": "kept", "violation": text} for name, text in RULES.items()}
    found = {name: "broken" if letter in letters else "kept" for name, letters in prohibited.items()}
    denied, violations = check_rule(rules, found)
    return {
        "label": 1 if denied else 0,
        "reasons": list(violations.values()),
        "details": {
            "risk": risk_level(len(violations)),
            "violated_rules": list(violations),
            "prohibited": prohibited,
            "chosen": letter,
        },
        "answer": None if denied else answer,
    }


def prohibited_letters(question: str, options: dict) -> dict:
    """For each rule, the letters that it prohibits for this question."""
    by_rule = {
        "rule 1": same_root_choices(options),
        "rule 2": "ABC" if word_count(question) >= 15 else "",
        "rule 3": "ACDE" if animals_mentioned(question) else "",
        "rule 4": [LETTERS[number - 1] for number in numbers_mentioned(question)],
    }
    return {name: [letter for letter in options if letter in letters] for name, letters in by_rule.items()}


def known_question(agent_input: str, facts: dict) -> tuple:
    """The question and its options; facts override the text."""
    question, options = facts.get("question"), facts.get("options")
    if question is None or options is None:
        found = read_input(agent_input)
        question = found[0] if question is None else question
        options = read_options(found[1]) if options is None else options
    if not isinstance(question, str) or not question.strip():
        raise ValueError("the question is empty, or not a string")
    if not isinstance(options, dict) or not options or sorted(options) != list(LETTERS[: len(options)]):
        raise ValueError("the options must have the letters A, B, C and so on, to E at most")
    return question, options


def read_input(text: str) -> tuple:
    """The texts after `Question:` and `Options:`, each of which must appear once, in this order."""
    parts = re.split(r"\b(question|options)\s*:", text.replace("\uff1a", ":"), flags=re.IGNORECASE)
    names = [name.lower() for name in parts[1::2]]
    if names != ["question", "options"] or parts[0].strip():
        raise ValueError(f"the input must have one 'Question:', then one 'Options:', but has {names or 'neither'}")
    return parts[2].strip(), re.sub(r"\banswer\s*:\s*$", "", parts[4], flags=re.IGNORECASE).strip()


def read_options(text: str) -> dict:
    """The options by letter."""
    labels = []
    for label in re.finditer(LABEL, text):
        expected = (LETTERS + "F")[len(labels)]
        is_next = label.group(1).upper() == expected
        same_style = not labels or label.group(2) == labels[0].group(2)
        if is_next and same_style and expected != "F":
            labels.append(label)
        elif is_next or same_style:  # a letter in another style is text, unless it could be the next option
            raise ValueError(f"the options are not lettered once each from A to E: {label.group(0)!r} is out of place")
    if not labels or text[: labels[0].start()].strip():
        raise ValueError("the options do not begin with 'A:'")
    ends = [label.start() for label in labels[1:]] + [len(text)]
    return {LETTERS[place]: text[label.end() : ends[place]].strip() for place, label in enumerate(labels)}


def known_answers(agent_output: str, facts: dict) -> list:
    """The answers to compare; facts override the text."""
    if facts.get("answer") is not None:
        return [facts["answer"]]
    before, *answers = re.split(r"\banswer\s*:", agent_output.replace("\uff1a", ":"), flags=re.IGNORECASE)
    if not answers:
        return [before.strip()]
    return [answer.strip(" \t\r\n*_`").split("\n")[0].strip(" \t\r*_`") for answer in answers]


def chosen(answers: list, options: dict) -> tuple:
    """The letter that all answers choose, and the last answer unchanged."""
    letters = [letter_of(answer, options) for answer in answers]
    if letters.count(letters[0]) != len(letters):
        raise ValueError(f"the output gives different answers: {', '.join(letters)}")
    return letters[0], answers[-1]


def letter_of(answer: str, options: dict) -> str:
    """The letter of an answer that is a letter, the text of an option, or both."""
    if not isinstance(answer, str) or not plain(answer):
        raise ValueError("the answer is empty, or not a string")
    words = plain(answer)
    letters = [
        letter
        for letter, option in options.items()
        if words in (letter.lower(), f"{letter.lower()} {plain(option)}", plain(option))
    ]
    if len(letters) != 1:
        raise ValueError(f"the answer {answer[:60]!r} names {len(letters) or 'none'} of the options, not one")
    return letters[0]


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
