"""`python -m conformance`: what surrounds a run.

The run itself is `pytest conformance` (see docs/how-to-test-your-gateway.md).
"""

from __future__ import annotations

import sys

from conformance.commands import main

if __name__ == "__main__":
    sys.exit(main())
