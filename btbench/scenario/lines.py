"""Where each key of a TOML text stands. `tomllib` gives values without places, and a message needs the line.

The text has been read by `tomllib` already, so this scanner may take its grammar for granted.
"""

import re
import tomllib

KeyPath = tuple[str | int, ...]  # ("setup", 0, "cluster", 2, "gpu")

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\#[^\n]*)
      | (?P<word>\"{3}(?:[^\\]|\\.)*?\"{3,5} | '{3}.*?'{3,5} | "(?:[^"\\]|\\.)*" | '[^']*' | [^\s\[\]{},=.\#"']+)
      | (?P<mark>[\[\]{},=.\n])""",
    re.VERBOSE | re.DOTALL,
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, from 1, of every key, table and array element of a valid TOML text."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._array_sizes: dict[KeyPath, int] = {}  # of arrays of tables, so far
        self._tokens: list[tuple[str, int]] = []
        line = 1
        for match in _TOKEN.finditer(text):
            if match.lastgroup != "blank":
                self._tokens.append((match[0], line))
            line += match[0].count("\n")
        self._tokens.append(("", line))
        self._at = 0

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while (token := self._peek()) != "":
            if token == "\n":
                self._next()
            elif token == "[":
                table = self._header()
            else:
                self._assignment(table)
        return self.lines

    def _peek(self) -> str:
        return self._tokens[self._at][0]

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _line(self) -> int:
        return self._tokens[self._at][1]

    def _key(self, end: str) -> list[str]:
        """The parts of a dotted key in front of `end`, which is taken too."""
        parts = []
        while (token := self._next()) != end:
            if token != ".":
                parts.append(tomllib.loads(f"key = {token}")["key"] if token[0] in "\"'" else token)
        return parts

    def _header(self) -> KeyPath:
        """`[a.b]` or `[[a.b]]`: the path of the table it opens; an array on the way means its last element."""
        line = self._line()
        self._next()
        is_array = self._peek() == "["
        if is_array:
            self._next()
        path: KeyPath = ()
        keys = self._key("]")
        for i, key in enumerate(keys):
            path += (key,)
            self.lines.setdefault(path, line)
            if is_array and i == len(keys) - 1:
                self._next()
                self._array_sizes[path] = self._array_sizes.get(path, 0) + 1
            if path in self._array_sizes:
                path += (self._array_sizes[path] - 1,)
                self.lines.setdefault(path, line)
        return path

    def _assignment(self, table: KeyPath) -> None:
        line = self._line()
        path = table
        for key in self._key("="):
            path += (key,)
            self.lines.setdefault(path, line)
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        opening = self._peek()
        if opening not in ("[", "{"):
            while self._peek() not in (",", "]", "}", "\n", ""):
                self._next()
            return
        self._next()
        count = 0
        while (token := self._peek()) not in ("]", "}"):
            if token in (",", "\n"):
                self._next()
            elif opening == "{":
                self._assignment(path)
            else:
                self.lines[(*path, count)] = self._line()
                self._value((*path, count))
                count += 1
        self._next()
