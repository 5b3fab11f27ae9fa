"""Stage *receive*: a body whose announced length is over the limit is refused before anyone looks at the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_server.call import too_large

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.settings import Settings


def refuse_announced_excess(this: Call, settings: Settings) -> None:
    """Refuse by `content-length` alone; what comes without one is counted while it is read.

    Raises:
        GatewayError: 413 request_body_too_large.
    """
    length = this.declared_length()
    if length is not None and length > settings.max_payload_size_bytes:
        raise too_large(settings.max_payload_size_bytes)
