"""Code of other languages in a shell command: `python -c '...'`, `node -e '...'`.

It is harmless if it only computes, prints, loads modules and uses named files, whose paths are judged like others.
"""

from __future__ import annotations

import ast
import posixpath
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise, product

from guardagent.packs.shell.paths import changed, is_elsewhere, is_secret_name, read, resolved, zone
from guardagent.packs.shell.script import MAX_VALUES, ShellCommand, Word

INTERPRETERS = re.compile(
    r"(?:python|perl|ruby|node|nodejs|php|lua|deno|bun|Rscript|osascript|pwsh|powershell|tclsh|R|julia|elixir|iex|groovy"
    r"|scala|raku|crystal|guile|racket|sbcl|clojure|clj|bb|octave|ghc|ocaml|jshell|gjs|tsx|ts-node|expect|gnuplot)[\d.]*"
)
_MODULES = frozenset(
    "json sys math re datetime time collections itertools functools decimal fractions statistics string "
    "random textwrap collections.abc csv tomllib configparser ast glob pathlib argparse io difflib copy heapq bisect "
    "secrets numbers cmath traceback logging unicodedata contextlib abc sqlite3 fnmatch inspect locale colorsys "
    "platform uuid hashlib base64 calendar pprint operator typing dataclasses enum struct zlib html "
    "__future__".split()
)
_ONLY_FROM = frozenset(("urllib.parse", "importlib.metadata", "xml.etree.ElementTree", "email.utils", "os.path"))
# Packages that start programs, load code or send data. Other packages do what a file says, as `python file.py` does.
_POWERFUL = frozenset(
    "requests httpx aiohttp urllib3 websocket websockets paramiko fabric invoke sh plumbum pexpect psutil boto3 "
    "botocore docker kubernetes google azure cloudpickle dill jsonpickle joblib pip setuptools distutils IPython "
    "ptyprocess pycurl selenium playwright scapy keyring pyperclip execnet ray dask xonsh guardagent".split()
)
_OS = frozenset("path environ getenv listdir getcwd walk scandir sep linesep cpu_count getpid name stat".split())
_FORBIDDEN = frozenset(
    "exec eval compile __import__ getattr setattr delattr globals locals vars input breakpoint help memoryview "
    "__builtins__ __loader__ __spec__".split()
)
_FORBIDDEN_PARTS = re.compile(
    r"_(?!_(?:name|version|file|doc|len|init|mro|class|module|qualname|annotations|all|table|tablename|fields)__$).*|modules|os|sys|posix|subprocess|shutil|socket|importlib|ctypes|builtins|pty|meta_path"
    r"|path_hooks|system|popen|Popen|spawn\w*|exec[lv]\w*|fork\w*|create_subprocess\w*|check_(?:output|call)|rmtree"
    r"|unlink|rmdir|home|expanduser|expandvars|parents?|chdir|chmod|environb|symlink_to|hardlink_to|link_to|eval"
    r"|enable_load_extension|unsafe_load|read_pickle|load_extension|import_module|run_module|run_path|rename"
)
_WRITERS = re.compile(r"write\w*|to_[a-z]+|savez?\w*|dump|touch|mkdir|copy\w*|move|put|savefig|imwrite|FileHandler")
_OPENERS = frozenset(("open", "Path", "PurePath", "PosixPath", "glob", "rglob", "iglob", "listdir", "walk", "scandir"))
_TEXT = re.compile(
    r"print|r?split|join|startswith|endswith|[lr]?strip|r?find|r?index|count|r?partition|encode|decode|format|sub|subn|match"
    r"|search|fullmatch|findall|finditer|compile|get|append|re"
)
_STATEMENT = re.compile(
    r"__import__|\b(?:drop\s+\w+|truncate\s|delete\s+from|alter\s+\w+|update\s+\S+\s+set)", re.IGNORECASE
)
_PERL = re.compile(
    r"(?:\s*(?:(?:s|tr|y)(?:/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/|\|(?:[^|\\\n]|\\.)*\|(?:[^|\\\n]|\\.)*\|"
    r"|\{[^{}\n]*\}\{[^{}\n]*\})[gimsxcdr]*|print(?:\s*\"(?:[^\"@\\$]|\$[\d&]|\\[nt])*\")?)?(?:\s*(?:if|unless)\s*/(?:[^/\\\n]|\\.)*/[ims]*)?\s*(?:;|$))+"
)
_CONSTANT = re.compile(
    r"(?:\s*require(?:_relative)?\s*(?P<quote>['\"])[\w./-]+(?P=quote)\s*[;\n])*\s*(?:puts|p|print|echo|println)[\s(]+[A-Z]\w*(?:::[A-Z]\w*)*(?:\.(?:count|first|last|name|size|table_name|column_names|inspect))*\s*\)?;?\s*"
    r"|sessionInfo\(\)|using\sPkg;\s*Pkg\.(?:test|status|instantiate|precompile)\(\)|(?:devtools|testthat|lintr|styler|roxygen2|covr|rcmdcheck|pkgdown)::\w+\((?:['\"][\w/.]*['\"])?\)"
)
_DEBUGGER = re.compile(r"c|continue|q|quit|w|where|bt|n|next|(?:b|until) [\w.:/]+")
_CODE = {
    "perl": r"-p?i?[\w.]*[eE]",
    "python": "-[a-zA-Z]*c",
    "ruby": "-[a-zA-Z]*e",
    **dict.fromkeys(("pwsh", "powershell"), "-[cC].*"),
    **dict.fromkeys(("guile", "expect"), "-[ce]"),
}
_NODES = ("node", "nodejs", "bun", "tsx", "ts-node")
_PACKAGE = re.compile(r"@?[A-Za-z][\w-]*(?:/[\w-]+)*")
_LONGEST_PATH = 200
MAX_PERL = 1000
MAX_EXPRESSIONS = 200  # that a value depends on


