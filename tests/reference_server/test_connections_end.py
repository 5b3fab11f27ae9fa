"""A client's end of a connection is the end of it: nothing of it stays open in the program."""

from __future__ import annotations

import socket
import time

import psutil
import pytest

from tests.reference_server.test_process import gateway

WITHIN_S = 5.0
CLIENTS = 20
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
UPGRADE = HEALTH.replace(
    b"\r\n\r\n", b"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n\r\n"
)


def _left(pid: int, listening: int) -> list[str]:
    """Connections a process still holds at a port, by state."""
    found = psutil.Process(pid).net_connections(kind="tcp")
    return [each.status for each in found if each.status != "LISTEN" and each.laddr.port == listening]


@pytest.mark.parametrize("half", [False, True], ids=["closed", "half-closed"])
@pytest.mark.parametrize(
    "request_bytes", [HEALTH, UPGRADE, b"", b"GET /hea"], ids=["health", "h2c", "nothing", "half a head"]
)
def test_a_connection_ends_with_its_client(request_bytes: bytes, *, half: bool) -> None:
    """Whatever a client sent before it closed (or only its sending half), its connection is gone soon after."""
    with gateway() as server:
        clients = [socket.create_connection(server.address, timeout=WITHIN_S) for _ in range(CLIENTS)]
        for client in clients:
            client.sendall(request_bytes)
            if request_bytes in {HEALTH, UPGRADE}:
                assert client.recv(65536)
            if half:
                client.shutdown(socket.SHUT_WR)
            else:
                client.close()
        until = time.monotonic() + WITHIN_S
        while (left := _left(server.process.pid, server.address[1])) and time.monotonic() < until:
            time.sleep(0.05)
        for client in clients:
            client.close()
        assert left == []
