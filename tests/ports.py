"""Ports of a test's own."""

import socket


def keep_port() -> socket.socket:
    """Give a socket that keeps a port of 127.0.0.1 from all others until it is closed.

    It never listens. Meanwhile a server that says SO_REUSEADDR may listen there, and stop, and listen again.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    return keeper
