"""Options of a remote address on a socket."""

from __future__ import annotations

import socket

import pytest

from spanwire.client.addressing.address import parse_url
from spanwire.client.io.environment import set_options
from spanwire.network.connector.socket_options import SocketOptions
from spanwire.transports import tcp
from spanwire.transports.base import ConnectorSettings


@pytest.mark.parametrize(
    ("options", "no_delay", "keep_alive"),
    [(SocketOptions(), True, False), (SocketOptions(tcp_no_delay=False, keep_alive=True), False, True)],
)
def test_a_socket_is_tuned_as_its_address_asks(options: SocketOptions, no_delay: bool, keep_alive: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as made:
        options.tune(made)
        assert bool(made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) == no_delay
        assert bool(made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) == keep_alive


def test_the_buffers_of_a_socket_are_as_large_as_its_address_asks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as made:
        SocketOptions(buffer_size=16_384).tune(made)
        sizes = [made.getsockopt(socket.SOL_SOCKET, name) for name in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
        assert all(16_384 <= size <= 4 * 16_384 for size in sizes)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_class_of_traffic_is_set_on_links_connectors_and_clients(family: socket.AddressFamily, host: str) -> None:
    option = (
        (socket.IPPROTO_IP, socket.IP_TOS) if family == socket.AF_INET else (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
    )
    settings = ConnectorSettings("c", "tcp", host, 1, "openwire", traffic_class=40, tcp_no_delay=False)
    (address,) = parse_url("tcp://h:1?typeOfService=40").addresses
    for tune in (
        SocketOptions(traffic_class=40).tune,
        lambda made: tcp.tune(made, settings),
        lambda made: set_options(made, address),
    ):
        with socket.socket(family) as made:
            tune(made)
            assert made.getsockopt(*option) == 40
    with socket.socket(family) as accepted:
        tcp.tune(accepted, settings)
        assert not accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
