"""Packs: rule sets that ship. Each folder has `policy.yaml`, `cases.jsonl`, `README.md` and often `functions.py`.

Here is what their functions share: the arguments of a call that a pack judges, by their usual names.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

MAX_DEPTH = 20  # of arguments


def named_values(value: Any, names: Collection[str]) -> Iterator[Any]:
    """Finds the values with one of the names, at any depth.

    Args:
        value: the arguments.
        names: the names, in lower case and without `_`: `filepath` finds `filePath` and `file_path`.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if plain_name(key) in names:
                yield inner
            else:
                yield from named_values(inner, names)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from named_values(inner, names)


def plain_name(key: Any) -> str:
    """The name of an argument in lower case, without `_` and `-`."""
    return str(key).lower().replace("_", "").replace("-", "")


def letters(key: Any) -> str:
    """The letters of the name of an argument, in lower case."""
    return re.sub(r"[^a-z]", "", str(key).lower())


def leaves(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The values that are neither lists nor mappings, with the letters of their keys; JSON in strings is read."""
    value = with_json(value)
    if isinstance(value, dict) and depth < MAX_DEPTH:
        for name, part in value.items():
            yield from leaves(part, letters(name), depth + 1)
    elif isinstance(value, list) and depth < MAX_DEPTH:
        for part in value:
            yield from leaves(part, key, depth + 1)
    else:
        yield key, value


def with_json(value: Any) -> Any:
    """The object or the list that a string is as JSON; any other value as it is."""
    if not (isinstance(value, str) and value.lstrip()[:1] in ("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def strings(value: Any) -> list[str] | None:
    """A string, or the strings of a list; None for other values, and for an empty list."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(entry, str) for entry in value):
        return list(value)
    return None


# --- the places of credentials in a file system: one list for all packs

_PLACES = re.compile(
    r"""(?: ^|/ ) (?:
        \.env(?:\.(?!(?:example|sample|template|dist|defaults?|schema|md|rst|d\.ts)$)[^/]+)?$ | \.envrc$
          | [^/]+\.env$
      | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?$ | \.ssh(?:/(?!known_hosts|[^/]*\.pub$).*)?$
      | \.gnupg(?:/|$)
      | (?!(?:cert|ca|ca-?bundle|ca-?cert|chain|fullchain|public[^/]*|[^/]*\.pub)\.pem$)[^/]*\.pem$
      | [^/]*\.(?:key|p12|pfx|jks|keystore|kdbx?|ppk|ovpn|tfstate|tfvars|keychain|keychain-db)$ | [^./]+\.asc$
          | [^/]+\.tfstate\.backup$
      | \.(?:aws|azure|password-store|docker/config\.json|kube/config|databrickscfg|snowsql|oci|bluemix)(?:/|$)
      | \.config/(?:gcloud|gh|glab-cli|hub|op|rclone|doctl|helm|sops|stripe|ngrok|github-copilot|containers/auth\.json
          |pypoetry/auth\.toml)(?:/|$) | \.local/share/keyrings(?:/|$) | keychains(?:/|$)
      | (?:\.|_)netrc$ | \.(?:npmrc|yarnrc|pypirc|pgpass|my\.cnf|mylogin\.cnf|s3cfg|boto|terraformrc|htpasswd
          |vault-token|dockercfg)$
      | \.(?:git-credentials|credentials(?:\.json)?|cargo/credentials(?:\.toml)?|gem/credentials
          |terraform\.d/credentials.*|m2/settings[^/]*\.xml|nuget/(?:.*/)?nuget\.config)$
      | \.(?:gradle/gradle\.properties|composer/auth\.json|codex/auth\.json|claude\.json|cursor/mcp\.json|tokens?
          |secrets?)$
      | \.(?:gemini/oauth[^/]*|fly/config\.yml|ngrok2/.*|kaggle/kaggle\.json|openai/.*|age/.*|putty/.*|electrum/.*
          |bitcoin/.*|ethereum/keystore/.*)$ | \.?huggingface/token$ | age/keys\.txt$
      | (?:credentials?|secrets?|client_secrets?|service[_-]?account[^/]*|auth[_-]?tokens?)\.(?:json|ya?ml|toml|ini
          |txt|xml|env|csv|properties)$
      | (?:passwords?|passwd|api[_-]?keys?)\.(?:txt|csv|json|xlsx?|ya?ml|kdbx?|md)$ | wp-config\.php$ | wallet\.dat$
      | \.(?:mozilla|thunderbird)(?:/|$) | (?:login\ data|web\ data|cookies\.sqlite|logins\.json|key[34]\.db
          |signons\.sqlite)$
      | (?:default|profile[^/]*|network|user\ data)/cookies$
      | \.(?:bash|zsh|sh|python|psql|mysql|sqlite|node_repl|irb|rediscli)_?history$ | \.lesshst$ | fish/fish_history$
          | consolehost_history\.txt$
      | \.?secrets?/(?!.*\.(?:py|js|ts|tsx|jsx|go|rs|java|kt|rb|php|cs|c|h|cpp|md|rst|html|css|sh)$).+
    ) | ^/etc/(?:shadow|gshadow|sudoers|master\.passwd|ssl/private|krb5\.keytab|ssh/ssh_host)(?:$|[-/._d])
      | ^/proc/[^/]+/(?:environ|mem|maps|cmdline|fd|root|cwd)(?:/|$) | ^/(?:var/)?run/secrets(?:/|$)
          | ^/dev/(?:k?mem|sd|nvme|disk) """,
    re.VERBOSE,
)
_NAMES = (
    ".env", ".env.local", ".env.production", "id_rsa", "id_ed25519", "server.key", "server.pem", ".netrc", ".npmrc",
    ".pypirc", ".pgpass", "credentials", "shadow", ".git-credentials", ".bash_history", ".aws", ".ssh", ".gnupg",
)  # fmt: skip


def is_credential_place(path: str) -> bool:
    """Whether a path is that of credentials. A pattern is if it can match some and is not one for all files.

    Args:
        path: the path; case makes no difference.
    """
    path = path.lower()
    name = path.rpartition("/")[2]
    return bool(_PLACES.search(path)) or (
        any(sign in name for sign in "*?[")
        and bool(re.search(r"[a-z]", re.sub(r"\[.*?\]", "", name)))
        and any(fnmatch.fnmatchcase(example, name) for example in _NAMES)
    )
