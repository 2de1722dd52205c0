"""The user of a link at its own broker, if a directory has to be asked.

A bridge logs in at both brokers on arrival of the BrokerInfo, and cannot wait there. So the link asks before the
connection.
"""

from __future__ import annotations

from spanwire.broker.broker import Broker
from spanwire.broker.ports import Principal
from spanwire.model.errors import JmsError
from spanwire.network.bridge.bridge import local_reason
from spanwire.network.demand.bridge_settings import BridgeSettings, local_login
from spanwire.transports.awaited_login import awaited_login
from spanwire.transports.base import Clock


async def local_user(broker: Broker, settings: BridgeSettings, clock: Clock) -> Principal | None:
    """Return the principal of a bridge after the answer of a directory.

    None if the bridge can log in without a directory.

    Raises:
        JmsError: the directory refuses userName and password of the network connector, or does not answer.
    """
    login = local_login(settings, "", broker.name, "")
    if not broker.assembly.logins.has_to_ask(login):
        return None
    try:
        return await awaited_login(broker.administration, login, clock)
    except JmsError as error:
        raise JmsError(local_reason(error, settings.user_name)) from None
