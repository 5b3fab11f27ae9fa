"""Engines that stand in for SGLang, vLLM and TokenSpeed: faithful under load, scripted for a fault."""

from __future__ import annotations

from fake_workers.control import Control
from fake_workers.fleet import Fleet
from fake_workers.journal import Entry, Journal
from fake_workers.markers import find_marker, new_marker
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
from fake_workers.spec import WorkerSpec

__all__ = [
    "Chunk",
    "Close",
    "Control",
    "Drip",
    "End",
    "Entry",
    "Fleet",
    "Head",
    "Hold",
    "Journal",
    "Pause",
    "Raw",
    "Reply",
    "Reset",
    "Script",
    "Stall",
    "ToolCall",
    "Wire",
    "WorkerSpec",
    "find_marker",
    "new_marker",
]
