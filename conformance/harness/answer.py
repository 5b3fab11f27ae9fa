"""Reading answers without touching a socket: bytes and times go in, exchanges are filled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11

from conformance.harness.exchange import Exchange
from conformance.harness.headers import Headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.harness.exchange import Outcome

MAX_HEAD_BYTES = 1 << 20
NO_ANSWER = "the connection was closed without an answer"


class AnswerReader:
    """Parses one answer with h11 (a sans-I/O parser, so nothing is hidden) into its exchange.

    Args:
        exchange: the exchange to fill; its method tells the parser whether the answer has a body.
    """

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        # The parser only has to know which request the answer belongs to; what it would write is thrown away.
        method = exchange.method if exchange.method.isalpha() and exchange.method != "CONNECT" else "POST"
        self._parser.send(h11.Request(method=method, target="/", headers=[("Host", "gateway")]))
        self._parser.send(h11.EndOfMessage())

    def feed(self, data: bytes, now: float) -> None:
        """Take in what arrived at that time (monotonic seconds); no bytes: the connection has ended."""
        exchange, parser = self.exchange, self._parser
        try:
            parser.receive_data(data)
            while True:
                event = parser.next_event()
                if isinstance(event, h11.InformationalResponse):
                    exchange.informational.append(event.status_code)
                elif isinstance(event, h11.Response):
                    exchange.status, exchange.reason = event.status_code, bytes(event.reason).decode("latin-1")
                    exchange.headers = Headers(
                        (bytes(name).decode("latin-1"), bytes(value).decode("latin-1"))
                        for name, value in event.headers.raw_items()
                    )
                    exchange.times.head = now
                elif isinstance(event, h11.Data):
                    exchange.took_body(bytes(event.data), now)
                elif isinstance(event, h11.EndOfMessage):
                    exchange.trailing = parser.trailing_data[0]
                    exchange.connection_kept = parser.their_state is h11.DONE
                    exchange.end("complete", now)
                    return
                elif event is h11.NEED_DATA:
                    return
                else:
                    # The connection ended where no response was due: nothing was answered.
                    exchange.end("cut", now, NO_ANSWER)
                    return
        except h11.RemoteProtocolError as problem:
            if data:
                exchange.end("garbage", now, str(problem))
            else:
                # Of a connection that ends before or in a head, the parser tells its own states only.
                exchange.end("cut", now, str(problem) if exchange.status is not None else NO_ANSWER)


class AnswersReader:
    """Parses all answers of one connection, in order; one exchange for each.

    Attributes:
        exchanges: the answers so far; there is always a first one, whose status stays None while nothing came.

    Args:
        request: everything the client means to write; kept in the first exchange as evidence.
        methods: of the requests in it, in order; answers beyond them are taken for answers to the last one.
        started: when the connection was opened, monotonic seconds.
    """

    def __init__(self, request: bytes, methods: Sequence[str], started: float) -> None:
        self._methods = list(methods)
        self._started = started
        self.exchanges: list[Exchange] = []
        self._reader = self._next(request)

    def _next(self, request: bytes = b"") -> AnswerReader:
        method = self._methods[min(len(self.exchanges), len(self._methods) - 1)]
        exchange = Exchange(method=method, target="(raw)", request=request)
        exchange.times.started = self._started
        self.exchanges.append(exchange)
        return AnswerReader(exchange)

    def feed(self, data: bytes, now: float) -> None:
        """Take in what arrived; bytes behind a complete answer begin the next one."""
        while data:
            current = self._reader.exchange
            if current.closed_cleanly:
                self._reader = self._next()
                continue
            current.took(data, now)
            self._reader.feed(data, now)
            # Garbage stays where it is: nobody knows where a next answer would begin.
            data = current.trailing if current.closed_cleanly else b""
            if data:
                current.give_back(len(data))

    def finish(self, outcome: Outcome, now: float, problem: str = "") -> None:
        """The connection has ended: `cut` by a FIN (perhaps the end of an answer), by a `reset`, or by the client."""
        current = self._reader.exchange
        if outcome == "cut" and current.outcome == "pending":
            self._reader.feed(b"", now)
        current.end(outcome, now, problem)

    @property
    def complete(self) -> int:
        """How many answers have come to their end."""
        return sum(each.outcome == "complete" for each in self.exchanges)

    @property
    def begun(self) -> int:
        """How many final answers have begun."""
        return sum(each.status is not None for each in self.exchanges)
