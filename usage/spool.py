"""Settlements that Postgres couldn't take: a file per writer, one JSON line each, on disk before it counts.

A writer holds a lock on its file. A file that nobody holds was left by a dead process, and whoever finds it
takes its lines over. Replaying a line twice does no harm: only an open record can be settled.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

SUFFIX = ".spool"


class Spool:
    """The spool file of one writer. Its methods block on the disk: call them in a thread."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._path = directory / f"{name}{SUFFIX}"
        self._file: int | None = None

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Write the rows and wait until the disk has them.

        Raises:
            OSError: The disk is full or gone; a half-written line is cut off again.
        """
        file = self._opened()
        end = os.lseek(file, 0, os.SEEK_END)
        try:
            _write_all(file, b"".join(orjson.dumps(row) + b"\n" for row in rows))
            os.fsync(file)
        except OSError:
            os.ftruncate(file, end)
            raise

    def rows(self) -> list[dict[str, Any]]:
        """Read what was appended; a torn last line is no line."""
        return [] if self._file is None else _rows_of(_read_all(self._file))

    def clear(self) -> None:
        """Forget the rows: they are in Postgres."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.fsync(self._file)

    def adopt(self) -> list[dict[str, Any]]:
        """Take over the files of dead writers: their rows are appended to our own, then theirs are deleted."""
        adopted: list[dict[str, Any]] = []
        for path, file in self._orphans():
            if rows := _rows_of(_read_all(file)):
                self.append(rows)
                adopted.extend(rows)
            path.unlink(missing_ok=True)
            os.close(file)
        return adopted

    def close(self) -> None:
        """Let go of the file, and delete it if nothing is in it."""
        if self._file is None:
            return
        if os.fstat(self._file).st_size == 0:
            self._path.unlink(missing_ok=True)
        os.close(self._file)
        self._file = None

    def _opened(self) -> int:
        if self._file is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            while (file := _locked(self._path)) is None:
                pass
            self._file = file
        return self._file

    def _orphans(self) -> Iterator[tuple[Path, int]]:
        for path in sorted(self._directory.glob(f"*{SUFFIX}")):
            if path == self._path:
                continue
            try:
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # another writer was faster
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)  # its writer lives
                continue
            yield path, file


def _locked(path: Path) -> int | None:
    """Create or open the file and lock it; None when another writer took it away in between."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        if path.stat().st_ino == os.fstat(file).st_ino:
            return file
    except FileNotFoundError:
        pass
    os.close(file)
    return None


def _write_all(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def _read_all(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _rows_of(content: bytes) -> list[dict[str, Any]]:
    rows = []
    for line in content.splitlines():
        try:
            rows.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue  # the process died while it wrote: this line was never promised
    return rows
