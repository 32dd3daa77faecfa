"""Which exceptions are faults of the input, and how they read on one paragraph."""

import argparse
import errno
import re
import sys

FAULTS = {
    "wsl": ("SymmetryError",),
    "wsl.spec": ("SpecError",),
    "wsl.zoo": ("ZooError",),
    "wsl.augment": ("AugmentError",),
    "wsl.data.base": ("DataError",),
    "wsl.tasks": ("TaskError",),
    "wsl.bench": ("BenchError",),
    "wsl.report": ("ReportError",),
    "wsl.trace": ("TraceError",),
    "wsl.graph": ("GraphError",),
    "wsl.learnopt": ("OptimizerFileError",),
}
ADVICE = (
    "Correct it on the command line or in the configuration file; --help lists what there is, and "
    "--OPTION.help CLASS what a class takes."
)
LONGEST = 500
UNWRITABLE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOENT,
    errno.ENOSPC,
)  # fmt: skip
REASONS = (
    (r"module '(\S+)' has no attribute '(\S+)'", "there is no class {}.{}"),
    (r"No module named '(\S+)'", "there is no module {}"),
    (r"Expected a dot import path string: (\S+)", "there is no class {}"),
    (r"Expected '(\S+)' to be a subclass of <class '(\S+)'>", "{} is no {}"),
    (r"Option '(\S+)' is not accepted", "there is no option {}"),
    (r"Expected a <class '(?!NoneType)(\w+)'>\. Got value: (\S+?)\.?(?:\s|$)", "expected {}, got {}"),
    (r"[Ff]ile does not exist: '?([^'\n]+)'?", "there is no file {}"),
)


class CommandError(ValueError):
    """A command's arguments are at fault."""


def describe_failure(error: BaseException) -> str | None:
    """The message for a fault of the input, on one paragraph; ``None`` for any other exception."""
    if isinstance(error, argparse.ArgumentError):
        return condense(str(error))
    if isinstance(
        error, UnicodeDecodeError
    ):  # of configuration files: other text is read with its own errors
        return f"a configuration file is no text in UTF-8 ({error}). Give a YAML file with --config."
    if isinstance(error, OSError) and error.filename and error.errno in UNWRITABLE:
        return (
            f"{error.filename} cannot be used: {error.strerror}. "
            "Choose another folder, make room, or fix the permissions."
        )
    if isinstance(error, (CommandError, *_imported_faults())):
        return str(error)
    return None


def _imported_faults() -> list[type[BaseException]]:
    """Only of modules that are loaded: an error of another one cannot have been raised."""
    found = []
    for module, names in FAULTS.items():
        found += [getattr(sys.modules[module], name) for name in names if module in sys.modules]
    return found


def condense(message: str) -> str:
    """jsonargparse's message in one paragraph: the option, what is wrong with it, the way out."""
    keys = re.findall(r'Parser key "([^"]+)"', message)
    option = ".".join(dict.fromkeys(keys))
    for pattern, text in REASONS:
        if match := re.search(pattern, message):
            reason = text.format(*match.groups())
            return f"{option}: {reason}. {ADVICE}" if option else f"{reason}. {ADVICE}"
    message = _of_union(message, option) or message
    words = re.sub(r"\s+", " ", message).strip().rstrip(".!")
    shown = words if len(words) <= LONGEST else words[:LONGEST].rsplit(" ", 1)[0] + " …"
    return f"{shown}. {ADVICE}"


def _of_union(message: str, option: str) -> str | None:
    """What a class says of its arguments within jsonargparse's report of all types that an option may have.

    If none says anything, the types; ``None`` if it is no such report.
    """
    found = re.search(
        r"Errors:\s+- (.*?)\n\s*Given value type:.*?\n\s*Given value: ([^\n]*)", message, re.DOTALL
    )
    if found is None:
        return None
    parts = re.split(r"\n\s*- ", found[1])
    if own := [part for part in parts if not part.startswith("Expected a <class")]:
        return own[0]
    kinds = re.findall(r"Expected a <class '(?!NoneType)(?:\w+\.)*(\w+)'>", found[1])
    return f"{option + ': ' if option else ''}expected {' or '.join(kinds)}, got {found[2]}"
