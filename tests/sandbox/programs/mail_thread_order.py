"""Follows a mail thread from its newest message back and finds who was added to it on the way."""

import re
from collections import OrderedDict, deque

MESSAGE = re.compile(r"^#(?P<id>\d+)(?: re #(?P<parent>\d+))? from (?P<sender>\w+) to (?P<to>[\w, ]+)$", re.M)


class ThreadError(ValueError):
    """The thread does not hang together."""


def read_thread(text: str) -> OrderedDict:
    messages = OrderedDict()
    for m in MESSAGE.finditer(text):
        people = {name.strip() for name in m["to"].split(",")} | {m["sender"]}
        messages[m["id"]] = {"parent": m["parent"], "people": people, "sender": m["sender"]}
    if not messages:
        raise ThreadError("no message in the thread")
    return messages


def path_to_root(messages: OrderedDict, leaf: str) -> deque:
    path = deque(maxlen=50)
    current = leaf
    while current is not None:
        if current in path:
            raise ThreadError(f"message {current} answers itself")
        path.appendleft(current)
        try:
            current = messages[current]["parent"]
        except KeyError as missing:
            raise ThreadError(f"message {missing} is not there") from None
    return path


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    messages = read_thread(agent_output)
    newest = next(reversed(messages))
    path = path_to_root(messages, newest)
    messages.move_to_end(path[0], last=False)
    seen = set(messages[path[0]]["people"])
    added = OrderedDict()
    for number in list(path)[1:]:
        fresh = messages[number]["people"] - seen
        if fresh:
            added[number] = sorted(fresh)
        seen |= fresh
    rooms = {room: list(people) for room, people in facts["rooms"].items()}
    needed = {facts["room"]: sorted(seen)}
    denied, outsiders = check_access(rooms, needed)
    reasons = [f"{name} does not belong to {room}" for room, names in outsiders.items() for name in names]
    return {
        "label": 1 if denied else 0,
        "reasons": reasons,
        "details": {"path": list(path), "added": dict(added), "order": list(messages)},
        "answer": None if denied else f"reply to #{newest}",
    }
