"""The folder of an audit: its manifest, and the verdicts of its parts, batch by batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa

from guardagent.batch.arrow.schema import VERDICTS, VERSION
from guardagent.batch.report.manifest import FILE, Manifest, parse_manifest
from guardagent.errors import ContentError, InputError, error_text

BATCH_ROWS = 8192
BATCH_VIOLATIONS = 200_000  # on average; some traces list thousands
_PART = re.compile(r"part-(\d+)[^/]*\.parquet")
_VERSION_KEY = b"guardagent.verdicts"
_UNUSED = ("reasons", "source")
_REDO = "remove this file and resume the audit"


class ResultsFolder:
    """The results of an audit.

    Args:
        address: a folder, or its URL for fsspec.

    Raises:
        InputError: it is no folder of results, or cannot be read.
    """

    def __init__(self, address: str) -> None:
        import fsspec

        self.address = address
        with _reading(address):
            self._files, self._root = fsspec.core.url_to_fs(address)
            self._names: list[str] = [one["name"] for one in self._files.ls(self._root, detail=True)]

    @cached_property
    def manifest(self) -> Manifest:
        path = f"{self._root.rstrip('/')}/{FILE}"
        if not any(name.rstrip("/").endswith(f"/{FILE}") for name in self._names):
            raise InputError(
                f"{self.address}: has no '{FILE}'; expected the results of 'guardagent audit ... --out FOLDER'"
            )
        with _reading(path):
            data: bytes = self._files.cat_file(path)
        try:
            return parse_manifest(data.decode("utf-8"), path)
        except UnicodeDecodeError:
            raise ContentError("is not UTF-8 text; expected JSON", path) from None

    @cached_property
    def parts(self) -> dict[int, str]:
        """The paths of the parts by number.

        Raises:
            InputError: two files have one number, or a number is too large: a trace might count twice.
        """
        found: dict[int, str] = {}
        for name in sorted(self._names):
            match = _PART.fullmatch(name.rpartition("/")[2])
            if match is None:
                continue
            number = int(match[1])
            if number in found or number >= self.manifest.partitions:
                raise InputError(
                    f"{name}: is a second part {number}, or one of more than {self.manifest.partitions}; expected the "
                    "parts of one audit: remove those of other runs"
                )
            found[number] = name
        return dict(sorted(found.items()))

    @property
    def missing(self) -> list[int]:
        """The numbers of the parts that are not there."""
        return [number for number in range(self.manifest.partitions) if number not in self.parts]

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yields the path of a part and verdicts of it, without the columns that no figure needs.

        Raises:
            InputError: a part is corrupt, or has another schema.
        """
        for path in self.parts.values():
            yield from ((path, rows) for rows in self._batches(path))

    def _batches(self, path: str) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        with _reading(path, _REDO), self._files.open(path, "rb") as stream:
            file = pq.ParquetFile(stream)
            _require_verdicts(file.schema_arrow, path)
            yield from file.iter_batches(_batch_rows(file.metadata), columns=list(_columns(file.schema)))


def _batch_rows(metadata: Any) -> int:
    """The number of rows that keeps a batch small: fewer if verdicts list many violations."""
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    values = sum(max(group.column(at).num_values for at in range(group.num_columns)) for group in groups)
    return max(1, min(BATCH_ROWS, int(BATCH_VIOLATIONS * metadata.num_rows // max(1, values))))


def _columns(schema: Any) -> Iterator[str]:
    """The paths of the columns to read: evidence is the largest part of a violation, and no figure needs it."""
    for at in range(len(schema)):
        path = schema.column(at).path
        root = path.partition(".")[0]
        if root in VERDICTS.names and root not in _UNUSED and not path.endswith(".evidence"):
            yield path


def _require_verdicts(schema: pa.Schema, path: str) -> None:
    version = (schema.metadata or {}).get(_VERSION_KEY, b"").decode("utf-8", "replace")
    if version != str(VERSION):
        raise ContentError(
            f"has {f'verdicts of version {version}' if version else 'no verdicts of an audit'}; expected version "
            f"{VERSION}: use the release of the audit, or judge the traces anew",
            path,
        )
    for field in VERDICTS:
        found = schema.field(field.name).type if field.name in schema.names else None
        if found != field.type:
            raise ContentError(
                f"column '{field.name}' is {found or 'missing'}; expected {field.type}: judge the traces anew", path
            )


@contextmanager
def _reading(path: str, remedy: str = "expected the folder of an audit that can be read") -> Iterator[None]:
    """Turns errors of files, stores and Parquet into errors that name the file."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file or folder; {remedy}") from None
    except NotADirectoryError:
        raise InputError(f"{path}: is no folder; {remedy}") from None
    except (OSError, ValueError, ImportError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error_text(error)}; {remedy}") from None
