"""The policies of a server and their versions."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.server.service.errors import UnknownItemError
from guardagent.server.settings import PolicySettings


class PolicyCatalogue:
    """The policies of a server by their names.

    Args:
        settings: the settings of each policy.

    Raises:
        InputError: a policy is invalid.
    """

    def __init__(self, settings: Mapping[str, PolicySettings]) -> None:
        self._settings = dict(settings)
        self._loaded = {name: load_policies(one.files) for name, one in settings.items()}

    def names(self, tenant: str) -> list[str]:
        """Returns the names of the policies that a tenant may use."""
        return [name for name, one in self._settings.items() if one.may_be_used_by(tenant)]

    def settings(self, name: str, tenant: str) -> PolicySettings:
        """Returns the settings of a policy.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        found = self._settings.get(name)
        if found is None or not found.may_be_used_by(tenant):
            raise UnknownItemError(f"there is no policy {name!r}; expected one of {', '.join(self.names(tenant))}")
        return found

    def current(self, name: str) -> Policies:
        """Returns the current version of a policy."""
        return self._loaded[name].current

    def version(self, name: str, digest: str) -> Policies | None:
        """Returns a version of a policy; None if this server does not have it."""
        loaded = self._loaded.get(name)
        if loaded is None:
            return None
        if loaded.current.digest == digest:
            return loaded.current
        return None if loaded.versions is None else loaded.versions.find(digest)

    def held(self, name: str) -> list[str]:
        """Returns the digests of the versions that this server has, the current one first."""
        loaded = self._loaded[name]
        others = () if loaded.versions is None else loaded.versions.held()
        return [loaded.current.digest, *(one.digest for one in others if one.digest != loaded.current.digest)]

    def reload(self, name: str) -> Policies:
        """Loads the files of a policy again, for new sessions.

        Raises:
            InputError: they are invalid; the current version stays in force.
        """
        return self._loaded[name].reload()


def unchanging(version: Policies, candidate: Policies | None) -> Policies:
    """Returns a version that no reload replaces, for a guard of sessions that began under it.

    Args:
        version: the version.
        candidate: judges too, without effect, in place of the one that the version names; None for that one.
    """
    fixed = copy.copy(version)
    fixed.versions = None
    fixed.shadow = version.shadow if candidate is None else candidate
    return fixed