@dataclass(slots=True)
class CodeEffects:
    """The files that code opens, other strings that may be files, and whether it changes them."""

    files: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    writes: bool = False

    def kinds(self, folder: str | None, workspace: str) -> Iterator[str]:
        for file in self.files:
            path = resolved(file, folder, workspace)
            yield from changed(path) if self.writes else read(path)
        for file in self.others:
            path = resolved(file, folder or "", workspace) or ""
            is_changed = self.writes and (is_elsewhere(file) or zone(path) == "startup")
            yield from changed(path) if is_changed else read(path)


def code_effects(interpreter: str, code: str) -> CodeEffects | None:
    """The effects of code; None if they cannot be known, or are more than to compute, print and use files."""
    if interpreter.startswith("python"):
        return _of_python(code)
    if interpreter in _NODES:
        javascript = read_javascript(code)
        return None if javascript is None else CodeEffects(*javascript)
    if interpreter == "perl":
        is_plain = (
            len(code) < MAX_PERL and _PERL.fullmatch(code) and not re.search(r"\(\?\??\{|@\{|\$\{|\$\(|@\(", code)
        )
        return CodeEffects() if is_plain else None
    return CodeEffects() if _CONSTANT.fullmatch(code) else None


def inline_code(words: tuple[Word, ...]) -> tuple[str, ...] | None:
    """The code among the words of an interpreter; None if it has code that is unknown or in an unknown form."""
    inline_code: list[str] = []
    name, rest = ShellCommand(words).name or "", [word[0] if len(word) == 1 else None for word in words[1:]]
    if name == "deno" and rest[:1] == ["eval"]:
        return None
    at = -1
    while (at := at + 1) < len(rest):
        word = rest[at]
        if word is None or not word.startswith("-") or word == "-":
            break
        if name.startswith("python") and word in ("-m", "-mtimeit"):
            return _of_module(["timeit", *rest[at + 1 :]] if word == "-mtimeit" else rest[at + 1 :])
        after = rest[at + 1] if at + 1 < len(rest) else None
        if name in _NODES and word in ("-r", "--require", "--import") and _PACKAGE.fullmatch(after or ""):
            at += 1
            continue
        if name != "php" and word in ("-r", "--require", "--import", "--loader", "--experimental-loader"):
            return None
        option = _CODE.get(name.rstrip("0123456789."), r"-[a-zA-Z]*[eErp]|--eval|--execute|--print")
        if re.fullmatch(rf"{option}|-EncodedCommand", word):
            if after is None or (name == "perl" and not re.fullmatch(r"-[pnilw0-9]*(?:i\.\w+)?e", word)):
                return None
            inline_code.append(after)
            if name.startswith("python"):  # what follows are arguments of the code
                break
            at += 1
    return tuple(inline_code)


