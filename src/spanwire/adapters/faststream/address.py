"""Destinations as FastStream's programs name them: with prefixes of routers and parameters of paths.

``topic://PRICES.{symbol}`` subscribes to ``topic://PRICES.*``, and the element is a parameter of the handler.
"""

from __future__ import annotations

from typing import Final

from faststream._internal.utils.path import Address, AddressSyntax
from faststream.exceptions import SetupError

from spanwire.model.destination import QUEUE, SCHEMES, TOPIC, Destination
from spanwire.model.errors import InvalidDestinationError
from spanwire.model.written_destination import check_form

SYNTAX: Final = AddressSyntax(
    replace_symbol="*", patch_regex=lambda regex: regex.replace(r"\*", "[^.]+").replace(r"\.>", r"(?:\..*)?")
)


class SpanwireAddress:
    """A queue or topic as it was declared: its kind, and a name that may have parameters.

    Raises `SetupError` for a name that is empty or has the form of another product.
    """

    def __init__(self, text: str) -> None:
        self.kind = QUEUE
        name = text
        for kind in (QUEUE, TOPIC):
            if text.startswith(SCHEMES[kind]):
                self.kind = kind
                name = text[len(SCHEMES[kind]) :]
        try:
            check_form(name, SCHEMES)
        except InvalidDestinationError as error:
            raise SetupError(str(error)) from None
        self.name: Final = Address(name, SYNTAX)

    def with_prefix(self, prefix: str) -> Address:
        """Return the name with the prefix of a router."""
        return self.name.add_prefix(prefix)

    def template(self, prefix: str) -> str:
        """Return the full name as it was declared, ``topic://PRICES.{symbol}``."""
        return SCHEMES[self.kind] + str(self.with_prefix(prefix).template)

    def destination(self, prefix: str) -> str:
        """Return the full name as the broker gets it, ``topic://PRICES.*``. Options behind ``?`` remain."""
        return SCHEMES[self.kind] + str(self.with_prefix(prefix).broker_address)

    def pattern(self, prefix: str) -> Destination:
        """Return the destination or pattern without options."""
        return Destination(self.kind, str(self.with_prefix(prefix).broker_address).split("?", 1)[0])
