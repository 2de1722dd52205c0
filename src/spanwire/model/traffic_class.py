"""The class of traffic of a socket: ActiveMQ's options ``typeOfService`` and ``diffServ``.

Sources are RFC 2474, RFC 2597 and RFC 3246.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import ConfigurationError

MAX_TYPE_OF_SERVICE: Final = 255  # an octet of the IP header
MAX_CODE_POINT: Final = 63  # six bits of this octet; two bits are for congestion
CODE_POINTS: Final[dict[str, int]] = {
    **{f"CS{number}": number * 8 for number in range(8)},
    **{f"AF{group}{drop}": group * 8 + drop * 2 for group in range(1, 5) for drop in range(1, 4)},
    "EF": 46,
}


def traffic_class(type_of_service: str | None, diff_serv: str | None) -> int:
    """Return the octet of the IP header for the two options; 0 without either.

    Only one of the options may be set.

    Args:
        type_of_service: the whole octet, 0 to 255
        diff_serv: a code point, by name (``EF``, ``AF11``, ``CS1``) or as a number, 0 to 63

    Raises:
        ConfigurationError: both are set, or a value is wrong
    """
    if type_of_service is not None and diff_serv is not None:
        raise ConfigurationError("the options typeOfService and diffServ exclude each other; keep one")
    if type_of_service is not None:
        return _number("typeOfService", type_of_service.strip(), MAX_TYPE_OF_SERVICE, "")
    if diff_serv is None:
        return 0
    name = diff_serv.strip().upper()
    if name in CODE_POINTS:
        return CODE_POINTS[name] << 2
    return _number("diffServ", name, MAX_CODE_POINT, " or a name such as EF, AF11, CS1") << 2


def _number(option: str, text: str, highest: int, others: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and int(text) <= highest):
        raise ConfigurationError(f"the option {option} must be a number from 0 to {highest}{others}")
    return int(text)