def _of_module(words: list[str | None]) -> tuple[str, ...] | None:
    """The code among the words of `python -m NAME`: statements of `timeit`, commands of `pdb`."""
    if words[:1] == ["timeit"]:
        pairs = [(word, after) for word, after in pairwise(words) if word not in ("-n", "-r", "-u")]
        codes = [after for _, after in pairs if after and not after.startswith("-")]
        return None if None in words else ("\n".join(codes),)
    commands = [after for word, after in pairwise(words) if word == "-c" and words[:1] == ["pdb"]]
    return () if all(command is not None and _DEBUGGER.fullmatch(command) for command in commands) else None


def _of_python(code: str) -> CodeEffects | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    reader = _PythonReader(tree)
    return reader.effects if all(map(reader.is_harmless, ast.walk(tree))) else None


class _PythonReader:
    def __init__(self, tree: ast.AST) -> None:
        self.effects = CodeEffects()
        nodes = list(ast.walk(tree))
        self._values = _bindings(nodes)
        self._uses_paths = any(isinstance(node, ast.alias) and node.name == "pathlib" for node in nodes) or any(
            isinstance(node, ast.ImportFrom) and node.module == "pathlib" for node in nodes
        )
        self._parts = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in _OS}
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        self._environment = {
            id(node.value) for node in nodes if isinstance(node, ast.Subscript) and _is_plain_variable([node.slice])
        } | {
            id(call.func.value)
            for call in calls
            if isinstance(call.func, ast.Attribute)
            and call.func.attr in ("get", "setdefault")
            and _is_plain_variable(call.args[:1])
        }
        self._called = {id(node.func) for node in calls}
        self._texts = {id(argument) for call in calls if _is_of_text(call) for argument in call.args}
        self._texts |= {
            id(node.value) for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }

    def is_harmless(self, node: ast.AST) -> bool:  # noqa: C901, PLR0912 - a case for each kind
        match node:
            case ast.Import(names=names):
                return all(_is_harmless_module(name.name) and not (name.name == "os" and name.asname) for name in names)
            case ast.ImportFrom(module=module, names=names):
                wanted = {name.name for name in names}
                if module == "os":
                    return wanted <= _OS
                return (module is None or module in _ONLY_FROM or _is_harmless_module(module)) and not any(
                    name == "*" or _FORBIDDEN_PARTS.fullmatch(name) or (name == "open") for name in wanted
                )
            case ast.Name(id="os"):
                return id(node) in self._parts
            case ast.Name(id=name):
                is_function = name not in ("open", "Path", "PurePath", "PosixPath") or id(node) in self._called
                return is_function and name not in _FORBIDDEN and not re.match("__(?!name__|file__)", name)
            case ast.Attribute(attr=name):
                if name == "environ" and id(node) not in self._environment:
                    return False
                self.effects.writes |= _WRITERS.fullmatch(name) is not None
                return not _FORBIDDEN_PARTS.fullmatch(name) and (name not in _OPENERS or id(node) in self._called)
            case ast.Call(func=func):
                name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
                if name == "getenv":
                    return _is_plain_variable(node.args[:1])
                of_tree = (
                    isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "ast"
                )
                return name not in _OPENERS or of_tree or self._opens(name, node)
            case ast.BinOp(op=ast.Div(), right=right):
                return not self._uses_paths or isinstance(right, ast.Constant)
            case ast.Constant(value=str(text)) if id(node) not in self._texts:
                if text and len(text) < _LONGEST_PATH and not re.search(r"\s", text):
                    self.effects.others.append(text)
                return not _STATEMENT.search(text)
            case ast.Constant(value=str(text)):
                return not _STATEMENT.search(text)
        return True

    def _opens(self, name: str, call: ast.Call) -> bool:
        """Notes the files of a call that opens some; whether they are known."""
        is_method = isinstance(call.func, ast.Attribute) and name in ("open", "glob", "rglob", "walk")
        arguments = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in (None, "file"))]
        if name == "open":
            modes = [*call.args[:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
            known = [self._known(mode) for mode in (modes if is_method else modes[1:])]
            self.effects.writes |= any(
                known_modes is None or any(set(mode) & set("wax+") for mode in known_modes) for known_modes in known
            )
        if is_method and not arguments:
            return True
        for argument in arguments if name in ("Path", "PurePath", "PosixPath") else arguments[:1]:
            values = self._known(argument)
            if values is None:
                return False
            self.effects.files.extend(
                value for value in values if not (is_method and re.fullmatch("[rwaxbt+]+", value))
            )
        return True

    def _known(self, node: ast.AST) -> list[str] | None:
        return _known(node, self._values, {})


def _is_plain_variable(names: list[ast.expr]) -> bool:
    """Whether a variable of the environment is named, and not like a credential."""
    return all(isinstance(name, ast.Constant) and not is_secret_name(str(name.value)) for name in names) and bool(names)


def _bindings(nodes: list[ast.AST]) -> Mapping[str, list[ast.AST]]:  # noqa: C901 - a case for each kind
    """The values that are assigned to each name."""
    bindings: dict[str, list[ast.AST]] = {}
    for node in nodes:
        pairs: list[tuple[ast.AST, ast.AST]] = []
        match node:
            case ast.Assign(targets=targets, value=value):
                pairs = [(target, value) for target in targets]
            case ast.For(
                target=ast.Tuple(elts=[root, *rest]), iter=ast.Call(func=ast.Attribute(attr="walk"), args=[top])
            ):
                pairs = [(root, top), *((name_node, ast.Constant("*")) for name_node in rest)]
            case ast.For(target=ast.Tuple(elts=parts), iter=ast.Call(func=ast.Attribute(attr="items"))):
                pairs = [(part, node.iter) for part in parts]
            case ast.For() | ast.comprehension():
                pairs = [(node.target, node.iter)]
            case ast.NamedExpr() | ast.AnnAssign():
                pairs = [(node.target, node.value or node)]
            case ast.AugAssign():
                pairs = [(node.target, node)]
            case ast.withitem() if node.optional_vars is not None:
                pairs = [(node.optional_vars, node.context_expr)]
            case ast.arg(arg=name):
                bindings.setdefault(name, []).append(node)
        for target, assigned in pairs:
            names = [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
            for name in names:
                bindings.setdefault(name, []).append(assigned if isinstance(target, ast.Name) else target)
    return bindings


def _known(node: ast.AST, values: Mapping[str, list[ast.AST]], seen: dict[int, list[str] | None]) -> list[str] | None:
    """The strings that an expression can be; None if they are unknown."""
    if len(seen) > MAX_EXPRESSIONS:
        return None
    if id(node) not in seen:
        seen[id(node)] = None  # a value that depends on itself
        computed = _computed(node, values, seen)
        seen[id(node)] = computed if computed is None or len(computed) <= MAX_VALUES**2 else None
    return seen[id(node)]


def _computed(  # noqa: C901, PLR0912 - a case for each kind
    node: ast.AST, values: Mapping[str, list[ast.AST]], seen: dict[int, list[str] | None]
) -> list[str] | None:
    parts: list[ast.AST] = []
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Constant():
            return []
        case ast.Name(id="__file__"):
            return ["."]
        case ast.Name(id=name) if name in values:
            parts = list(values[name])
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            parts = list(elements)
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="path"), attr="join"), args=args) if args:
            known = [_known(argument, values, seen) for argument in args]
            joins = product(*(possible for possible in known if possible))
            return (
                None
                if None in known
                else [posixpath.join(*combination) for combination in islice(joins, MAX_VALUES) if combination]
            )
        case ast.Dict(keys=keys, values=elements) if None not in keys:
            parts = [*(key for key in keys if key), *elements]
        case ast.Call(func=ast.Attribute(value=holder, attr="items" | "values" | "keys"), args=[]):
            parts = [holder]
        case ast.Call(func=ast.Attribute(attr="listdir")):
            return ["*"]
        case ast.Call(func=ast.Attribute(attr="glob" | "iglob" | "Path"), args=[operand, *_]):
            parts = [operand]
        case ast.Call(func=ast.Name(id="sorted" | "Path" | "str"), args=[operand, *_]):
            parts = [operand]
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr="rglob"), args=[operand]):
            parts = [operand]
        case _:
            return None
    known_texts = [_known(part, values, seen) for part in parts]
    return None if None in known_texts else [text for texts in known_texts if texts is not None for text in texts]


