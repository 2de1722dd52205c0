r"""Regular expressions of the selector function REGEX, matched without backtracking.

ActiveMQ allows selectors such as ``REGEX('^eu-', region)``. The pattern is compiled into a small program (Thompson's
construction) whose threads walk the subject in parallel. So the time is at most program x subject, and both are
limited.

Supported: characters, ``.``, classes, ``\\d \\w \\s`` and their complements, ``^``, ``$``, groups, ``|`` and the
quantifiers ``* + ? {m} {m,} {m,n}``; greedy and reluctant quantifiers are equivalent here. Refused: back references,
look-around, flags, possessive quantifiers, class intersection and word boundaries.

    a(b|c)*  →  LETTER a, FORK +1 +5, FORK +1 +3, LETTER b, JUMP +2, LETTER c, JUMP -5     (addresses are relative)
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import InvalidSelectorError

MAX_PROGRAM: Final = 128  # instructions; together with MAX_SUBJECT, at most 1 M thread steps per match
MAX_SUBJECT: Final = 8 * 1024  # characters; bounds the time of one match
MAX_GROUP_DEPTH: Final = 16  # nested groups; bounds the recursion of the compiler

_LETTER: Final = 0
_FORK: Final = 1
_JUMP: Final = 2
_START: Final = 3
_END: Final = 4

_LINE_ENDS: Final = "\n\r\x85\u2028\u2029"
_DIGITS: Final = "0123456789"
_SPACES: Final = " \t\n\x0b\f\r"
_WORDS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_" + _DIGITS
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}


class CharacterSet:
    """A set of characters: single characters, ranges and other sets, or the complement of these."""

    def __init__(self, named: str, opposite: bool) -> None:
        self.named = named
        self.ranges: Final[list[tuple[str, str]]] = []
        self.sets: Final[list[CharacterSet]] = []
        self.opposite = opposite

    def contains(self, letter: str) -> bool:
        """Return True if ``letter`` is in the set."""
        is_member = letter in self.named
        if not is_member:
            for low, high in self.ranges:
                if low <= letter <= high:
                    is_member = True
                    break
        if not is_member:
            for members in self.sets:
                if members.contains(letter):
                    is_member = True
                    break
        return is_member != self.opposite


class Instruction:
    """A step of the program: consumes a character of a set, or jumps to addresses relative to the step."""

    __slots__ = ("action", "characters", "first", "second")

    def __init__(self, action: int, first: int, second: int, characters: CharacterSet | None) -> None:
        self.action: Final = action
        self.first: Final = first
        self.second: Final = second
        self.characters: Final = characters


class RegularExpression:
    """A compiled regular expression."""

    def __init__(self, pattern: str) -> None:
        """Raises `InvalidSelectorError` for a pattern that is wrong, too large or not supported."""
        self._program: Final = _Compiler(pattern).program()

    def is_found_in(self, text: str) -> bool:
        """Return True if ``text``, of at most MAX_SUBJECT characters, contains a match."""
        threads: list[int] = []
        for position in range(len(text) + 1):
            started = self._advanced([0, *threads], text, position)
            if started is None:
                return True
            if position == len(text):
                break
            threads = []
            letter = text[position]
            for address in started:
                characters = self._program[address].characters
                if characters is not None and characters.contains(letter):
                    threads.append(address + 1)
        return False

    def _advanced(self, addresses: list[int], text: str, position: int) -> list[int] | None:
        """Return the LETTER steps reachable without consuming input.

        Returns None if the end of the program is reachable.
        """
        program = self._program
        seen = [False] * (len(program) + 1)
        steps: list[int] = []
        while addresses:
            address = addresses.pop()
            if seen[address]:
                continue
            seen[address] = True
            if address == len(program):
                return None
            step = program[address]
            if step.action == _LETTER:
                steps.append(address)
            elif step.action == _FORK:
                addresses.append(address + step.first)
                addresses.append(address + step.second)
            elif step.action == _JUMP:
                addresses.append(address + step.first)
            elif (position == 0) if step.action == _START else _is_end(text, position):
                addresses.append(address + 1)
        return steps


def _is_end(text: str, position: int) -> bool:
    """Return True if ``position`` is the end of the text or directly before its last line end."""
    rest = len(text) - position
    if rest == 0:
        return True
    if rest == 1:
        return text[position] in _LINE_ENDS and not (position > 0 and text[position - 1 :] == "\r\n")
    return rest == 2 and text[position:] == "\r\n"


class _Compiler:
    """Recursive-descent compiler of a pattern; each method returns the program of its part."""

    def __init__(self, pattern: str) -> None:
        self._pattern: Final = pattern
        self._position = 0

    def program(self) -> list[Instruction]:
        program = self._alternatives(0)
        if self._position < len(self._pattern):
            raise self._error("unexpected ')'")
        return program

    def _error(self, problem: str) -> InvalidSelectorError:
        return InvalidSelectorError(f"{problem} at character {self._position + 1} of the regular expression")

    def _next(self) -> str:
        """Return the next character, or an empty text at the end."""
        return self._pattern[self._position : self._position + 1]

    def _take(self, letter: str) -> bool:
        if self._next() == letter:
            self._position += 1
            return True
        return False

    def _limited(self, program: list[Instruction]) -> list[Instruction]:
        if len(program) > MAX_PROGRAM:
            raise self._error(f"more than {MAX_PROGRAM} steps")
        return program

    def _alternatives(self, depth: int) -> list[Instruction]:
        program = self._sequence(depth)
        while self._take("|"):
            other = self._sequence(depth)
            fork = Instruction(_FORK, 1, len(program) + 2, None)
            program = self._limited([fork, *program, Instruction(_JUMP, len(other) + 1, 0, None), *other])
        return program

    def _sequence(self, depth: int) -> list[Instruction]:
        program: list[Instruction] = []
        while self._next() not in ("", "|", ")"):
            program = self._limited(program + self._quantified(self._atom(depth)))
        return program

    def _quantified(self, program: list[Instruction]) -> list[Instruction]:
        letter = self._next()
        if letter not in ("*", "+", "?", "{"):
            return program
        self._position += 1
        if letter == "*":
            repeated = _repeated(program, 0)
        elif letter == "+":
            repeated = _repeated(program, 1)
        elif letter == "?":
            repeated = _optional(program)
        else:
            repeated = self._counted(program)
        self._take("?")
        if self._next() in ("*", "+", "?", "{"):
            raise self._error("a quantifier after a quantifier")
        return self._limited(repeated)

    def _counted(self, program: list[Instruction]) -> list[Instruction]:
        low = self._count()
        high = low
        is_open = False
        if self._take(","):
            is_open = self._next() == "}"
            high = low if is_open else self._count()
        if not self._take("}") or high < low:
            raise self._error("a wrong {m,n}")
        if max(high, 1) * max(len(program), 1) > MAX_PROGRAM:
            raise self._error(f"more than {MAX_PROGRAM} steps")
        if is_open:
            return _repeated(program, low)
        repeated: list[Instruction] = []
        for _ in range(high - low):
            repeated = _optional(program + repeated)
        return program * low + repeated

    def _count(self) -> int:
        start = self._position
        while self._next() != "" and self._next() in _DIGITS:
            self._position += 1
        digits = self._pattern[start : self._position]
        if not digits or len(digits) > 4:
            raise self._error("a wrong count")
        return int(digits)

    def _atom(self, depth: int) -> list[Instruction]:
        letter = self._next()
        self._position += 1
        if letter == "(":
            return self._group(depth + 1)
        if letter == "^":
            return [Instruction(_START, 1, 0, None)]
        if letter == "$":
            return [Instruction(_END, 1, 0, None)]
        if letter == ".":
            return [Instruction(_LETTER, 1, 0, CharacterSet(_LINE_ENDS, True))]
        if letter == "[":
            return [Instruction(_LETTER, 1, 0, self._class())]
        if letter == "\\":
            return [Instruction(_LETTER, 1, 0, self._escaped())]
        if letter in ("*", "+", "?", "{"):
            raise self._error("a quantifier without an operand")
        return [Instruction(_LETTER, 1, 0, CharacterSet(letter, False))]

    def _group(self, depth: int) -> list[Instruction]:
        if depth > MAX_GROUP_DEPTH:
            raise self._error(f"groups deeper than {MAX_GROUP_DEPTH}")
        if self._take("?") and not self._take(":"):
            raise self._error("a group that is not supported")
        program = self._alternatives(depth)
        if not self._take(")"):
            raise self._error("a group without ')'")
        return program

    def _escaped(self) -> CharacterSet:
        """Return the set of characters that an escape denotes."""
        letter = self._next()
        self._position += 1
        lower = letter.lower()
        if lower == "d":
            return CharacterSet(_DIGITS, letter == "D")
        if lower == "w":
            return CharacterSet(_WORDS, letter == "W")
        if lower == "s":
            return CharacterSet(_SPACES, letter == "S")
        if letter in _CONTROLS:
            return CharacterSet(_CONTROLS[letter], False)
        if letter == "" or letter in _WORDS:
            raise self._error("an escape that is not supported")
        return CharacterSet(letter, False)

    def _class(self) -> CharacterSet:
        members = CharacterSet("", self._take("^"))
        while not self._take("]"):
            first = self._member(members)
            following = self._pattern[self._position + 1 : self._position + 2]
            if first and self._next() == "-" and following != "]":
                self._position += 1
                last = self._member(members)
                if not last or last < first:
                    raise self._error("a wrong range")
                members.ranges.append((first, last))
            else:
                members.named += first
        if not members.named and not members.ranges and not members.sets:
            raise self._error("an empty class")
        return members

    def _member(self, members: CharacterSet) -> str:
        r"""Return a character of a class, or an empty text after adding a set such as ``\\d`` to ``members``."""
        letter = self._next()
        if letter == "" or letter == "[" or self._pattern[self._position : self._position + 2] == "&&":
            raise self._error("a class that has no end or is not supported")
        self._position += 1
        if letter != "\\":
            return letter
        escaped = self._escaped()
        if len(escaped.named) == 1:
            return escaped.named
        members.sets.append(escaped)
        return ""


def _optional(program: list[Instruction]) -> list[Instruction]:
    return [Instruction(_FORK, 1, len(program) + 1, None), *program]


def _repeated(program: list[Instruction], low: int) -> list[Instruction]:
    """Return ``program`` repeated at least ``low`` times."""
    loop = [
        Instruction(_FORK, 1, len(program) + 2, None),
        *program,
        Instruction(_JUMP, -len(program) - 1, 0, None),
    ]
    return program * low + loop
