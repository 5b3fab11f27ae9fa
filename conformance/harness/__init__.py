"""What a check is written with: gateway and worker handles, exchanges, evidence, verdicts.

Everything a check needs can be imported from here:

```python
from conformance.harness import OMIT, PROMPT, Gateway, Reply, Wire, Worker, clause, engines, literal, wire
```
"""

from __future__ import annotations

from conformance.harness.bodies import OMIT, PROMPT, encode, literal
from conformance.harness.client import Live
from conformance.harness.errors import CheckError, Disproved, FleetError, HarnessError, TargetError
from conformance.harness.exchange import Exchange
from conformance.harness.gateway import CHAT, COMPLETIONS, EMBEDDINGS, Gateway, Refusal
from conformance.harness.headers import Headers
from conformance.harness.marks import case, clause, clause_mark, configured, engines
from conformance.harness.noise import Noise
from conformance.harness.sse import Event, SseParser
from conformance.harness.worker import Proof, Scripted, Worker
from fake_workers import wire
from fake_workers.journal import Entry
from fake_workers.script import (
    Chunk,
    Close,
    Drip,
    End,
    Head,
    Hold,
    Pause,
    Raw,
    Reply,
    Reset,
    Script,
    Stall,
    ToolCall,
    Wire,
)

__all__ = [
    "CHAT",
    "COMPLETIONS",
    "EMBEDDINGS",
    "OMIT",
    "PROMPT",
    "CheckError",
    "Chunk",
    "Close",
    "Disproved",
    "Drip",
    "End",
    "Entry",
    "Event",
    "Exchange",
    "FleetError",
    "Gateway",
    "HarnessError",
    "Head",
    "Headers",
    "Hold",
    "Live",
    "Noise",
    "Pause",
    "Proof",
    "Raw",
    "Refusal",
    "Reply",
    "Reset",
    "Script",
    "Scripted",
    "SseParser",
    "Stall",
    "TargetError",
    "ToolCall",
    "Wire",
    "Worker",
    "case",
    "clause",
    "clause_mark",
    "configured",
    "encode",
    "engines",
    "literal",
    "wire",
]
