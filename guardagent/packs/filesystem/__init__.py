"""The place in the file system to which a path in a call leads, and the places that matter.

A path is resolved as the tool could read it. Some places hold credentials, and something runs others later; their names
are compared in lower case.
"""

from __future__ import annotations

import fnmatch
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from guardagent.errors import InputError

# --- places that matter

_SECRETS = re.compile(
    r"""(?: ^|/ ) (?:
        \.env(?:\.(?!example$|sample$|template$|dist$|defaults?$|schema$|md$|rst$|d\.ts$)[^/]+)?$ | \.envrc$
          | [^/]+\.env$
      | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?$ | \.ssh(?:/(?!known_hosts|[^/]*\.pub$).*)?$ | \.gnupg(?:/|$)
      | (?!(?:cert|ca|ca-?bundle|ca-?cert|chain|fullchain|public[^/]*|[^/]*\.pub)\.pem$)[^/]+\.pem$
      | [^/]+\.(?:key|p12|pfx|jks|keystore|kdbx?|ppk|asc|ovpn|tfstate|tfvars|keychain|keychain-db)$
          | [^/]+\.tfstate\.backup$
      | \.(?:aws|azure|password-store|docker/config\.json|kube/config|databrickscfg|snowsql|oci|bluemix)(?:/|$)
      | \.config/(?:gcloud|gh|hub|op|rclone|doctl|helm)(?:/|$) | \.local/share/keyrings(?:/|$) | keychains(?:/|$)
      | (?:\.|_)netrc$ | \.(?:npmrc|yarnrc|pypirc|pgpass|my\.cnf|mylogin\.cnf|s3cfg|boto|terraformrc|htpasswd
          |vault-token|dockercfg)$
      | \.(?:git-credentials|credentials(?:\.json)?|cargo/credentials(?:\.toml)?|gem/credentials
          |m2/settings[^/]*\.xml)$
      | \.(?:gradle/gradle\.properties|composer/auth\.json|codex/auth\.json|claude\.json|tokens?|secrets?)$
      | (?:credentials?|secrets?|client_secrets?|service[_-]?account[^/]*|auth[_-]?tokens?)\.(?:json|ya?ml|toml|ini
          |txt|xml|env|csv|properties)$
      | (?:passwords?|passwd|api[_-]?keys?)\.(?:txt|csv|json|xlsx?|ya?ml|kdbx?|md)$ | wp-config\.php$ | wallet\.dat$
      | (?:login\ data|cookies|cookies\.sqlite|logins\.json|key[34]\.db|signons\.sqlite|web\ data)$
      | \.(?:bash|zsh|sh|python|psql|mysql|sqlite|node_repl|irb|rediscli)_?history$ | \.lesshst$
          | consolehost_history\.txt$
      | secrets?/.+ | \.secrets?/.*
    ) | ^/etc/(?:shadow|gshadow|sudoers|master\.passwd|ssl/private|krb5\.keytab|ssh/ssh_host)(?:$|[-/._d])
      | ^/proc/[^/]+/(?:environ|mem|maps|cmdline|fd|root|cwd)(?:/|$) | ^/(?:var/)?run/secrets(?:/|$)
          | ^/dev/(?:k?mem|sd|nvme|disk) """,
    re.VERBOSE,
)
_EXAMPLES = (
    ".env", ".env.local", ".env.production", "id_rsa", "id_ed25519", "server.key", "server.pem", ".netrc", ".npmrc",
    ".pypirc", ".pgpass", "credentials", "shadow", ".git-credentials", ".bash_history", ".aws", ".ssh", ".gnupg",
)  # fmt: skip
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


def is_secret(path: str) -> bool:
    """Whether a path is that of credentials. A pattern is if it can match some and is not one for all files."""
    name = path.rpartition("/")[2]
    return bool(_SECRETS.search(path)) or (
        any(sign in name for sign in "*?[")
        and bool(re.search(r"[a-z]", re.sub(r"\[.*?\]", "", name)))
        and any(fnmatch.fnmatchcase(example, name) for example in _EXAMPLES)
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
