"""Settings of the whole test run."""

from __future__ import annotations

from hypothesis import settings

# The same examples in every run: a test that fails now and then tells nobody what broke. To search further:
# pytest tests --hypothesis-profile search
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, max_examples=500)
settings.load_profile("repeatable")
