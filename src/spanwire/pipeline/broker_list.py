"""The option ``brokers``: a list of broker URLs and discovery groups.

    tcp://a:61616, failover:(tcp://b:61616,tcp://c:61616), discovery:(multicast://default)

A ``failover:`` URL is one broker with several addresses. A ``discovery:`` URL stands for all brokers of the group; the
query finds the brokers while running.
"""

from __future__ import annotations

from typing import Final

from spanwire.client.addressing.redaction import redacted
from spanwire.discovery.addresses.composite import DISCOVERY, split_parts
from spanwire.model.errors import ConfigurationError

OPTION: Final = "brokers"
OMITTED: Final = "?…"  # in place of the options of a redacted URL


def broker_list(text: str | None, url: str | None) -> tuple[str, ...]:
    """Return the URLs of the option ``brokers``, empty without the option; ``url`` is the option ``url``.

    Raises:
        ConfigurationError: the list is faulty, names a broker twice, or stands beside ``url``.
    """
    if text is None:
        return ()
    if url is not None:
        raise ConfigurationError("spanwire: the options url and brokers both name brokers; leave url out")
    try:
        urls = split_parts(OPTION, text)
    except ConfigurationError as error:
        raise ConfigurationError(f"spanwire: the option brokers: {error}") from None
    places = [place_of(one) for one in urls]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise ConfigurationError(f"spanwire: the option brokers names {place} twice")
    return urls


def place_of(url: str) -> str:
    """Return a URL without credentials and options: the broker's name in checkpoints and errors."""
    return redacted(url).replace(OMITTED, "")


def is_group(url: str) -> bool:
    """Return True if a URL stands for all brokers of a discovery group."""
    return url.lower().startswith(f"{DISCOVERY}:")
