"""Addresses of shared stores: URLs whose password no message shows."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from guardagent.errors import InputError


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address of a store on a server.

    Attributes:
        url: the URL for the client library, without the store's own options.
        options: the store's own options of the query.
        shown: the address for messages: without user, password and query.
        secrets: the passwords in the URL.
    """

    url: str
    options: dict[str, str]
    shown: str
    secrets: tuple[str, ...]

    @classmethod
    def read(cls, scheme: str, rest: str, own: Collection[str]) -> StoreAddress:
        """Reads an address; `rest` follows the colon, and `own` has the names of the store's own options.

        Raises:
            InputError: it is not a URL, or has an option twice.
        """
        parts = _split(scheme, rest)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        names = [name for name, _ in pairs]
        shown = f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"{shown}: the option {twice!r} occurs twice; expected it once")
        others = urlencode([one for one in pairs if one[0] not in own], quote_via=quote)  # libpq reads + as a plus
        options = {name: value for name, value in pairs if name in own}
        password = parts.netloc.rpartition("@")[0].partition(":")[2]
        secrets = [password, unquote(password), *(value for name, value in pairs if "password" in name)]
        secrets = sorted({one for one in secrets if one}, key=len, reverse=True)
        return cls(parts._replace(query=others).geturl(), options, shown, tuple(secrets))

    def without_secrets(self, message: object) -> str:
        """Returns the first line of an error message of the client library, without passwords."""
        text = (str(message).strip().splitlines() or [type(message).__name__])[0]
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text

    def name_option(self, name: str, default: str) -> str:
        """Returns an option that is a name of letters, digits and underscores.

        Raises:
            InputError: it is something else.
        """
        found = self.options.get(name, default)
        if not re.fullmatch("[a-z_][a-z0-9_]{0,50}", found):
            raise InputError(
                f"{self.shown}: the option {name!r} is {found!r}; expected up to 51 lower-case letters, digits and "
                "underscores, and no digit at the beginning"
            )
        return found


def _split(scheme: str, rest: str) -> SplitResult:
    try:
        parts = urlsplit(f"{scheme}:{rest}")
        readable = rest.startswith("//") and parts.port != 0 and not parts.fragment and rest.isprintable()
        readable = readable and "@" not in parts.path + parts.query  # else a password with a slash would be shown
    except ValueError:
        readable = False
    if not readable:  # the address itself may hold a password
        raise InputError(
            f"the address of the store at {scheme!r} cannot be read; expected {scheme}://user:password@host:port/name, "
            "with special characters in the password percent-encoded"
        )
    return parts
