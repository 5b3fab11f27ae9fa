"""Counters and gauges under the real gateway's names, for those that this server can fill truthfully.

One subject a module; this one has what concerns responses, and brings the others together.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from reference_server.metrics.workers import WorkerMetrics

_KNOWN_PATHS = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/models",
        "/health",
        "/liveness",
        "/readiness",
        "/workers",
        "/get_loads",
        "/flush_cache",
    }
)


class Metrics:
    """The counters of one server. Each subject's own are its attributes: `workers`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.workers = WorkerMetrics(self.registry)
        self._responses = Counter(
            "smg_http_responses",  # the library adds _total
            "Responses by path, status and the gateway's own error code; 499: the client left first.",
            ("path", "status_code", "error_code"),
            registry=self.registry,
        )

    def count_response(self, path: str, status: int, error_code: str) -> None:
        """One response; paths that no route has are counted together."""
        label = path if path in _KNOWN_PATHS else "other"
        self._responses.labels(label, str(status), error_code).inc()
