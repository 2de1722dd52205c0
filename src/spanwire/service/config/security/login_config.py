"""Reads a JAAS login configuration (javax.security.auth.login.Configuration): modules by name.

    activemq-domain {
        org.apache.activemq.jaas.PropertiesLoginModule required
            org.apache.activemq.jaas.properties.user="users.properties"
            reload=true;
    };

No class is created: `spanwire.service.config.security.security` looks module names up in a closed set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spanwire.model.errors import ConfigurationError

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
MAX_MODULES: Final = 16  # login modules of one name; Classic's examples have at most two
TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | \#[^\n]* | /\*.*?\*/
      | (?P<punctuation>[{};=])
      | "(?P<quoted>(?:[^"\\\n]|\\.)*)" | '(?P<single>[^'\n]*)'
      | (?P<word>[^\s{};="']+)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class LoginModuleEntry:
    """A login module: Java class, flag, options and line."""

    class_name: str
    flag: str
    options: dict[str, str]
    line: int


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_punctuation: bool
    line: int


def read_login_config(text: str, source: str) -> dict[str, list[LoginModuleEntry]]:
    """Return the login modules by name; raises `ConfigurationError` with the line of a syntax error."""
    return _Reader(_tokens(text, source), source).names()


def _tokens(text: str, source: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    line = 1
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise ConfigurationError(f"{source}:{line}: the login configuration is broken; is a quote left open?")
        kind = match.lastgroup
        if kind is not None:
            value = match.group(kind)
            if kind == "quoted":
                value = re.sub(r"\\(.)", r"\1", value)
            tokens.append(_Token(value, kind == "punctuation", line))
        line += match.group().count("\n")
        position = match.end()
    return tokens


class _Reader:
    def __init__(self, tokens: list[_Token], source: str) -> None:
        self._tokens: Final = tokens
        self._source: Final = source
        self._next = 0

    def names(self) -> dict[str, list[LoginModuleEntry]]:
        modules_by_name: dict[str, list[LoginModuleEntry]] = {}
        while self._next < len(self._tokens):
            name = self._word("the name of a login configuration")
            self._expect("{")
            modules: list[LoginModuleEntry] = []
            while not self._at("}"):
                if len(modules) == MAX_MODULES:
                    self._broken(f"{name.text} has more than {MAX_MODULES} login modules")
                modules.append(self._module())
            self._expect("}")
            self._expect(";")
            modules_by_name[name.text] = modules
        return modules_by_name

    def _module(self) -> LoginModuleEntry:
        class_name = self._word("a login module")
        flag = self._word("required, requisite, sufficient or optional")
        if flag.text.lower() not in FLAGS:
            self._broken(f"{class_name.text[:60]!r} is followed by none of {', '.join(FLAGS)}")
        options: dict[str, str] = {}
        while not self._at(";"):
            key = self._word("an option")
            self._expect("=")
            options[key.text] = self._word("a value").text
        self._expect(";")
        return LoginModuleEntry(class_name.text, flag.text.lower(), options, class_name.line)

    def _word(self, wanted: str) -> _Token:
        if self._next >= len(self._tokens) or self._tokens[self._next].is_punctuation:
            self._broken(f"{wanted} is missing")
        self._next += 1
        return self._tokens[self._next - 1]

    def _at(self, punctuation: str) -> bool:
        if self._next >= len(self._tokens):
            return False
        token = self._tokens[self._next]
        return token.is_punctuation and token.text == punctuation

    def _expect(self, punctuation: str) -> None:
        if not self._at(punctuation):
            self._broken(f"{punctuation!r} is missing")
        self._next += 1

    def _broken(self, reason: str) -> None:
        index = min(self._next, len(self._tokens) - 1)
        line = self._tokens[index].line if self._tokens else 1
        raise ConfigurationError(f"{self._source}:{line}: {reason}")