def _is_of_text(call: ast.Call) -> bool:
    """Whether a call has text as its arguments: it opens no files."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return _TEXT.fullmatch(name) is not None or (name == "replace" and len(call.args) > 1)


def _is_harmless_module(name: str) -> bool:
    first = name.partition(".")[0]
    return name in _MODULES or name == "os" or (first not in sys.stdlib_module_names and first not in _POWERFUL)


# --- JavaScript

_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(?P<string>'(?:[^'\\\n]|\\[^xu\d])*'|\"(?:[^\"\\\n]|\\[^xu\d])*\"|`(?:[^`\\$]|\\[^xu\d]|\$(?!\{))*`)"
    r"|(?P<template>`(?:[^`\\]|\\[^xu\d])*`)|(?P<name>[A-Za-z_$][\w$]*)|(?P<number>\d[\w.]*)|(?P<sign>[^\s\w'\"`\\])",
    re.DOTALL,
)
_NODE_FORBIDDEN = frozenset(
    "eval Function constructor child_process exec execSync execFile spawn spawnSync fork vm worker_threads cluster "
    "globalThis global Reflect Proxy binding dlopen mainModule fetch XMLHttpRequest WebSocket http https net tls "
    "dgram createRequire Bun Deno prototype __proto__ getPrototypeOf unlink unlinkSync rm rmSync rmdir rmdirSync "
    "rename renameSync symlink symlinkSync link linkSync chmod chmodSync chown chownSync createWriteStream with this "
    "axios execa shelljs zx setPrototypeOf getBuiltinModule loadEnvFile homedir".split()
)
_NODE_HARMLESS = frozenset(
    "path util url assert fs os events perf_hooks crypto querystring string_decoder buffer".split()
)
_PROCESS = frozenset(
    "version versions argv exit stdin stdout stderr nextTick platform arch cwd memoryUsage hrtime uptime "
    "exitCode on".split()
)
_WRITES = re.compile(r"(?:write|append|copy|mkdir|truncate|cp|open|save|promises)\w*")
_FILES = re.compile(
    r"(?:read|write|append|copy|cp|mkdir|truncate|open|stat|exists|access)(?:File|dir)?Sync"
    r"|(?:read|write|append|copy)File|createReadStream"
)
_JOINS = frozenset("join concat fromCharCode fromCodePoint reverse atob Buffer decode toString String".split())


def read_javascript(code: str) -> tuple[list[str], list[str], bool] | None:
    """The files that code opens, its other strings, and whether it writes; None if that is unknown."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(code):
        match = _TOKEN.match(code, at)
        if match is None:
            return None
        if match.lastgroup:
            tokens.append((match.lastgroup, match[0]))
        at = match.end()
    names = {text for kind, text in tokens if kind == "name"}
    strings = [text[1:-1] for kind, text in tokens if kind == "string"]
    for kind, text in tokens:
        if kind == "template":
            inner = [read_javascript(match) for match in re.findall(r"\$\{([^{}`]*)\}", text)]
            if None in inner or text.count("${") != len(inner):
                return None
            strings.extend(re.split(r"\$\{[^{}`]*\}", text[1:-1]))
    if names & _NODE_FORBIDDEN or _NODE_FORBIDDEN & {
        part for string in strings for part in re.split(r"[^\w]", string)
    } - {
        "this",
        "with",
    }:
        return None
    if not all(_is_harmless_at(tokens, n) for n in range(len(tokens))):
        return None
    if _computes_names(tokens) and (names & _JOINS or _joins_strings(tokens)):
        return None
    others = [string for string in strings if string and len(string) < _LONGEST_PATH and not re.search(r"\s", string)]
    return (_files(tokens), others, any(map(_WRITES.fullmatch, names)))


