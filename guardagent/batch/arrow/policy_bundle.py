"""Policies as one value, a bundle, which travels to worker processes and other machines.

It holds the bytes of the policy files, their programs and toolboxes. Included packs of GuardAgent are not in it: a
worker takes its own, and refuses to judge if it would get other policies than the driver.
"""

from __future__ import annotations

import atexit
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from guardagent import __file__ as _package
from guardagent._version import __version__
from guardagent.errors import InputError
from guardagent.models import Model
from guardagent.policy.file.policy_file import contents_of
from guardagent.policy.load import load_policies, read_policy_files
from guardagent.policy.policies import Policies

_PACKAGE = Path(_package).resolve().parent


@dataclass(frozen=True, slots=True)
class PolicyBundle:
    """The files of a policy.

    Attributes:
        files: the policy files among the files of the archive.
        archive: a zip archive.
        archive_digest: its SHA-256.
        policy_digest: the digest of the loaded policies.
        model: as for `load_policies`. It travels too.
        version: the version of GuardAgent.
    """

    files: tuple[str, ...]
    archive: bytes
    archive_digest: str
    policy_digest: str
    model: Model | None = None
    version: str = __version__

    @classmethod
    def of(
        cls,
        paths: Sequence[Path | str],
        *,
        locked: Path | str | None = None,
        require_review: bool = False,
        model: Model | None = None,
    ) -> PolicyBundle:
        """Reads policy files and everything that they refer to.

        Args:
            paths: the policy files.
            locked: a lock file: only content that it pins is read.
            require_review: as for `load_policies`.
            model: as for `load_policies`; it has to be hashable, and is pickled.

        Raises:
            InputError: the policies are invalid or not locked, or ask a model without one.
        """
        policies = load_policies(list(paths), locked=locked, require_review=require_review, model=model)
        files = [Path(path).resolve() for path in paths]
        others = {content.path.resolve() for content in contents_of(read_policy_files(list(paths)))}
        contents = sorted({*files, *(path for path in others if not path.is_relative_to(_PACKAGE))})
        root = Path(os.path.commonpath([content.parent for content in contents]))
        archive = _zipped(root, contents)
        names = tuple(str(file.relative_to(root)) for file in files)
        bundle = cls(names, archive, sha256(archive).hexdigest(), policies.digest, model)
        bundle.policies()  # a change in the meantime shows here
        return bundle

    def policies(self) -> Policies:
        """The policies, loaded from this bundle; loaded once in a process.

        Raises:
            InputError: the bundle was changed, or the policies cannot be loaded here as they were where it was made.
        """
        return _loaded(self)


@lru_cache(8)
def _loaded(bundle: PolicyBundle) -> Policies:
    if sha256(bundle.archive).hexdigest() != bundle.archive_digest:
        raise InputError("the bundle of policies was changed on its way; expected the bytes that its digest names")
    if bundle.version != __version__:
        raise InputError(
            f"this worker has GuardAgent {__version__}; expected {bundle.version}, as where the run was started"
        )
    folder = tempfile.mkdtemp(prefix="guardagent-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # not before: toolboxes may read their files late
    with zipfile.ZipFile(io.BytesIO(bundle.archive)) as archive:
        archive.extractall(folder)
    policies = load_policies([Path(folder, name) for name in bundle.files], model=bundle.model)
    if policies.digest != bundle.policy_digest:
        raise InputError(
            "the policies differ on this worker; expected the same packs of GuardAgent, and files that do not change"
        )
    return policies


def _zipped(root: Path, contents: Sequence[Path]) -> bytes:
    """The same bytes for the same files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in contents:
            archive.writestr(zipfile.ZipInfo(str(path.relative_to(root))), path.read_bytes())
    return data.getvalue()
