"""Stage *settle*: whatever became of a request, here it gives back what it held."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference_server.call import Call

LOG = logging.getLogger("reference_server")


async def settle(this: Call) -> None:
    """Undo everything the stages have left in the call, last first. Finishes even while being cancelled."""
    undoing = asyncio.ensure_future(this.undo.aclose())
    try:
        await asyncio.shield(undoing)
    except asyncio.CancelledError:
        await asyncio.wait({undoing})
        raise
    except Exception:
        LOG.exception("request %s could not be settled", this.request_id.value)
