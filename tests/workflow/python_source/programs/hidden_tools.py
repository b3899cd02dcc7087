"""Programs whose agent can call the tool `danger`, which a reader of the source can easily overlook.

Each program stands after a line with its title. A line `>> FILE` begins another file of the program; the first file is
`main.py`. Each file of the program begins with `HEAD`, except `tools.py`, which defines the tools. A main file
without an agent ends with `AGENT`.
"""

from __future__ import annotations

import re
from pathlib import Path

TOOLS = """
from agents import function_tool

@function_tool
def safe(text: str) -> str:
    return text

@function_tool
def danger(text: str) -> str:
    return text
"""

HEAD = """
from agents import Agent
from tools import danger, safe
"""

AGENT = 'agent = Agent(name="a", tools=tools)'

HIDDEN = """
# an alias of the list
tools = [safe]
other = tools
agent = Agent(name="a", tools=tools)
other.append(danger)

# a list in a list
tools = [safe]
held = [tools]
agent = Agent(name="a", tools=tools)
held[0].append(danger)

# a list in a dictionary
held = {"tools": [safe]}
agent = Agent(name="a", tools=held["tools"])
held["tools"].append(danger)

# a list in a dictionary, by get
held = {"tools": [safe]}
held.get("tools").append(danger)
agent = Agent(name="a", tools=held["tools"])

# a list under a default key
held = {}
held.setdefault("tools", []).append(safe)
held.setdefault("tools", []).append(danger)
agent = Agent(name="a", tools=held["tools"])

# a default dictionary
from collections import defaultdict
held = defaultdict(list)
held["a"].append(safe)
held["a"].append(danger)
agent = Agent(name="a", tools=held["a"])

# a closure
def registry():
    tools = [safe]
    def register(tool):
        tools.append(tool)
    return tools, register
tools, register = registry()
register(danger)

# a closure after the agent is made
def registry():
    tools = [safe]
    def register(tool):
        tools.append(tool)
    return tools, register
tools, register = registry()
agent = Agent(name="a", tools=tools)
register(danger)

# a default argument that all calls share
def collect(tool, into=[]):
    into.append(tool)
    return into
collect(danger)
agent = Agent(name="a", tools=collect(safe))

# globals
tools = [safe]
globals()["tools"].append(danger)

# a global that is replaced
tools = [safe]
globals()["tools"] = [danger]

# globals that are updated
tools = [safe]
globals().update(tools=[danger])

# the names of the module
import sys
tools = [safe]
sys.modules[__name__].tools = [danger]

# setattr
agent = Agent(name="a", tools=[safe])
setattr(agent, "tools", [danger])

# setattr by a computed name
import os
agent = Agent(name="a", tools=[safe])
setattr(agent, os.environ["FIELD"], [danger])

# the dictionary of the object
agent = Agent(name="a", tools=[safe])
agent.__dict__["tools"] = [danger]

# the variables of the object
agent = Agent(name="a", tools=[safe])
vars(agent)["tools"].append(danger)

# object.__setattr__
agent = Agent(name="a", tools=[safe])
object.__setattr__(agent, "tools", [danger])

# __init_subclass__
tools = [safe]
class Plugin:
    def __init_subclass__(cls, **options):
        tools.append(cls.tool)
class Dangerous(Plugin):
    tool = danger

# a metaclass
tools = [safe]
class Registering(type):
    def __new__(mcs, name, bases, space):
        tools.append(space["tool"])
        return super().__new__(mcs, name, bases, space)
class Dangerous(metaclass=Registering):
    tool = danger

# __set_name__
tools = [safe]
class Field:
    def __set_name__(self, owner, name):
        tools.append(danger)
class Model:
    one = Field()

# a class body
tools = [safe]
class Model:
    tools.append(danger)

# a decorator that registers
tools = [safe]
def register(function):
    tools.append(danger)
    return function
@register
def something():
    pass

# a decorator of a class that registers
tools = [safe]
def register(made):
    tools.append(danger)
    return made
@register
class Something:
    pass

# a decorator with arguments, as an object
class Registry:
    def __init__(self):
        self.tools = [safe]
    def add(self, tool):
        def wrap(function):
            self.tools.append(tool)
            return function
        return wrap
registry = Registry()
@registry.add(danger)
def something():
    pass
agent = Agent(name="a", tools=registry.tools)

# another module patches a function
import patch
import helpers
agent = Agent(name="a", tools=helpers.tools())
>> helpers.py
def tools():
    return [safe]
>> patch.py
import helpers
helpers.tools = lambda: [danger]

# another module patches a constant
import patch
import helpers
agent = Agent(name="a", tools=helpers.TOOLS)
>> helpers.py
TOOLS = [safe]
>> patch.py
import helpers
helpers.TOOLS = [danger]

# another module patches by setattr
import patch
from helpers import get
agent = Agent(name="a", tools=get())
>> helpers.py
TOOLS = [safe]
def get():
    return TOOLS
>> patch.py
import helpers
setattr(helpers, "TOOLS", [danger])

# another module patches a function in a function
import patch
import helpers
patch.install()
agent = Agent(name="a", tools=helpers.tools())
>> helpers.py
def tools():
    return [safe]
>> patch.py
import helpers
def install():
    helpers.tools = lambda: [danger]

# another module patches a class
import patch
from helpers import Bag
agent = Agent(name="a", tools=Bag().tools())
>> helpers.py
class Bag:
    def tools(self):
        return [safe]
>> patch.py
from helpers import Bag
Bag.tools = lambda self: [danger]

# a plugin that is imported for its effects
import plugin
from registry import TOOLS
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]
>> plugin.py
import registry
registry.TOOLS.append(danger)

# a plugin that is imported after the agent is made
from registry import TOOLS
agent = Agent(name="a", tools=TOOLS)
import plugin
>> registry.py
TOOLS = [safe]
>> plugin.py
from registry import TOOLS as tools
tools.append(danger)

# a plugin that a package imports
import plugins
from registry import TOOLS
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]
>> plugins/__init__.py
from . import one
>> plugins/one.py
import registry
registry.TOOLS += [danger]

# a plugin that decorates
from handlers import *
from registry import TOOLS
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]
def register(function):
    TOOLS.append(function)
    return function
>> handlers.py
from tools import danger as _danger
import registry
@registry.register
def other():
    pass
registry.register(_danger)

# a plugin that calls a method of an object
import plugin
from registry import registry
agent = Agent(name="a", tools=registry.tools)
>> registry.py
class Registry:
    def __init__(self):
        self.tools = [safe]
    def add(self, tool):
        self.tools.append(tool)
        return tool
registry = Registry()
>> plugin.py
from registry import registry
_ = registry.add(danger)

# a plugin that fills a table
import plugin
from registry import TABLE
agent = Agent(name="a", tools=list(TABLE.values()))
>> registry.py
TABLE = {"safe": safe}
>> plugin.py
from registry import TABLE
TABLE["danger"] = danger

# a plugin that changes an agent
import plugin
from team import agent
>> team.py
agent = Agent(name="a", tools=[safe])
>> plugin.py
import team
team.agent.tools.append(danger)

# a plugin that changes an agent in a function
import plugin
from team import agent
plugin.setup()
>> team.py
agent = Agent(name="a", tools=[safe])
>> plugin.py
import team
def setup():
    team.agent.tools = [danger]

# a plugin with a subclass
import plugin
from registry import TOOLS
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]
class Plugin:
    def __init_subclass__(cls):
        TOOLS.append(cls.tool)
>> plugin.py
from registry import Plugin
class Dangerous(Plugin):
    tool = danger

# importlib with a known name
import importlib
from registry import TOOLS
importlib.import_module("plugin")
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]
>> plugin.py
import registry
registry.TOOLS.append(danger)

# importlib with a computed name
import importlib
import os
from registry import TOOLS
importlib.import_module(os.environ["PLUGIN"])
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]
>> plugin.py
import registry
registry.TOOLS.append(danger)

# importlib in a loop over a folder
import importlib
import pkgutil
import plugins
from registry import TOOLS
for info in pkgutil.iter_modules(plugins.__path__):
    importlib.import_module(f"plugins.{info.name}")
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]
>> plugins/__init__.py
>> plugins/one.py
import registry
registry.TOOLS.append(danger)

# importlib in another file
import loader
from registry import TOOLS
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]
>> loader.py
from importlib import import_module
for name in open("plugins.txt"):
    import_module(name)
>> plugin.py
import registry
registry.TOOLS.append(danger)

# __import__
from registry import TOOLS
__import__("plugin")
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]
>> plugin.py
import registry
registry.TOOLS.append(danger)

# exec
tools = [safe]
exec("tools.append(danger)")

# exec after the agent is made
agent = Agent(name="a", tools=[safe])
exec("agent.tools.append(danger)")

# exec of a file
tools = [safe]
exec(open("setup.txt").read())

# eval
tools = [safe]
eval("tools.append(danger)")

# sys.modules
import sys
import registry
sys.modules["registry"].TOOLS.append(danger)
agent = Agent(name="a", tools=registry.TOOLS)
>> registry.py
TOOLS = [safe]

# a late append
agent = Agent(name="a", tools=[safe])
agent.tools.append(danger)

# a late append in an endpoint
from fastapi import FastAPI
app = FastAPI()
agent = Agent(name="a", tools=[safe])
@app.post("/enable")
def enable():
    agent.tools.append(danger)

# a late replacement in an endpoint
from fastapi import FastAPI
app = FastAPI()
agent = Agent(name="a", tools=[safe])
@app.post("/enable")
async def enable():
    agent.tools = [danger]

# a late append in a method of a handler
class Handler:
    def on_event(self, event):
        tools.append(danger)
tools = [safe]

# added to the tools
agent = Agent(name="a", tools=[safe])
agent.tools += [danger]

# added to the list of the agent
tools = [safe]
agent = Agent(name="a", tools=tools)
tools += [danger]

# a slice
tools = [safe]
agent = Agent(name="a", tools=tools)
tools[:] = [danger]

# a slice of the tools
agent = Agent(name="a", tools=[safe])
agent.tools[0:0] = [danger]

# an element of the tools
agent = Agent(name="a", tools=[safe])
agent.tools[0] = danger

# a bound method
tools = [safe]
add = tools.append
agent = Agent(name="a", tools=tools)
add(danger)

# a bound method in a dictionary
tools = [safe]
commands = {"add": tools.append}
agent = Agent(name="a", tools=tools)
commands["add"](danger)

# the method of the class
tools = [safe]
agent = Agent(name="a", tools=tools)
list.append(tools, danger)

# insert by keyword-free call with a result
tools = [safe]
agent = Agent(name="a", tools=tools)
result = tools.insert(0, danger)

# append in a condition
tools = [safe]
agent = Agent(name="a", tools=tools)
tools.append(danger) if agent else None

# append in a comprehension
tools = [safe]
agent = Agent(name="a", tools=tools)
[tools.append(one) for one in (danger,)]

# append through map
tools = [safe]
agent = Agent(name="a", tools=tools)
list(map(tools.append, [danger]))

# append in a lambda
tools = [safe]
agent = Agent(name="a", tools=tools)
(lambda one: tools.append(one))(danger)

# in-place operator
import operator
tools = [safe]
agent = Agent(name="a", tools=tools)
operator.iadd(tools, [danger])

# functools.partial
from functools import partial
tools = [safe]
def add(into, tool):
    into.append(tool)
partial(add, tools)(danger)

# a partial constructor
from functools import partial
make = partial(Agent, name="a", tools=[danger])
agent = make()

# a partial of a bound method
from functools import partial
tools = [safe]
later = partial(tools.append, danger)
agent = Agent(name="a", tools=tools)
later()

# a thread
import threading
tools = [safe]
def add():
    tools.append(danger)
threading.Thread(target=add).start()

# a thread with a bound method
import threading
tools = [safe]
agent = Agent(name="a", tools=tools)
threading.Thread(target=tools.append, args=(danger,)).start()

# a timer in a function
import threading
agent = Agent(name="a", tools=[safe])
def main():
    threading.Timer(1.0, lambda: agent.tools.append(danger)).start()
if __name__ == "__main__":
    main()

# an executor
from concurrent.futures import ThreadPoolExecutor
agent = Agent(name="a", tools=[safe])
def add(tool):
    agent.tools.append(tool)
with ThreadPoolExecutor() as pool:
    pool.submit(add, danger)

# a generator
tools = [safe]
def generate():
    tools.append(danger)
    yield 1
for _ in generate():
    pass

# a list from a generator
def generate():
    yield safe
    yield danger
agent = Agent(name="a", tools=list(generate()))

# a generator that delegates
def inner():
    yield danger
def generate():
    yield safe
    yield from inner()
agent = Agent(name="a", tools=list(generate()))

# a context manager
tools = [safe]
class Enabled:
    def __enter__(self):
        tools.append(danger)
        return self
    def __exit__(self, *args):
        pass
with Enabled():
    agent = Agent(name="a", tools=tools)

# the end of a context manager
tools = [safe]
class Enabled:
    def __enter__(self):
        return self
    def __exit__(self, *args):
        tools.append(danger)
with Enabled():
    agent = Agent(name="a", tools=tools)

# a context manager by a generator
from contextlib import contextmanager
tools = [safe]
@contextmanager
def enabled():
    tools.append(danger)
    yield tools
with enabled() as some:
    agent = Agent(name="a", tools=some)

# a class attribute that instances share
class Bag:
    tools = [safe]
    def add(self, tool):
        self.tools.append(tool)
Bag().add(danger)
agent = Agent(name="a", tools=Bag().tools)

# a class attribute by its class
class Bag:
    tools = [safe]
Bag.tools.append(danger)
agent = Agent(name="a", tools=Bag.tools)

# a class attribute that is replaced
class Bag:
    tools = [safe]
Bag.tools = [danger]
agent = Agent(name="a", tools=Bag().tools)

# a class method that registers
class Bag:
    tools = [safe]
    @classmethod
    def add(cls, tool):
        cls.tools.append(tool)
Bag.add(danger)
agent = Agent(name="a", tools=Bag.tools)

# super().__init__
class Mine(Agent):
    def __init__(self, tools):
        super().__init__(name="a", tools=[*tools, danger])
agent = Mine([safe])

# super().__init__ with keywords
class Mine(Agent):
    def __init__(self, **options):
        options["tools"] = [danger]
        super().__init__(**options)
agent = Mine(name="a", tools=[safe])

# Agent.__init__
class Mine(Agent):
    def __init__(self, tools):
        Agent.__init__(self, name="a", tools=[*tools, danger])
agent = Mine([safe])

# a mixin
class More:
    def __init__(self, **options):
        super().__init__(**options)
        self.tools.append(danger)
class Mine(More, Agent):
    pass
agent = Mine(name="a", tools=[safe])

# dict.update
options = {"name": "a", "tools": [safe]}
options.update({"tools": [danger]})
agent = Agent(**options)

# dict.update with keywords
options = {"name": "a", "tools": [safe]}
options.update(tools=[danger])
agent = Agent(**options)

# a dictionary in place
options = {"name": "a", "tools": [safe]}
options |= {"tools": [danger]}
agent = Agent(**options)

# unpacking
tools, more = [safe], [danger]
agent = Agent(name="a", tools=[*tools, *more])

# unpacking with a rest
first, *rest = [safe, danger]
agent = Agent(name="a", tools=rest)

# unpacking in a loop
tools = []
for name, tool in {"safe": safe, "danger": danger}.items():
    tools.append(tool)

# star-args
def make(*tools, **options):
    return Agent(name="a", tools=list(tools), **options)
agent = make(safe, danger)

# star-args from a list of unknown length
import os
names = [danger] * int(os.environ["N"])
def make(first, *tools):
    return Agent(name="a", tools=[first, *tools])
agent = make(safe, *names)

# keyword star-args
def make(**options):
    return Agent(name="a", **options)
options = {"tools": [danger]}
agent = make(**options)

# a conditional import
try:
    from extra import TOOLS
except ImportError:
    TOOLS = [safe]
agent = Agent(name="a", tools=TOOLS)
>> extra.py
TOOLS = [danger]

# an import of what may not exist
try:
    from unknown_package import TOOLS
except ImportError:
    TOOLS = [safe]
agent = Agent(name="a", tools=TOOLS)

# a reload
import importlib
import registry
importlib.reload(registry)
agent = Agent(name="a", tools=registry.TOOLS)
>> registry.py
try:
    TOOLS.append(danger)
except NameError:
    TOOLS = [safe]

# entry points
from importlib.metadata import entry_points
tools = [safe]
for point in entry_points(group="tools"):
    tools.append(point.load())

# entry points that register themselves
from importlib.metadata import entry_points
from registry import TOOLS
for point in entry_points(group="tools"):
    point.load()
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]

# entry points that are passed the list
from importlib.metadata import entry_points
tools = [safe]
for point in entry_points(group="tools"):
    point.load()(tools)

# a switch of the environment
import os
tools = [safe]
if os.getenv("DANGER"):
    tools.append(danger)

# a switch in a conditional expression
import os
agent = Agent(name="a", tools=[danger] if os.environ.get("DANGER") else [safe])

# a switch by a table
import os
TABLE = {"one": [safe], "two": [danger]}
agent = Agent(name="a", tools=TABLE[os.environ["MODE"]])

# a switch by match
import os
match os.environ["MODE"]:
    case "two":
        tools = [danger]
    case _:
        tools = [safe]

# a switch by a loop that ends early
import os
for tools in ([danger], [safe]):
    if os.environ.get("DANGER"):
        break

# an error that is caught
tools = [safe]
try:
    int("x")
    tools.append(safe)
except ValueError:
    tools.append(danger)
finally:
    agent = Agent(name="a", tools=tools)

# an early return
import os
def tools():
    if os.environ.get("DANGER"):
        return [danger]
    return [safe]
agent = Agent(name="a", tools=tools())

# a while loop
tools = [safe]
at = 0
while at < 3:
    tools.append(danger)
    at += 1

# recursion
def collect(depth, tools):
    if depth == 9:
        tools.append(danger)
    else:
        collect(depth + 1, tools)
    return tools
agent = Agent(name="a", tools=collect(0, [safe]))

# a property
class Bag:
    @property
    def tools(self):
        return [safe, danger]
agent = Agent(name="a", tools=Bag().tools)

# a property with an effect
tools = [safe]
class Switch:
    @property
    def on(self):
        tools.append(danger)
        return True
Switch().on

# __getattr__
class Bag:
    def __getattr__(self, name):
        return [danger]
agent = Agent(name="a", tools=Bag().tools)

# __getattribute__ before an attribute
class Bag:
    def __init__(self):
        self.tools = [safe]
    def __getattribute__(self, name):
        return [danger]
agent = Agent(name="a", tools=Bag().tools)

# __getitem__
tools = [safe]
class Bag:
    def __getitem__(self, key):
        tools.append(danger)
Bag()["x"]

# an operator
tools = [safe]
class Adding:
    def __lshift__(self, tool):
        tools.append(tool)
        return self
    def __add__(self, tool):
        tools.append(tool)
        return self
Adding() << danger

# an operator in place
class Bag:
    def __init__(self):
        self.tools = [safe]
    def __iadd__(self, tool):
        self.tools.append(tool)
        return self
bag = Bag()
bag += danger
agent = Agent(name="a", tools=bag.tools)

# __call__
class Bag:
    def __init__(self):
        self.tools = [safe]
    def __call__(self, tool):
        self.tools.append(tool)
bag = Bag()
bag(danger)
agent = Agent(name="a", tools=bag.tools)

# __setitem__
class Bag:
    def __init__(self):
        self.tools = [safe]
    def __setitem__(self, key, tool):
        self.tools.append(tool)
bag = Bag()
bag["x"] = danger
agent = Agent(name="a", tools=bag.tools)

# __setattr__
class Bag:
    tools = [safe]
    def __setattr__(self, key, tool):
        self.tools.append(tool)
bag = Bag()
bag.x = danger
agent = Agent(name="a", tools=bag.tools)

# a list class of the program
class Bag(list):
    pass
bag = Bag([safe])
bag.append(danger)
agent = Agent(name="a", tools=bag)

# a deque
from collections import deque
tools = deque([safe])
tools.appendleft(danger)
agent = Agent(name="a", tools=list(tools))

# a dataclass with a default list
from dataclasses import dataclass, field
@dataclass
class Settings:
    tools: list = field(default_factory=lambda: [safe])
settings = Settings()
settings.tools.append(danger)
agent = Agent(name="a", tools=settings.tools)

# a shared settings object
class Settings:
    pass
settings = Settings()
settings.tools = [safe]
def change(one):
    one.tools = [danger]
change(settings)
agent = Agent(name="a", tools=settings.tools)

# an object in a list
class Settings:
    pass
settings = Settings()
settings.tools = [safe]
agent = Agent(name="a", tools=settings.tools)
for one in [settings]:
    one.tools.append(danger)

# a function attribute
def build():
    return Agent(name="a", tools=build.tools)
build.tools = [safe]
build.tools.append(danger)
agent = build()

# atexit
import atexit
agent = Agent(name="a", tools=[safe])
@atexit.register
def last():
    agent.tools.append(danger)

# an asynchronous main
import asyncio
agent = Agent(name="a", tools=[safe])
async def main():
    await asyncio.gather(enable(), other())
async def enable():
    agent.tools.append(danger)
async def other():
    pass
asyncio.run(main())

# a walrus
if (tools := [danger]):
    pass

# a loop with else
for tools in []:
    pass
else:
    tools = [danger]

# deleted and made again
tools = [safe]
del tools
tools = [danger]

# a copy of the agent
base = Agent(name="a", tools=[safe])
agent = base.clone(tools=[danger])

# dataclasses.replace
from dataclasses import replace
base = Agent(name="a", tools=[safe])
agent = replace(base, tools=[danger])

# an agent that an unknown function changes
from vendor import enable
agent = Agent(name="a", tools=[safe])
enable(agent)

# a list that an unknown function changes
from vendor import enable
tools = [safe]
enable(tools)

# a nonlocal name
def build():
    tools = [safe]
    def more():
        nonlocal tools
        tools = [danger]
    more()
    return Agent(name="a", tools=tools)
agent = build()

# a global name
tools = [safe]
def more():
    global tools
    tools = [danger]
more()

# a global name that a callback binds
import signal
tools = [safe]
def more(*args):
    global tools
    tools = [danger]
signal.signal(signal.SIGUSR1, more)

# a swap
one, two = [safe], [danger]
one, two = two, one
agent = Agent(name="a", tools=one)

# extend through an alias of the agent
agent = Agent(name="a", tools=[safe])
agents = {"a": agent}
agents["a"].tools.extend([danger])

# a loop over the agents
agent = Agent(name="a", tools=[safe])
for one in (agent,):
    one.tools.append(danger)

# itertools
import itertools
agent = Agent(name="a", tools=list(itertools.chain.from_iterable([[safe], [danger]])))

# a reduction
from functools import reduce
agent = Agent(name="a", tools=reduce(lambda a, b: a + b, [[safe], [danger]]))

# a sum
agent = Agent(name="a", tools=sum([[safe], [danger]], []))

# filter over members of a module
import inspect
import tools as module
agent = Agent(name="a", tools=[one for _, one in inspect.getmembers(module) if callable(one)])

# the values of a module
import tools as module
agent = Agent(name="a", tools=[value for name, value in vars(module).items() if not name.startswith("_")])

# names of a module by getattr
import os
import tools as module
agent = Agent(name="a", tools=[getattr(module, os.environ["TOOL"])])
"""