def _is_harmless_at(tokens: list[tuple[str, str]], at: int) -> bool:
    """Whether modules and files are named by strings, and only known parts of `process` are used."""
    kind, text = tokens[at]
    after = [*tokens[at + 1 : at + 4], *[("", "")] * 3][:3]
    if kind != "name":
        return True
    if text in ("require", "import"):
        if after[0][1] in ("(", "."):
            module = after[1][1][1:-1].removeprefix("node:")
            return after[0][1] == "(" and after[1][0] == "string" and after[2][1] == ")" and _is_module(module)
        sources = [tokens[n + 1] for n in range(at, len(tokens) - 1) if tokens[n] == ("name", "from")]
        named = sources[:1] or [after[0]]
        return text == "import" and named[0][0] == "string" and _is_module(named[0][1][1:-1].removeprefix("node:"))
    if text == "process":
        variable = tokens[at + 4][1] if len(tokens) > at + 4 and after[1:] == [("name", "env"), ("sign", ".")] else ""
        is_plain = variable.isidentifier() and not is_secret_name(variable)
        return after[0][1] == "." and (after[1][1] in _PROCESS or is_plain)
    if _FILES.fullmatch(text):
        inner = [token for _, token in tokens[at + 1 : at + 6]]
        if inner == ["(", "path", ".", "join", "("] and text.startswith("read") and not _joins_strings(tokens):
            return tokens[at + 6 : at + 7] != [] and tokens[at + 6][0] == "string"
        return after[0][1] == "(" and after[1][0] == "string" and after[2][1] in (",", ")")
    return True


