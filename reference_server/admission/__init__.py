"""Admission: who gets a place at once, who waits for one, who is sent away, and who has to give a place back.

Three sans-I/O cores (`limiter`, `scheduler`, and `rate`, which both use) and an asyncio shell round them (`desk`,
`priority_desk`).
"""
