"""Options of a remote address on a socket."""

from __future__ import annotations

import socket

import pytest

from spanwire.network.connector.socket_options import SocketOptions


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
