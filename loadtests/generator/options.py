"""The options our locust files add to locust's own."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from loadtests.arrivals import PATTERNS

if TYPE_CHECKING:
    from locust.argument_parser import LocustArgumentParser
    from locust.env import Environment

DEFAULT_RATE = 10.0
DEFAULT_LATE_SHARE = 0.5


def positive(text: str) -> float:
    """A number above 0, as argparse types go."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0")
    return value


def of(environment: Environment) -> Any:
    """The options of a locust environment, as argparse has read them."""
    return environment.parsed_options


def add(parser: LocustArgumentParser) -> None:
    """Register the options with locust."""
    parser.add_argument("--rate", type=positive, default=DEFAULT_RATE, help="arrivals per second, each open-loop user")
    parser.add_argument("--arrivals", choices=PATTERNS, help="arrivals of open loops (default: as the scenario has it)")
    parser.add_argument("--loop", choices=["open", "closed"], help="send when due, or when the answer before is over")
    parser.add_argument("--seed", default="0", help="of arrivals and choices")
    parser.add_argument("--model", default="conformance-load", help="model to ask for")
    parser.add_argument("--key", default="", env_var="LOADTESTS_KEY", is_secret=True, help="API key to present")
    parser.add_argument(
        "--control", default="", help="control port of the fake workers behind the gateway: answers are known then"
    )
    # Text and no Path: a master sends its options to its workers, and can only send plain values.
    parser.add_argument("--record-dir", default="", help="folder for a line of JSON a request")
    parser.add_argument(
        "--max-late-share",
        type=positive,
        default=DEFAULT_LATE_SHARE,
        help="99%% of requests must be sent within this share of the mean time between arrivals, else exit status 3",
    )
