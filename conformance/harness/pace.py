"""How patient this process is: every wait for the gateway or its workers is multiplied by one factor.

One for judging. Less only where nothing will ever come and the time would be wasted: when the suite itself is tried on
peers that are no gateways (option `--pace`, not shown in the help).
"""

from __future__ import annotations


class _Pace:
    factor = 1.0


def paced(seconds: float) -> float:
    """A wait of so many seconds at this process's pace."""
    return seconds * _Pace.factor


def set_pace(factor: float) -> None:
    """Set the pace of this process; waits that have begun keep theirs."""
    _Pace.factor = factor
