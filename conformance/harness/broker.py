"""How xdist workers get at environments: they ask the controlling process, which starts each once and owns it.

One JSON line each way over a socket in a private folder. The first worker that asks also tells the plan, which the
controlling process, having
collected nothing itself, would not know.
"""

from __future__ import annotations

import json
import shutil
import socketserver
import tempfile
import threading
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import TYPE_CHECKING, Any

from conformance.harness.environment import Environment
from conformance.harness.planning import Planned

if TYPE_CHECKING:
    from conformance.harness.run import Run

WORKER_INPUT = "conformance_broker"
ANSWER_BOUND_S = 1200.0  # a gateway may have to be installed first


class Broker:
    """The worker's end."""

    def __init__(self, address: str) -> None:
        self._address = address

    def environments(self, plan: list[dict[str, Any]], needed: list[str]) -> dict[str, Environment]:
        """Tell the plan; the environments of these configurations, started first if need be."""
        with socket(AF_UNIX, SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_BOUND_S)
            connection.connect(self._address)
            with connection.makefile("rwb") as lines:
                lines.write(json.dumps({"plan": plan, "needed": needed}).encode() + b"\n")
                lines.flush()
                answer = json.loads(lines.readline() or b"{}")
        return {name: Environment.from_plain(plain) for name, plain in answer.items()}


def connect(address: str) -> Broker:
    """The worker's end of the broker at `address`."""
    return Broker(address)


class Server:
    """The controlling process's end; one thread a connection."""

    def __init__(self, run: Run) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="conformance-"))
        self.address = str(self._folder / "broker")

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                question = json.loads(self.rfile.readline())
                run.planned.update({plain["nodeid"]: Planned(**plain) for plain in question["plan"]})
                found = run.provide(question["needed"])
                self.wfile.write(json.dumps({name: each.to_plain() for name, each in found.items()}).encode() + b"\n")

        class Threaded(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        self._server = Threaded(self.address, Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self._folder, ignore_errors=True)
