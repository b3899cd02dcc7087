"""The place in the file system to which a path in a call leads, and the places that matter.

A path is resolved as the tool could read it. Some places hold credentials, and something runs others later; their names
are compared in lower case.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from guardagent.errors import InputError

# --- places that matter

# Windows also knows a file by the first six letters of its name: `git~1` is `.git`.
_SHORT = {
    name.lstrip(".")[:6]: name
    for name in (
        ".git .gitattributes .gitmodules .gitconfig .github .githooks .husky .ssh .aws .gnupg .azure .kube .docker .env"
        " .envrc .netrc .npmrc .pypirc .pgpass .git-credentials credentials id_ed25519 .bashrc .bash_profile .profile"
        " .zshrc .bash_history .claude .cursor .codex .vscode .devcontainer authorized_keys"
    ).split()
}
_SHORT_NAME = re.compile(r"[^.~]{2,6}~\d$")
_LATER = re.compile(
    r"""(?: ^|/ ) (?:
        \.git(?:/|$) | [^/]+\.git/hooks(?:/|$) | \.husky(?:/|$) | (?:\.?lefthook(?:-local)?
          |\.pre-commit-config)\.(?:ya?ml|toml|json)$
      | \.(?:gitconfig|gitmodules|gitattributes)$ | \.config/git(?:/|$) | \.githooks(?:/|$)
      | \.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zprofile|zshenv|zlogin|zlogout
          |kshrc|cshrc|tcshrc|inputrc)$
      | \.(?:vimrc|exrc|nvimrc|emacs|tmux\.conf|screenrc|xinitrc|xprofile|xsession|pythonrc|irbrc|pryrc|psqlrc
          |sqliterc|gdbinit|lldbinit)$
      | \.(?:envrc|npmrc|yarnrc(?:\.yml)?|pnpmfile\.cjs|pip/pip\.conf|curlrc|wgetrc|ssh(?:/.*)?|gnupg(?:/.*)?)$
          | pip\.(?:conf|ini)$
      | \.config/(?:autostart|systemd|fish|nvim|environment\.d|pip)(?:/|$) | \.local/(?:bin|share/applications)(?:/|$)
      | (?:launchagents|launchdaemons|startupitems|cron\.(?:d|daily|hourly|weekly|monthly)|crontabs?)(?:/|$)
          | start\ menu/programs/startup(?:/|$)
      | \.github/(?:workflows|actions)(?:/|$) | \.github/(?:dependabot\.ya?ml|codeowners)$ | codeowners$
      | \.gitlab-ci\.ya?ml$ | \.gitlab/ci(?:/|$) | \.(?:circleci|buildkite|woodpecker|forgejo|gitea|teamcity
          |tekton)(?:/|$)
      | (?:\.travis|\.drone|\.appveyor|appveyor|\.cirrus|\.woodpecker|azure-pipelines|bitbucket-pipelines
          |cloudbuild|buildspec|codefresh)\.ya?ml$
      | jenkinsfile$ | \.vscode/(?:tasks|settings|launch|extensions|mcp)\.json$ | \.devcontainer(?:/|$)
          | \.devcontainer\.json$
      | \.idea/(?:runconfigurations|workspace\.xml|watchertasks\.xml) | (?:site|user)customize\.py$ | [^/]+\.pth$
      | \.claude/(?:settings[^/]*\.json|hooks|commands|agents) | \.claude\.json$ | \.?mcp\.json$ | \.cursor(?:/|$)
          | \.codex(?:/|$)
      | (?:authorized_keys2?|known_hosts|ld\.so\.preload)$
      | (?:claude(?:\.local)?|gemini|(?<!docs/)agents?|(?<!docs/)skill|copilot-instructions)\.md$
      | (?:\.claude|\.agents|\.codex)/(?:skills|rules|plugins|output-styles)(?:/|$)
      | \.github/(?:instructions|prompts|chatmodes|agents)(?:/|$)
          | \.(?:cursor|windsurf|cline|roo|goose)(?:rules|hints)(?:/|$)
      | \.(?:windsurf|roo|clinerules|junie|kiro|continue|amazonq|openhands|trae)(?:/|$) | \.aider\.conf\.ya?ml$
    ) """,
    re.VERBOSE,
)


def runs_later(path: str) -> bool:
    """Whether a path is that of a file, or its folder, that git, a shell, a build or an editor runs on its own."""
    return bool(_LATER.search(path))


# --- where a path leads

MAX_CHARACTERS = 4096
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_WINDOWS = re.compile(r"^(?:[A-Za-z]:|\\\\|//[^/])")
_VARIABLE = re.compile(r"^\$(?:\w+|\{\w+\}|\()|%\w+%|`")


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A place in the file system.

    Attributes:
        path: the absolute path; relative to its root if it is inside of one.
        root: the folder around it that may be changed; empty if it is outside.
    """

    path: str
    root: str

    @property
    def lower(self) -> str:
        """For comparisons of names: in lower case, in full, without the endings that Windows ignores."""
        parts = (re.sub(r"(?<=[^.])[. ]+$|::?\$.*$|(?<=.):.*$", "", part) for part in self.path.lower().split("/"))
        return "/".join(_SHORT.get(part.partition("~")[0], part) if _SHORT_NAME.match(part) else part for part in parts)


def roots(workspace: str, folders: Sequence[str]) -> tuple[str, ...]:
    """The folders that may be changed; the first is the workspace.

    Args:
        workspace: an absolute path; empty for the working folder of this process.
        folders: further ones.

    Raises:
        InputError: one is not absolute.
    """
    for folder in (workspace, *folders):
        if folder and not folder.startswith("/"):
            raise InputError(f"'{folder}' is not an absolute path; write 'workspace' and 'folders' with the whole path")
    return tuple(os.path.realpath(root or Path.cwd()) for root in (workspace, *folders))


def places(text: str, base: str, inside: tuple[str, ...]) -> list[FilePlace] | None:
    """The places that a path can mean; None if that is not known.

    Args:
        text: the path.
        base: the folder that it is relative to; empty for the workspace.
        inside: the folders that may be changed.
    """
    if len(text) > MAX_CHARACTERS or _FORBIDDEN.search(text) or _VARIABLE.search(text):
        return None
    return [_place(spelling, base, inside) for spelling in dict.fromkeys(_spellings(text))]


def _spellings(text: str) -> Iterator[str]:
    """A path, and its other forms: tools decode URLs, Windows accepts both slashes."""
    text = text.strip()
    yield text
    plain = re.sub(r"^file:(?://(?:localhost)?(?=/))?", "", text, flags=re.IGNORECASE)
    for _ in range(3):
        decoded = unquote(plain)
        yield from (decoded, decoded.replace("\\", "/"), unicodedata.normalize("NFKC", decoded))
        if decoded == plain:
            return
        plain = decoded


def _place(text: str, base: str, inside: tuple[str, ...]) -> FilePlace:
    if _WINDOWS.match(text) or re.match(r"[A-Za-z][\w+.-]+:", text) or "\0" in text:
        return FilePlace(text.replace("\\", "/"), "")
    if re.match(r"~[\w-]*(?:/|$)", text):
        text = str(Path.home()) + text[1:] if text == "~" or text.startswith("~/") else f"/{text}"
    resolved = os.path.realpath(os.path.join(inside[0], base, text))  # noqa: PTH118 - an absolute path replaces the others
    for root in inside:
        if resolved == root or resolved.startswith(root.rstrip("/") + "/"):
            return FilePlace(os.path.relpath(resolved, root), root)
    return FilePlace(resolved, "")
