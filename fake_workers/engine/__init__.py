"""The engine behind the dialects: tokens, deterministic text, and a latency model in virtual time. No I/O here."""
