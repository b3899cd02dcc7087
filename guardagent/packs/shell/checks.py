"""The checks of what a single command does to files and packages, and of code in it. Each yields kinds of danger."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import dropwhile, groupby, pairwise, takewhile

from guardagent.packs.shell.code_readers import CODE_READERS, has_danger, sed_files
from guardagent.packs.shell.commands import (
    SHELLS,
    copies_example,
    inner_commands,
    operands,
    options,
    plain_words,
    printed_words,
    value_after,
)
from guardagent.packs.shell.foreign_code import INTERPRETERS, code_effects, inline_code
from guardagent.packs.shell.paths import changed, deleted, is_elsewhere, paths_of, read, zone
from guardagent.packs.shell.script import SUBSTITUTED, ShellCommand, Word

# --- changed files outside of the workspace, and devices

_FORMATTERS = re.compile(
    r"(?:mkfs(?:\..*)?|wipefs|s?fdisk|s?gdisk|parted|blkdiscard|mkswap|hdparm|cryptsetup|[lvp]vremove|vgremove|zpool|"
    r"badblocks|qemu-nbd|diskutil|nvme|tune2fs|mdadm|losetup|debugfs|efibootmgr|resize2fs|fsck(?:\..*)?|e2fsck|dmsetup|grub-install)"
)
_ALL = frozenset("mv ln link tee touch mkdir truncate setfacl mkfifo mknod gunzip sponge fallocate".split())
_LAST = ("cp", "install", "rsync", "scp", "split", "ffmpeg", "convert", "magick", "ditto", "objcopy", "strip")
# A program, perhaps with its command -> the first and the last of its operands that it writes.
_PLACES: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("uniq", "xxd", "ar", "mksquashfs"), (1, 2)),
    **dict.fromkeys(("zip", "sqlite3", "virtualenv"), (0, 1)),
    **dict.fromkeys(("script", "dos2unix", "unix2dos"), (0, None)),
    **dict.fromkeys(("patch", "cpio"), (0, None)),
    "rename": (1, None),
    **dict.fromkeys(("git init", "uv venv"), (1, 2)),
    **dict.fromkeys((f"qemu-img {name}" for name in "create resize commit rebase snapshot amend".split()), (1, None)),
    "qemu-img convert": (-1, None),
}
_VALUED = frozenset("-b -f -F -o -O --initial-branch --python".split())  # options of these commands that have a value
_COMPRESSORS = ("gzip", "bzip2", "bunzip2", "xz", "unxz", "lzma")
_AFTER_MODE = ("chmod", "chown", "chgrp", "chattr")
_AFTER_OPTION = {
    "curl": ("-o", "--output", "--output-dir", "-c", "--cookie-jar", "-D", "--dump-header", "--trace", "--stderr"),
    "wget": ("-O", "--output-document", "-P", "--directory-prefix"),
    "aria2c": ("-o", "-d", "--dir"),
    "tar": ("-C", "--directory"),
    "unzip": ("-d",),
    "patch": ("-d", "-o", "--directory", "--output"),
    "csplit": ("-f", "--prefix"),
    "cmake": ("-B", "--prefix", "--install-prefix"),
    "cpio": ("-D", "--directory", "-O", "-F"),
    "javac": ("-d",),
    "cargo": ("--root", "--target-dir"),
    "npm": ("--prefix",),
    "logrotate": ("-s", "--state"),
    "sort": ("-o",),
    "pg_dump": ("-f", "--file"),
    "mysqldump": ("-r", "--result-file"),
    "find": ("-fprint", "-fprint0", "-fprintf", "-fls"),
    **dict.fromkeys(("pip", "pip3"), ("-t", "--target", "--prefix", "-d", "--dest")),
    **dict.fromkeys(
        ("pytest", "py.test"), ("--basetemp", "--junitxml", "--junit-xml", "--log-file", "--html", "--report-log")
    ),
    "mypy": ("--cache-dir", "--junit-xml", "--html-report", "--txt-report", "--xml-report"),
    "tsc": ("--outDir", "--declarationDir", "--tsBuildInfoFile"),
    "jest": ("--outputFile", "--coverageDirectory", "--cacheDirectory"),
    "eslint": ("--cache-location",),
}


def check_changes(command: ShellCommand, workspace: str) -> Iterator[str]:
    for path in paths_of(_written(command), command, workspace):
        yield from changed(path)
    for path in paths_of(_emptied(command), command, workspace):
        if path is not None and zone(path) == "inside" and not _MAY_BE_EMPTY.search(path):
            yield "delete"
    if _takes_unnamed(command) and any(map(edits_in_place, inner_commands(command))):
        yield "folders"
    if _FORMATTERS.fullmatch(command.name or ""):
        yield "device"
    if command.name == "tar" and any(
        re.fullmatch(r"-[a-zA-Z]*P[a-zA-Z]*|--absolute-names", option) for option in options(command)
    ):
        yield "outside"
    if command.name == "git" and _changes_settings(plain_words(command)):
        yield "outside"


_IN_PLACE = re.compile("-[a-z0-9E]*i|--in-place")
# A command, or what its input is from, that names files or searches for what is in them.
_NAMED = re.compile(r"^(?:echo|printf) |^parallel .* ::: |(?:^| )(?:\w*grep|rg|ag) (?:\S+ )*-(?:\w*[lq]|-files-w)")


def edits_in_place(command: ShellCommand) -> bool:
    return command.name in ("sed", "perl", "ruby") and any(map(_IN_PLACE.match, options(command)))


def _takes_unnamed(command: ShellCommand) -> bool:
    texts = (" ".join((source.name or "", *plain_words(source))) for source in (*command.sources, command))
    return command.name in ("find", "fd", "fdfind", "xargs", "parallel") and not any(map(_NAMED.search, texts))


def changed_words(command: ShellCommand) -> Iterator[Word]:
    """The files that a command is known to write or delete, as it names them; redirections are not among them."""
    yield from _written(command)
    yield from _deleted(command)


def _written(command: ShellCommand) -> Iterator[Word]:
    yield from _targets(command)
    yield from _outputs(command)
    yield from _made(command)


_MAY_BE_EMPTY = re.compile(
    r"(?:^|/)(?:__init__\.py|py\.typed|\.git\w+|\.[\w-]+)$|\.(?:log|out|err|txt|tmp|pid|lock|csv|jsonl|cache|history)$|(?:^|/)[^./]+$"
    r"|\$$|(?:^|/)(?:tmp|temp|logs?|out|build|dist|target|cache|\.cache)/"
)
_ARCHIVE = re.compile(r"-?[a-zA-Z]*[cru][a-zA-Z]*f|--file")


def _emptied(command: ShellCommand) -> tuple[Word, ...]:
    """The files that a command leaves empty: `> FILE`, `: > FILE`, `truncate -s 0 FILE`."""
    if command.name == "truncate":
        is_emptied = {"-s0", "--size=0"} & options(command) or value_after(command, "-s", "--size")[:1] == (("0",),)
        return operands(command) if is_emptied else ()
    if command.words[:2] == (("cp",), ("/dev/null",)):
        return command.words[2:]
    prints_nothing = command.words in ((), (("true",),), ((":",),), (("echo",),), (("cat",), ("/dev/null",)))
    has_input = command.sources or command.reads or command.text is not None
    return command.writes[:1] if prints_nothing and not has_input else ()


def _made(command: ShellCommand) -> Iterator[Word]:
    """The files and folders that a program makes at a place among its operands, or behind letters of options."""
    name, words = command.name or "", operands(command)
    plain = plain_words(command)
    if (place := f"{name} {plain[0] if plain else ''}") in _PLACES:
        name = place
        words = tuple(
            word for option, word in pairwise(command.words) if word in words and not _VALUED.intersection(option)
        )
    first, last = _PLACES.get(name, (0, 0))
    if not (name == "sqlite3" and {"-readonly", "--readonly"} & options(command)):
        yield from words[first:last]
    if name == "tar":
        yield from (after for word, after in pairwise(command.words[1:]) if word and _ARCHIVE.fullmatch(word[0]))
        yield from (
            (word[0].partition("=")[2],) for word in command.words[1:] if word and word[0].startswith("--file=")
        )
    if plain[:2] in (["-m", "venv"], ["-m", "virtualenv"], ["worktree", "add"]):
        yield from words[2:3] if plain[0] == "worktree" else words[1:2]
    if name == "make":
        yield from ((word.partition("=")[2],) for word in plain if re.match(r"(?:DESTDIR|prefix|PREFIX)=", word))


def _outputs(command: ShellCommand) -> Iterator[Word]:
    """The files of `-o FILE` of any program, if they are outside of projects."""
    joined = (word[2:] for word in plain_words(command) if re.match(r"-[oB][/~.]", word))
    equal = (
        word.partition("=")[2]
        for word in plain_words(command)
        if re.match(r"--?(?:out(?:put|file)?|\w+_out)\S*=", word)
    )
    after = value_after(command, "-o", "-O", "--output", "--output-file", "--outfile", "--out", "-out", "--output-dir",
                        "-keyout", "--target-dir")  # fmt: skip
    for value in (*joined, *equal, *(value for word in after for value in word)):
        if is_elsewhere(value):
            yield (value,)


def _targets(command: ShellCommand) -> tuple[Word, ...]:
    """The files that a command changes."""
    name, words = command.name or "", operands(command)
    if copies_example(command):
        return ()
    if name == "ln" and len(words) == 2 and all(words) and not words[0][0].startswith(("/", "~")):
        return ((posixpath.join(posixpath.dirname(words[1][0]), words[0][0]),), words[1])
    if name in _ALL or _replaces_files(command):
        return words
    if name in _LAST:
        return value_after(command, "-t", "--target-directory") or words[-1:]
    if name in _AFTER_MODE or edits_in_place(command):
        scripts = value_after(command, "-e", "-f", "--expression", "--file") if name == "sed" else ()
        return tuple(word for word in words if word not in scripts) if scripts else words[1:]
    if name == "dd":
        return tuple((value[3:],) for word in words for value in word if value.startswith("of="))
    if name in ("docker", "podman") and ("cp",) in words[:2]:
        return tuple(word for word in words[-1:] if not word or ":" not in word[0])
    if name == "git" and words[:1] == (("clone",),):
        return words[2:3]
    return value_after(command, *_AFTER_OPTION.get(name, ()))


def _replaces_files(command: ShellCommand) -> bool:
    """Whether `gzip` and its like put a compressed file in the place of each."""
    keeps = any(re.fullmatch(r"-[a-zA-Z0-9]*[cltV]\w*|--(?:stdout|list|test)", option) for option in options(command))
    return command.name in _COMPRESSORS and not keeps


def _changes_settings(words: list[str]) -> bool:
    reads = {"--get", "--list", "-l", "--get-all"} & set(words)
    return words[:1] == ["config"] and bool({"--global", "--system"} & set(words)) and not reads


# --- deleted folders, and deleted files outside of the workspace

_DELETERS = (
    "rm", "rmdir", "unlink", "shred", "srm", "trash", "trash-put", "rimraf", "del", "del-cli", "remove_directory", "rd",
)  # fmt: skip
# Programs that delete what they put into an archive, or copy, with an option.
_MOVES = {
    "tar": re.compile("--remove-files"),
    "zip": re.compile("-[a-zA-Z0-9]*m[a-zA-Z0-9]*|--move"),
    **dict.fromkeys(("7z", "7za", "7zz"), re.compile("-sdel")),
    "rsync": re.compile("--remove-source-files"),
}
_NOT, _ALTERNATIVES = ("!", "-not"), ("-o", "-or", ",")
_EXCLUDED_GROUPS = [(negation, group) for negation in _NOT for group in ("(", "\\(")]
# Folders that are made again by a build, a test or an installation, and files.
_MADE_AGAIN = re.compile(
    r"(?:^|/)(?:node_modules|bower_components|builds?|dist|outputs?|out|target|bin|obj|coverage|htmlcov|results?|reports?"
    r"|(?:[\w-]+-)?(?:results|report|build|dist|out|output|static|cov)|(?:cmake-)?build-[\w-]+|dist-[\w-]+|zig-(?:cache|out)"
    r"|(?:tmp|temp|scratch)[\w.-]*|[\w.-]+[._-](?:tmp|temp|bak)|logs?|venv|env|deps|vendor|Pods|DerivedData|elm-stuff|_build"
    r"|_site|site|generated|__\w+__|[\w.-]*cache[\w.-]*|[\w.*-]+\.egg-info|screenshots|videos|mlruns|wandb|lightning_logs"
    r"|\.(?:next|nuxt|svelte-kit|turbo|gradle|tox|nox|venv|env|eggs|terraform|stack-work|dart_tool|angular|expo|vite|output"
    r"|serverless|aws-sam|docusaurus|ipynb_checkpoints|nyc_output|vercel|netlify|hypothesis|kotlin|cxx|yarn|pnpm-store"
    r"|coverage))(?:/|$)|[\w*-]\.\w{1,8}$"
)
_SOURCES = re.compile(
    r"\*\.(?:py|[cm]?[jt]sx?|go|rs|java|rb|php|c|cc|cpp|h|cs|kt|swift|sql|md|html|css|vue|ipynb|ex|sh)"
)
_NARROWING = {"-name", "-iname", "-path", "-regex", "-empty"}


def check_deletions(command: ShellCommand, workspace: str) -> Iterator[str]:
    name, words = command.name, plain_words(command)
    emptied = value_after(command, "--basetemp") if name in ("pytest", "py.test") else ()
    words_of_paths = (*emptied, *_deleted(command))
    takes_folders = bool(words_of_paths) and _is_recursive(command)
    for path in paths_of(words_of_paths, command, workspace):
        yield from deleted(path)
        if path and _SOURCES.fullmatch(posixpath.basename(path)):
            yield from _of_folder(posixpath.dirname(path) or ".")
        elif takes_folders or (path or "").endswith("/*"):
            yield from _of_folder(path)
    into = value_after(command, "-t", "--target-directory") or operands(command)[-1:] if name == "mv" else ()
    if any(path and zone(path) != "inside" for path in paths_of(into, command, workspace)):
        yield from (kind for path in paths_of(operands(command), command, workspace) for kind in _of_folder(path))
    if name in ("shred", "srm") or (name == "rm" and "--no-preserve-root" in words):
        yield "delete"
    is_piped = name == "xargs" or (name == "parallel" and ":::" not in words)
    if is_piped and set(words) & set(_DELETERS) and not printed_words(command):
        yield "delete"
    if name == "find" and ("-delete" in words or set(words) & set(_DELETERS)):
        yield from _of_find(command, workspace)
    if name == "mv" and ("/dev/null" in words or any(re.search(r"(?:^|/)\.git/?$", word) for word in words[:-1])):
        yield "delete"
    forced = any("f" in option and "n" not in option for option in options(command))
    if (name == "git" and "clean" in words and forced) or (name in ("docker", "podman") and words[1:2] == ["prune"]):
        yield "delete"


def _is_recursive(command: ShellCommand) -> bool:
    """Whether a program that deletes takes folders with what is in them."""
    has_option = any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive", option) for option in options(command))
    return has_option or command.name not in ("rm", "rmdir", "unlink", "shred", "srm", "pytest", "py.test", *_MOVES)


def _of_folder(path: str | None) -> Iterator[str]:
    if path is not None and zone(path) == "inside" and not _MADE_AGAIN.search(path.rstrip("/")):
        yield "folders"


def _deleted(command: ShellCommand) -> tuple[Word, ...]:
    name, words = command.name or "", operands(command)
    if name == "gio" and words[:1] in ((("trash",),), (("remove",),)):
        return words[1:]
    if name in _MOVES and any(map(_MOVES[name].fullmatch, options(command))):
        return words
    if name == "rsync" and any(re.match("--del(?:ete)?", option) for option in options(command)):
        return words[-1:]
    return words if name in _DELETERS else ()


def _of_find(command: ShellCommand, workspace: str) -> Iterator[str]:
    """A search that is narrowed by a name deletes files; another one deletes its whole folders, as `rm -r` does."""
    has_name = is_narrowed(plain_words(command))
    for path in paths_of(find_roots(command) or ((".",),), command, workspace):
        if path is None:
            yield "delete"
        elif not has_name:
            yield from deleted(path)
            yield from _of_folder(path)
        elif zone(path) not in ("inside", "temporary"):
            yield "delete"
        elif any(map(_SOURCES.fullmatch, plain_words(command))):
            yield from _of_folder(path)


def find_roots(command: ShellCommand) -> tuple[Word, ...]:
    """The folders in which `find` begins: all words before its first test."""
    rest = dropwhile(lambda word: bool(word) and re.fullmatch(r"-(?:[HLP]|O\d+)", word[0]), command.words[1:])
    return tuple(takewhile(lambda word: not word or not word[0].startswith(("-", "(", "!", "\\")), rest))


def is_narrowed(words: list[str]) -> bool:
    """Whether a search finds only some names: each of its alternatives asks for one, and no group is excluded."""
    excludes_group = any(pair in _EXCLUDED_GROUPS for pair in pairwise(words))
    alternatives = [list(group) for is_or, group in groupby(words, _ALTERNATIVES.__contains__) if not is_or]
    return not excludes_group and all(map(_asks_for_name, alternatives))


def _asks_for_name(words: list[str]) -> bool:
    """Whether a name is asked for. To exclude one, or to take every name, is not enough."""
    return any(
        word in _NARROWING and before not in _NOT and (word == "-empty" or any(map(str.isalnum, pattern)))
        for before, word, pattern in zip(["", *words], words, [*words[1:], ""], strict=False)
    )


# --- packages and modules from an address of the command, and settings of package managers

_ADDRESS = re.compile(
    r"(?:git\+)?(?:https?|git|ssh|ftp|file)://|git@|(?:github|gitlab|bitbucket|gist|gh|gl):|\.git(?:#|@|$)"
)
_CONTAINERS = ("docker", "podman", "nerdctl", "buildah", "docker-compose", "podman-compose")
REMOTE_CONTEXT = re.compile(rf"{_ADDRESS.pattern}|^(?:oci:|github\.com/)")
# Options whose value is text for a package or an image.
_TEXTS = frozenset("--build-arg --label --annotation --cache-from --cache-to --set --set-string -t --tag".split())
_INSTALLS = {  # a manager -> its commands that fetch packages; none for any
    "pip pip3 pipx uv poetry conda mamba": "install add download tool run create",
    "npm pnpm yarn bun": "install i add exec dlx x create link ci",
    "npx bunx uvx nix-shell cookiecutter cruft copier ansible-pull cpanm": "",
    "nix ansible-galaxy luarocks": "run shell profile develop build install collection",
    "terraform tofu pulumi": "init new",
    "cargo": "install add",
    "gem": "install sources fetch update",
    "go": "get install run",
    "composer": "require global",
    "apt apt-get dpkg rpm dnf yum brew snap apk zypper pacman": "install in -i -U add tap",
    "deno": "run install",
    "helm": "install upgrade repo",
    "kubectl": "apply create replace",
    "docker podman nerdctl buildah": "build bake compose",
    "docker-compose podman-compose": "",
}
_ACTIONS = {name: frozenset(actions.split()) for names, actions in _INSTALLS.items() for name in names.split()}
_OTHER_INDEX = re.compile(
    r"(?:--(?:extra-)?index-url|--find-links|--registry|--trusted-host|--source|--git|--repo|--repository|--add"
    r")(?:=|$)"
)
# Options and settings that switch checks of packages off.
_UNCHECKED = re.compile(
    r"(?:^| )(?:--(?:allow-(?:untrusted|unauthenticated|insecure\S*)|no-?(?:gpg-?checks?|signature|digest|strict-ssl)"
    r"|gpg-auto-import-keys|force-(?:yes|all|bad-verify|non-repository)|dangerous|strict-ssl[ =](?:false|0))(?:[ =]|$)"
    r"|(?:-P|--trust-policy)[ =]?(?:no|low)security)|--setopt[ =]\S*(?:gpg|ssl)\w*=(?:0|no|false)"
    r"|(?:acquire|apt)::\S*(?:allow[\w-]*=(?!0|no|false)|(?:verify|check)[\w-]*=(?:0|no|false))",
    re.IGNORECASE,
)
# Programs that install, or remove, for all projects: which of their commands do.
_CHANGE = r"(?:install|i|add|link|update|up|upgrade|require|uninstall|un|remove|rm|unlink)"
_FOR_ALL = {
    **dict.fromkeys(
        "npm pnpm bun deno dotnet".split(),
        re.compile(rf"^(?=.*(?:^| )(?:-g|--global|--location=global)(?: |$))(?:\S+ )*{_CHANGE}(?: |$)|^link$"),
    ),
    **dict.fromkeys(("yarn", "composer"), re.compile(rf"^global {_CHANGE}\b")),
    "conda": re.compile(r"^(?:\S+ )*(?:install|remove|update)(?: \S+)* (?:-n ?)?base\b"),
    **dict.fromkeys(
        ("pip", "pip3", "uv"),
        re.compile(
            r"^(?:pip )?(?:un)?install\b.* --(?:user|break-system-packages|system)\b|^tool (?:install|upgrade)\b"
            r"|^(?:pip )?uninstall(?:(?: \S+)* (?:-r|--requirement)|(?: -y| --yes)+$)"
        ),
    ),
    "pipx": re.compile("^(?:install|inject|upgrade)"),
    "cargo": re.compile(r"^b?install\b(?!.* --(?:path|root|list|help)\b)"),
    "go": re.compile(r"^install .*@"),
    "gem": re.compile(r"^install\b(?!.* (?:-i|--install-dir)\b)"),
    **dict.fromkeys(
        "brew port snap flatpak choco scoop winget".split(), re.compile(r"^(?:(?:re)?install|upgrade|tap \S)")
    ),
}
_MANAGER_SETTINGS = {
    **dict.fromkeys(("npm", "pip", "pip3"), ("set", "edit")),
    **dict.fromkeys(("pnpm", "yarn"), ("set",)),
    **dict.fromkeys(("composer", "bundle"), ("--global",)),
}


def check_packages(command: ShellCommand, _: str) -> Iterator[str]:
    name, words = command.name or "", plain_words(command)
    if name.startswith("python") and words[:2] in (["-m", "pip"], ["-m", "pipx"]):
        name, words = words[1], words[2:]
    actions = _ACTIONS.get(name)
    if actions is not None and _UNCHECKED.search(" ".join(words)):
        yield "remote_code"
    if actions is not None and (not actions or actions & set(words[:3])):
        names = _names(command, name, words)
        address = REMOTE_CONTEXT if name in _CONTAINERS else _ADDRESS
        if any(address.search(word) or _OTHER_INDEX.match(word) for word in names) or _short_index(name, words):
            yield "remote_code"
        if (name, *words[:1]) == ("go", "run") and any(re.match(r"[^/]*\..*@", word) for word in words):
            yield "remote_code"
    if name in _FOR_ALL and _FOR_ALL[name].search(" ".join(words)):
        yield "installs"
    if (name == "go" and words[:2] == ["env", "-w"]) or (name == "npm" and words[:1] == ["set"]):
        yield "persistence"
    if words[:1] == ["config"] and set(_MANAGER_SETTINGS.get(name, ())) & set(words[1:]):
        yield "persistence"


def _names(command: ShellCommand, name: str, words: list[str]) -> list[str]:
    """The words that can name packages, contexts and indexes; not those for a program, and no texts."""
    if name in ("npx", "bunx", "uvx"):
        return words[: next((n + 1 for n, word in enumerate(words) if not word.startswith("-")), len(words))]
    if name.endswith("-compose") or words[:1] == ["compose"]:
        return [value for word in value_after(command, "-f", "--file") for value in word]
    return [word for option, word in pairwise(["", *words]) if not {option, word.partition("=")[0]} & _TEXTS]


def _short_index(name: str, words: list[str]) -> bool:
    return (name in ("pip", "pip3", "uv") and bool({"-i", "-f"} & set(words))) or (name == "apk" and "-X" in words)


# --- parts that are only known at run time, code of other languages, and options that run commands

# Commands for which an unknown argument makes no difference.
_HARMLESS = frozenset(
    "echo printf test [ [[ true false date basename dirname expr seq sleep exit return wait cd pushd "
    "popd pwd whoami id wc mktemp "
    "uname hostname let shift break continue ls du df which type command pgrep ps set local read".split()
)
_HARMLESS_PAIRS = [(("docker",), (name,)) for name in "logs inspect port top stats images build tag".split()]
_ESCAPES = re.compile(
    r"^--checkpoint-action|^--to-command|^--use-compress-program|^--rsh|^-oProxyCommand|^ProxyCommand=|^LocalCommand=|^-TT$|"
    r"(?:core\.(?:sshCommand|editor|pager|hooksPath|fsmonitor)|diff\.external|credential\.helper|filter\.[\w-]+\.(?:clean|smudge|process)|diff\.[\w-]+\.(?:textconv|command)"
    r"|http\.(?:.*\.)?sslVerify|merge\.[\w-]+\.driver|gpg\.(?:\w+\.)?program|sequence\.editor|init\.templateDir|include(?:If\..*)?\.path|url\..*\.insteadOf"
    r"|remote\.[\w-]+\.(?:receivepack|uploadpack|vcs))(?:=|$)|alias\.[\w-]+=|"
    r"^(?:-o)?(?i:(?:dpkg|apt)::\S*-invoke)|^--upload-pack=|^--exec=|^--[\w-]*program(?:=|$)|^--rsync-path"
)
_EDITORS = frozenset("vi vim nvim ex ed emacs nano view less more man".split())
_EDITOR_CODE = re.compile(r"\w+ (?:-(?:c|es|S|l|f|-(?:cmd|eval|batch|script))|\+)|man -(?:P|H|-pager|-html)")
_SHELL_SETTINGS = ("complete", "bind", "enable", "hash")
# Programs of Windows that run code: in their words, in files, or from an address.
_WINDOWS_CODE = frozenset(
    "powershell pwsh mshta rundll32 regsvr32 wscript cscript installutil msiexec certutil bitsadmin msbuild".split()
)
# Agents, which run what a prompt says, perhaps without any hooks.
_AGENTS = ("claude", "codex", "gemini", "cursor-agent", "aider", "opencode", "crush")
_COMPILERS = {
    "go": re.compile(r"--?(?:toolexec|exec)(?:=|$)"),
    **dict.fromkeys(("gcc", "g++", "cc", "c++"), re.compile(r"-wrapper")),
    **dict.fromkeys(("rpm", "rpmbuild"), re.compile(r"--pipe|.*%(?:\(|\{(?:lua|expand|load):)", re.DOTALL)),
    "cargo": re.compile(r"(?:--config=)?.*(?:wrapper|runner|linker)\"?\s*="),
}
# The consoles of frameworks: how they get code, and its language.
_CONSOLES = (
    (re.compile(r"(?:^|/)rails (?:runner|r) (?!\S+\.rb(?: |$))(?P<code>.*)", re.DOTALL), "ruby"),
    (re.compile(r"manage\.py shell\S* (?:.* )?(?:-c|--command)[ =](?P<code>.*)", re.DOTALL), "python"),
    (re.compile(r"artisan tinker .*--execute[ =](?P<code>.*)", re.DOTALL), "php"),
    (re.compile(r"^rake (?:\S+ )*?(?:-[eEp]|--execute\S*)[ =]?(?P<code>.*)", re.DOTALL), "ruby"),
    (re.compile(r"^mix run (?:.* )?(?:-e|--eval)[ =](?P<code>.*)", re.DOTALL), "elixir"),
)
_READS_CODE = re.compile(r"(?:^|/| )(?:rails (?:c|console)|artisan tinker|manage\.py shell\S*|iex|flask shell)(?: |$)")
_CHANGES_ROWS = re.compile(r"\.(?:delete|update|raw|execute|create|save)\w*\(")


def check_code(command: ShellCommand, workspace: str) -> Iterator[str]:
    if any(test(command) for test in _UNREADABLE):
        yield "unreadable"
    built = paths_of([(value,) for value in _build_places(command)], command, workspace)
    if any(path is not None and zone(path) != "inside" for path in built):
        yield "unreadable"
    if INTERPRETERS.fullmatch(command.name or ""):
        yield from _of_foreign_code(command, workspace)
    if command.name == "sed":
        yield from _of_sed(command, workspace)


def _known(command: ShellCommand) -> list[str | None]:
    return [word[0] if len(word) == 1 else None for word in command.words[1:]]


def _is_dynamic(command: ShellCommand) -> bool:
    is_harmless = command.name in _HARMLESS or command.words[:2] in _HARMLESS_PAIRS
    return not is_harmless and any(not word for word in command.words[1:])


def _of_foreign_code(command: ShellCommand, workspace: str) -> Iterator[str]:
    codes = inline_code(command.words)
    effects = [code_effects(command.name or "", code) for code in codes or ()]
    if codes is None or None in effects:
        yield "unreadable"
    yield from (kind for effect in effects if effect for kind in effect.kinds(command.folder, workspace))


def _has_script(command: ShellCommand) -> bool:
    name, words = command.name or "", [word for word in _known(command) if word is not None]
    if name not in CODE_READERS or name in "sed vi vim nvim just ninja rake ant task gdb lldb java".split():
        return False
    return any(has_danger(name, word) for word in words)


_SED_OPTION = re.compile(r"(?:-[nErsuz]*e|--expression=)(?P<script>.+)", re.DOTALL)


def _of_sed(command: ShellCommand, workspace: str) -> Iterator[str]:
    """The files that the scripts of sed read and write; it is unreadable if they run commands."""
    words = [word or "" for word in _known(command)]
    after = [script for option, script in pairwise(words) if re.fullmatch(r"-[nErsuz]*e|--expression", option)]
    scripts = [*after, *(match["script"] for match in map(_SED_OPTION.fullmatch, words) if match)]
    if not scripts and not value_after(command, "-f", "--file"):
        scripts = [word for word in words if not word.startswith("-") and word][:1]
    for script in scripts:
        files = sed_files(script)
        if files is None:
            yield "unreadable"
        for kinds_of, names in zip((read, changed), files or (), strict=False):
            for path in paths_of([(name,) for name in names if not name.startswith("/dev/std")], command, workspace):
                yield from kinds_of(path)


def _replaces_input(command: ShellCommand) -> bool:
    """Whether `exec < FILE` changes what all later commands read."""
    return command.words == (("exec",),) and any(word != ("/dev/null",) for word in command.reads)


def _runs_by_option(command: ShellCommand) -> bool:
    name, words = command.name or "", [word for word in _known(command) if word is not None]
    if name in _EDITORS and (name in ("ed", "ex") or any(_EDITOR_CODE.match(f"{name} {word}") for word in words)):
        return True
    if name in ("xargs", "parallel") and set(words) & SHELLS:
        return True
    if name in ("make", "gmake") and (_make_runs_by_option(words) or (command.text is not None and "-f" in words)):
        return True
    if name in _AGENTS and not {"--version", "--help"} & set(words):
        return True
    if name in _SHELL_SETTINGS:
        return bool(words)
    if name in ("gdb", "lldb"):
        words = words[: words.index("--args")] if "--args" in words else words
        commands = [after for word, after in pairwise(words) if word in ("-ex", "--ex", "-eval-command", "-o", "-O")]
        plain = {"-batch", "--batch", "-b", "-q", "-p", "--", "-ex", "--ex", "-o", "-O", *commands}
        return any(has_danger(name, text) for text in commands) or any(
            word[0] == "-" for word in words if word and word not in plain
        )
    if name in _COMPILERS and any(map(_COMPILERS[name].match, words)):
        return True
    if _gives_code_to_console(command, " ".join((name, *words))):
        return True
    if name in _WINDOWS_CODE and not {"-version", "--version", "-?", "/?"} & set(map(str.lower, words)):
        return True
    is_rebase = name == "git" and "rebase" in words  # what it runs is judged as a script
    return any(_ESCAPES.search(word) for word in words if not (is_rebase and word.startswith("--exec=")))


# Programs that run what a folder or a file says, and the options that name it.
_BUILDERS = frozenset("make gmake npm pnpm yarn bun cargo mvn mvnw rake just ant gradle gradlew go uv poetry".split())
_CODE_PLACES = re.compile(
    r"(?:^| )(?:-[CfpI]|--(?:directory|file|makefile|prefix|dir|cwd|manifest-path|justfile|init-script|project"
    r"(?:-dir)?))[ =]?(\S+)"
)
_INSTALLERS = frozenset("pip pip3 npm pnpm yarn bun gem cargo".split())


def _build_places(command: ShellCommand) -> Iterator[str]:
    """The folders and files whose code a program builds, runs or installs."""
    name, text = command.name or "", " ".join(plain_words(command))
    yield from _CODE_PLACES.findall(text) if name in _BUILDERS else ()
    yield from re.findall(r" ([/~]\S*)", text) if name in _INSTALLERS and re.match("(?:install|i|add) ", text) else ()
    if name in ("sqlite3", "duckdb"):
        yield from (value for word in command.reads for value in word)


def _gives_code_to_console(command: ShellCommand, text: str) -> bool:
    """Whether the console of a framework gets code that does more than to compute and print."""
    if _READS_CODE.search(text) and (command.sources or command.text or command.reads):
        return True
    codes = ((match["code"], language) for pattern, language in _CONSOLES if (match := pattern.search(text)))
    return any(code_effects(language, code) is None or _CHANGES_ROWS.search(code) for code, language in codes)


def _make_runs_by_option(words: list[str]) -> bool:
    is_other = {"/dev/stdin", "-f-", "-", SUBSTITUTED} & set(words)
    return bool(is_other) or any(
        word.startswith(("SHELL=", ".SHELLFLAGS=", "--eval", "-E", "MAKEFLAGS=")) for word in words
    )


_UNREADABLE = (_is_dynamic, _has_script, _replaces_input, _runs_by_option)
