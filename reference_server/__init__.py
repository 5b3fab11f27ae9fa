"""The contract made executable: an OpenAI-compatible inference gateway on Quart and Hypercorn."""