KNOWN = """
# a plain agent
agent = Agent(name="a", tools=[safe])

# a list that other code reads
import json
import logging
logger = logging.getLogger(__name__)
tools = [safe]
logger.info("tools: %s", tools)
print(len(tools), json.dumps([str(one) for one in tools]))

# a plugin that changes something else
import plugin
from registry import TOOLS
agent = Agent(name="a", tools=TOOLS)
>> registry.py
TOOLS = [safe]
OTHERS = []
>> plugin.py
import registry
registry.OTHERS.append(danger)

# a handler that changes something else
from fastapi import FastAPI
app = FastAPI()
sessions = {}
agent = Agent(name="a", tools=[safe])
@app.post("/chat")
async def chat(request):
    sessions[request.id] = danger
    return await run(agent, request)

# a module that the program imports by name
import importlib
json = importlib.import_module("json")
agent = Agent(name="a", tools=[safe])

# a class that registers its own objects
class Session:
    def __init__(self):
        self.messages = []
    def add(self, message):
        self.messages.append(message)
        self.last = message
tools = [safe]
agent = Agent(name="a", tools=tools)
session = Session()
session.add("x")

# a copy that changes
tools = [safe]
agent = Agent(name="a", tools=list(tools))
tools.append(danger)

# a mode that the program sets
MODE = "safe"
tools = [safe]
if MODE == "danger":
    tools.append(danger)
"""


def programs(text: str) -> list[tuple[str, str]]:
    """The titles and code of the programs in a text."""
    return [(title, code) for title, _, code in (part.partition("\n") for part in re.split(r"\n# ", text)[1:])]


def write(folder: Path, code: str) -> Path:
    """Writes the files of a program; returns the main one."""
    (folder / "tools.py").write_text(TOOLS)
    for part in f"\n>> main.py\n{code}".split("\n>> ")[1:]:
        name, _, text = part.partition("\n")
        text += AGENT if name == "main.py" and "agent" not in text else ""
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + text + "\n")
    return folder / "main.py"
