import re

MEMBER = re.compile(r"^[ \t]*(age|licence_years|blocked)[ \t]*:[ \t]*(\S*)[ \t]*$", re.MULTILINE | re.IGNORECASE)
BOOKING = re.compile(r"^(car|days|answer):[ \t]*(.*?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
NUMBER = re.compile(r"\d{1,3}")


def single(pattern, text, name):
    values = [value for key, value in pattern.findall(text) if key.lower() == name]
    if len(values) != 1 or not values[0]:
        raise ValueError(name + " is not given once")  # clause 6
    return values[0]


def number(value):
    if isinstance(value, bool) or not NUMBER.fullmatch(str(value)):
        raise ValueError("not a whole number")
    return int(value)


def boolean(value):
    words = {"true": True, "false": False}
    if str(value).lower() not in words:
        raise ValueError("neither True nor False")
    return words[str(value).lower()]


def check(agent_input, agent_output, facts):
    def value(name):
        return facts[name] if name in facts else single(MEMBER, agent_input, name)

    car = single(BOOKING, agent_output, "car").lower()
    least = {"compact": 21, "estate": 21, "van": 25}.get(car)
    if least is None:
        raise ValueError("no such car")
    kept = {}
    kept["age"] = number(value("age")) >= least  # clause 2
    kept["licence"] = number(value("licence_years")) >= 2  # clause 3
    kept["blocked"] = not boolean(value("blocked"))  # clause 4
    kept["days"] = number(single(BOOKING, agent_output, "days")) <= 14  # clause 5
    denied, broken = check_booking(kept)
    answer = single(BOOKING, agent_output, "answer")
    # clause 7
    return {"label": int(denied), "reasons": list(broken), "details": {"broken": list(broken)},
            "answer": None if denied else answer}
