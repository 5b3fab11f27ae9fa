"""The table of error codes."""

from __future__ import annotations

from spec import errors


def test_the_rate_limiting_table_is_there() -> None:
    """Each shed has the status and the Retry-After of the contract's table."""
    wanted = {
        "admission_queue_full": (429, 2),
        "admission_queue_timeout": (503, 2),
        "scheduler_queue_full": (429, 2),
        "scheduler_queue_timeout": (503, 2),
        "scheduler_preempted": (503, 1),
        "tenant_rate_limit_exceeded": (429, "computed"),
        "worker_overload_protection_shed": (503, "configured"),
    }
    assert {code: (errors.table()[code].status, errors.table()[code].retry_after) for code in wanted} == wanted


def test_only_the_envelope_has_the_header() -> None:
    """X-SMG-Error-Code goes with the envelope and with nothing else."""
    assert {row.code for row in errors.table().values() if not row.header} == {
        "400", "json_parse_error", "unauthorized", "no_models_available",
    }  # fmt: skip


def test_preemption_says_so_in_a_header() -> None:
    """The preempted request is told by a header of its own."""
    assert errors.table()["scheduler_preempted"].extra_headers == (("X-SMG-Preempted", "true"),)
