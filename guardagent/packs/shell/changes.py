"""Changed files outside of the workspace, and devices."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import copies_example, operands, options, plain_words, value_after
from guardagent.packs.shell.effects import changed, paths_of
from guardagent.packs.shell.paths import is_elsewhere
from guardagent.packs.shell.script import ShellCommand
from guardagent.packs.shell.words import Word

_FORMATTERS = re.compile(
    r"(?:mkfs(?:\..*)?|wipefs|s?fdisk|s?gdisk|parted|blkdiscard|mkswap|hdparm|cryptsetup|[lvp]vremove|vgremove|zpool|"
    r"badblocks|diskutil|nvme|tune2fs|mdadm|losetup|debugfs|efibootmgr|resize2fs|fsck(?:\..*)?|e2fsck|dmsetup|grub-install)"
)
_ALL = frozenset("mv ln link tee touch mkdir truncate setfacl mkfifo mknod gunzip sponge fallocate".split())
_LAST = ("cp", "install", "rsync", "scp", "split", "csplit", "ffmpeg", "convert", "magick")
_COMPRESSORS = ("gzip", "bzip2", "bunzip2", "xz", "unxz", "lzma")
_AFTER_MODE = ("chmod", "chown", "chgrp", "chattr")
_AFTER_OPTION = {
    "curl": ("-o", "--output", "--output-dir"),
    "wget": ("-O", "--output-document", "-P", "--directory-prefix"),
    "aria2c": ("-o", "-d", "--dir"),
    "tar": ("-C", "--directory"),
    "unzip": ("-d",),
    "patch": ("-d", "-o"),
    "sort": ("-o",),
    "pg_dump": ("-f", "--file"),
    "mysqldump": ("-r", "--result-file"),
    "find": ("-fprint", "-fprint0", "-fprintf", "-fls"),
    **dict.fromkeys(("pip", "pip3"), ("-t", "--target", "--prefix", "-d", "--dest")),
    "cpio": ("-D", "--directory"),
    **dict.fromkeys(
        ("pytest", "py.test"), ("--basetemp", "--junitxml", "--junit-xml", "--log-file", "--html", "--report-log")
    ),
    "mypy": ("--cache-dir", "--junit-xml", "--html-report", "--txt-report", "--xml-report"),
    "tsc": ("--outDir", "--declarationDir", "--tsBuildInfoFile"),
    "jest": ("--outputFile", "--coverageDirectory", "--cacheDirectory"),
    "eslint": ("--cache-location",),
}


def check(command: ShellCommand, workspace: str) -> Iterator[str]:
    for path in paths_of((*_targets(command), *_outputs(command)), command, workspace):
        yield from changed(path)
    if _FORMATTERS.fullmatch(command.name or ""):
        yield "device"
    if command.name == "tar" and any(
        re.fullmatch(r"-[a-zA-Z]*P[a-zA-Z]*|--absolute-names", one) for one in options(command)
    ):
        yield "outside"
    if command.name == "git" and _changes_settings(plain_words(command)):
        yield "outside"


def _outputs(command: ShellCommand) -> Iterator[Word]:
    """The files of `-o FILE` of any program, if they are outside of projects."""
    joined = (word[2:] for word in plain_words(command) if re.match(r"-o[/~]", word))
    equal = (word.partition("=")[2] for word in plain_words(command) if re.match(r"--?out(?:put|file)?\S*=", word))
    after = value_after(command, "-o", "-O", "--output", "--output-file", "--outfile", "--out", "-out", "--output-dir")
    for value in (*joined, *equal, *(value for word in after for value in word)):
        if is_elsewhere(value):
            yield (value,)


def _targets(command: ShellCommand) -> tuple[Word, ...]:
    """The files that a command changes."""
    name, found = command.name or "", operands(command)
    if copies_example(command):
        return ()
    if name == "ln" and len(found) == 2 and all(found) and not found[0][0].startswith(("/", "~")):
        return ((posixpath.join(posixpath.dirname(found[1][0]), found[0][0]),), found[1])
    if name in _ALL or _replaces_files(command):
        return found
    if name in _LAST:
        return value_after(command, "-t", "--target-directory") or found[-1:]
    if name in _AFTER_MODE or name in ("perl", "ruby"):
        in_place = name in _AFTER_MODE or any(re.match(r"-[a-z0-9]*i", one) for one in options(command))
        return found[1:] if in_place else ()
    if name == "sed":
        scripts = value_after(command, "-e", "-f", "--expression", "--file")
        in_place = any(re.match(r"-[a-zA-Z]*i|--in-place", one) for one in options(command))
        return () if not in_place else tuple(one for one in found if one not in scripts) if scripts else found[1:]
    if name == "dd":
        return tuple((value[3:],) for word in found for value in word if value.startswith("of="))
    if name in ("docker", "podman") and ("cp",) in found[:2]:
        return tuple(word for word in found[-1:] if not word or ":" not in word[0])
    if name == "git" and found[:1] == (("clone",),):
        return found[2:3]
    return value_after(command, *_AFTER_OPTION.get(name, ()))


def _replaces_files(command: ShellCommand) -> bool:
    """Whether `gzip` and its like put a compressed file in the place of each."""
    keeps = any(re.fullmatch(r"-[a-zA-Z0-9]*[ckltV]\w*|--(?:stdout|keep|list|test)", one) for one in options(command))
    return command.name in _COMPRESSORS and not keeps


def _changes_settings(words: list[str]) -> bool:
    reads = {"--get", "--list", "-l", "--get-all"} & set(words)
    return words[:1] == ["config"] and bool({"--global", "--system"} & set(words)) and not reads
