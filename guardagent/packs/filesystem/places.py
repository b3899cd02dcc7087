"""Places that hold credentials, and files that something runs later. Names are in lower case."""

from __future__ import annotations

import fnmatch
import re

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
    ) """,
    re.VERBOSE,
)


def is_secret(path: str) -> bool:
    """Whether a path is that of credentials. A pattern is if it can match some and is not one for all files."""
    name = path.rpartition("/")[2]
    return bool(_SECRETS.search(path)) or (
        any(sign in name for sign in "*?[")
        and bool(re.search(r"[a-z]", re.sub(r"\[.*?\]", "", name)))
        and any(fnmatch.fnmatchcase(one, name) for one in _EXAMPLES)
    )


def runs_later(path: str) -> bool:
    """Whether a path is that of a file, or its folder, that git, a shell, a build or an editor runs on its own."""
    return bool(_LATER.search(path))
