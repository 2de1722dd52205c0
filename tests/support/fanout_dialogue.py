"""A client whose connection goes to several played brokers: the hub of a ``fanout:`` URL without sockets or threads."""

from __future__ import annotations

from typing import Final

from spanwire.client.addressing.address import parse_url
from spanwire.client.protocol.connection import ClientConnection
from spanwire.client.protocol.session import ClientSession
from spanwire.client.protocol.transport.fanout import Branch, FanoutHub
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.schema import DataStructure, Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, negotiate, wire_format_info
from tests.support.client_dialogue import PlayedBroker, Still


class PlayedFanout(PlayedBroker):
    """What an application does is as in `PlayedBroker`; the brokers are `PlayedBranch`es."""

    def __init__(self, options: str = "", count: int = 2) -> None:
        self.machine: Final = Still()  # type: ignore[misc]
        listed = ",".join(f"tcp://{name}:1" for name in "abcdef"[:count])
        url = parse_url(f"fanout:({listed}){options}", "u", "c4n4ry-pa55word")
        self.client: Final = ClientConnection(url, self.machine)  # type: ignore[misc]
        inner = url.addresses[0].inner
        assert inner is not None and inner.fanout is not None
        self.hub: Final = FanoutHub(inner.fanout)
        self.brokers: Final = [PlayedBranch(self, self.hub.add(address)) for address in inner.addresses]
        self._sequence = 0
        self.client.on_connected(url.addresses[0], self.now)
        self.passes_on()

    def passes_on(self) -> None:
        """Bytes go back and forth between the client and the hub until both are silent."""
        while True:
            there, back = self.client.data_to_send(), self.hub.data_for_client()
            if not there and not back:
                return
            self.hub.receive_data(there)
            self.client.receive_data(back, self.now)

    def receives(self) -> list[wire.Command]:
        """Commands of the client go to the brokers, which tell what they got themselves."""
        self.passes_on()
        return []

    def session_of(self, acknowledge: str) -> ClientSession:
        """A session; the brokers tell themselves that they have heard of it."""
        return self.client.add_session(acknowledge)

    def answers_all(self) -> list[wire.Command]:
        """The brokers answer by themselves."""
        self.passes_on()
        return []

    def let_in(self, *brokers: PlayedBranch) -> None:
        """These take the client."""
        for broker in brokers or self.brokers:
            broker.lets_in()


class PlayedBranch:
    """One of the brokers."""

    def __init__(self, fanout: PlayedFanout, branch: Branch) -> None:
        self.branch: Final = branch
        self._fanout: Final = fanout
        self._decoder = FrameDecoder(MAX_FRAME_SIZE, pass_messages=False)
        self._encoder = FrameEncoder()

    def shakes_hands(self, version: int = 12) -> wire.ConnectionInfo:
        """The socket is open, both sides say what they can; gives the login."""
        preferences = WireFormatPreferences(version=version)
        self._decoder = FrameDecoder(MAX_FRAME_SIZE, pass_messages=False)
        self._decoder.authenticated()
        self._encoder = FrameEncoder()
        self._fanout.hub.on_connected(self.branch, self._fanout.now.monotonic)
        (info,) = self.receives()
        assert isinstance(info, wire.WireFormatInfo)
        self.sends(wire_format_info(preferences))
        agreed = negotiate(preferences, info)
        self._decoder.negotiated(agreed)
        self._encoder = FrameEncoder(agreed)
        login = self.receives()[-1]
        assert isinstance(login, wire.ConnectionInfo)
        return login

    def lets_in(self, version: int = 12) -> list[wire.Command]:
        """The whole login; gives what it is told after it."""
        login = self.shakes_hands(version)
        self.sends(wire.Response(login.command_id))
        return self.receives()

    def receives(self) -> list[wire.Command]:
        """What the broker was sent."""
        self._fanout.passes_on()
        link = self.branch.link
        if link is None:
            return []
        commands: list[wire.Command] = []
        found = self._decoder.feed(link.take())
        while found:
            commands += found
            found = self._decoder.feed(b"")
        return commands

    def sends(self, *commands: DataStructure) -> None:
        """What the broker says."""
        for command in commands:
            self._fanout.hub.on_data(self.branch, self._encoder.encode(command), self._fanout.now.monotonic)
        self._fanout.passes_on()

    def answers_all(self, refused: Throwable | None = None) -> list[wire.Command]:
        """Answer everything that asks for it; gives all that was received."""
        received = self.receives()
        for command in received:
            if isinstance(command, wire.BaseCommand) and command.response_required:
                if refused is None:
                    self.sends(wire.Response(command.command_id))
                else:
                    self.sends(wire.ExceptionResponse(correlation_id=command.command_id, exception=refused))
        return received

    def goes(self) -> None:
        """The socket breaks."""
        self._fanout.hub.on_disconnected(self.branch)
        self._fanout.passes_on()
