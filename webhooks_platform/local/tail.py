"""New lines of a growing log file."""

from pathlib import Path


class Tail:
    """Starts at the end the file has now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        # Read, but not handed out yet.
        self._lines: list[str] = []

    def saw(self, text: str) -> bool:
        """True once a new line holds the text. Its line is still handed out by `new_lines`."""
        self._read()
        return any(text in line for line in self._lines)

    def new_lines(self) -> list[str]:
        self._read()
        lines, self._lines = self._lines, []
        return lines

    def _read(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            # A log that grew too long was cut back to nothing.
            self._offset = min(self._offset, self._path.stat().st_size)
            file.seek(self._offset)
            # At most this much in one go, and only whole lines: the writer may be in the middle of one.
            whole, newline, _ = file.read(1_000_000).rpartition(b"\n")
        self._offset += len(whole + newline)
        self._lines += whole.decode(errors="replace").splitlines()
