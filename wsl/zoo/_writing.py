"""The folder where a zoo is put together that no build resumes: a stream of rows, or a copy of zoos."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from wsl.zoo._files import PARTIAL, BuildLock, check_free, replace_file


class WritingFolder:
    """``<out>.writing``, held by one process; what a killed one left is removed by the next.

    Raises:
        ZooError: ``out`` exists, or another process writes it.
    """

    def __init__(self, out: Path) -> None:
        check_free(out)
        self.out, self.path = out, out.with_name(out.name + ".writing")
        self._lock: BuildLock | None = BuildLock(self.path / "lock")
        self._remove_files()

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    @property
    def packed(self) -> Path:
        """Where the zoo is put together before it gets its name."""
        return self.path / f"packed{PARTIAL}"

    def rows(self, architecture: int) -> Path:
        """Where rows of one architecture wait."""
        return self.path / f"rows-{architecture}.bin"

    def finish(self, write: Callable[[Path], None]) -> None:
        """Let ``write`` make the file that is given, and only then give it the name of ``out``.

        Raises:
            ZooError: ``out`` exists by now, or the system refuses.
        """

        def write_and_check(packed: Path) -> None:
            write(packed)
            check_free(self.out)

        check_free(self.out)
        replace_file(self.out, write_and_check, self.packed)

    def close(self) -> None:
        """Remove the folder and what waits in it. Harmless when repeated."""
        if self._lock is None:
            return
        self._remove_files()
        (self.path / "lock").unlink(missing_ok=True)
        with suppress(OSError):  # it holds files of somebody else
            self.path.rmdir()
        self._lock.release()
        self._lock = None

    def __enter__(self) -> "WritingFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _remove_files(self) -> None:
        for path in [*self.path.glob("rows-*.bin"), *self.path.glob(f"*{PARTIAL}")]:
            path.unlink()