def _is_module(name: str) -> bool:
    return name in _NODE_HARMLESS or name.partition("/")[0] not in _NODE_POWERFUL


_NODE_POWERFUL = frozenset(
    "child_process cluster dgram dns http http2 https inspector module net process repl tls v8 vm worker_threads "
    "wasi diagnostics_channel async_hooks axios execa shelljs zx node-fetch undici got superagent ws ssh2".split()
)


def _files(tokens: list[tuple[str, str]]) -> list[str]:
    return [
        tokens[n + 2][1][1:-1]
        for n in range(len(tokens) - 2)
        if tokens[n][0] == "name" and _FILES.fullmatch(tokens[n][1]) and tokens[n + 2][0] == "string"
    ]


def _computes_names(tokens: list[tuple[str, str]]) -> bool:
    """Whether a member is taken by a name that is computed: `a[b]`."""
    return any(
        tokens[n][1] == "["
        and (tokens[n - 1][0] == "name" or tokens[n - 1][1] in (")", "]"))
        and not (tokens[n + 1][0] in ("number", "string") and tokens[n + 2][1] == "]")
        for n in range(1, len(tokens) - 2)
    )


def _joins_strings(tokens: list[tuple[str, str]]) -> bool:
    return any(
        tokens[n][1] == "+" and "string" in (tokens[n - 1][0], tokens[n + 1][0]) for n in range(1, len(tokens) - 1)
    ) or any(kind == "template" for kind, _ in tokens)
