"""Levels of loggers in a running process, shown and set by an operator."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from spanwire.model.errors import ConfigurationError

AUDIT: Final = "spanwire.audit"
ROOT: Final = "root"
INHERITED: Final = "inherited"
LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    INHERITED: logging.NOTSET,
}
OWN_LOGGERS: Final = (ROOT, "spanwire")
MAX_NAME: Final = 80  # characters of an unknown name in an answer

# Names of the loggers that an operator has set; libraries give levels to theirs as well.
_chosen: Final[set[str]] = set()


async def log_level(arguments: Mapping[str, object]) -> list[dict[str, object]]:
    """Set the ``level`` of ``logger``, and return the loggers with own levels.

    Without ``level`` no level changes, and with ``logger`` the answer is the level in effect.

    Raises:
        ConfigurationError: there is no such logger or level, or the audit log would be hidden.
    """
    name, level = arguments.get("logger"), arguments.get("level")
    if name is None and level is None:
        return own_levels()
    if not isinstance(name, str):
        raise ConfigurationError("logger is the name of a logger, such as spanwire.network, or root")
    if level is None:
        logger = _known(name)
        return [{"logger": name, "level": logging.getLevelName(logger.getEffectiveLevel()).lower()}]
    if not isinstance(level, str) or level.lower() not in LEVELS:
        raise ConfigurationError(f"level is one of {', '.join(LEVELS)}")
    _set(_known(name), name, LEVELS[level.lower()])
    return own_levels()


def _known(name: str) -> logging.Logger:
    """Return an existing logger, or the logger of a package. Raises `ConfigurationError`."""
    if name == ROOT:
        return logging.getLogger()
    if name not in logging.root.manager.loggerDict:
        raise ConfigurationError(f"there is no logger {name[:MAX_NAME]!r}; lines of the log name their loggers")
    return logging.getLogger(name)


def _set(logger: logging.Logger, name: str, level: int) -> None:
    """Set a level. The audit log is never hidden: neither by an own level, nor by an inherited level."""
    if name == ROOT and level == logging.NOTSET:
        raise ConfigurationError("the logger root has none to inherit a level from")
    audit = logging.getLogger(AUDIT)
    if logger is audit and level not in (logging.DEBUG, logging.INFO):
        raise ConfigurationError(f"{AUDIT} cannot be hidden: its level is debug or info")
    if level > logging.INFO and audit.level == logging.NOTSET:
        audit.setLevel(audit.getEffectiveLevel())
    logger.setLevel(level)
    _chosen.add(name)


def own_levels() -> list[dict[str, object]]:
    """Return each logger with an own level."""
    root: dict[str, object] = {"logger": ROOT, "level": logging.getLevelName(logging.root.level).lower()}
    own = [
        logger
        for _, logger in sorted(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET
    ]
    rows: list[dict[str, object]] = [root]
    for one in own:
        rows.append({"logger": one.name, "level": logging.getLevelName(one.level).lower()})
    return rows


def chosen_levels() -> list[dict[str, object]]:
    """Return the own levels of Spanwire's loggers, and of those of libraries that an operator has set."""
    return [
        row for row in own_levels() if str(row["logger"]).partition(".")[0] in OWN_LOGGERS or row["logger"] in _chosen
    ]
