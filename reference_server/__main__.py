"""`python -m reference_server` is `reference-gateway`."""

from __future__ import annotations

import sys

from reference_server.cli import main

sys.exit(main())
