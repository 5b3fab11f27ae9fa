"""Control-plane credentials: who administrates, what others hear, and what the log keeps."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from reference_server.app import create_app
from reference_server.call import Call, InboundBody
from reference_server.errors import ControlPlaneRefusal, Unauthorized
from reference_server.request_ids import RequestId
from reference_server.settings import ControlPlaneKey, Settings, TenantKey
from reference_server.stages.identify import Group, identify
from reference_server.workers.fleet import Fleet
from tests.reference_server.front import Front

OPS = ControlPlaneKey("ops", "Operations", "admin", "adm:in")
DEV = ControlPlaneKey("dev", "Development", "user", "use:r")
ALONE = Settings(control_plane_keys=(OPS, DEV))
BESIDE = dataclasses.replace(ALONE, api_key="shared", tenant_api_keys=(TenantKey("red", "red-key"),))
AUDITED = dataclasses.replace(BESIDE, control_plane_audit=True)
CHALLENGE = ("www-authenticate", 'Bearer realm="control-plane"')


def ask(settings: Settings, token: str | None, group: Group = Group.ADMIN, path: str = "/workers") -> None:
    """Let the stage judge a request with this bearer token."""
    headers = [] if token is None else [("authorization", f"Bearer {token}")]
    identify(Call("GET", path, path, "", headers, RequestId("id-1"), InboundBody(1)), settings, group)


@pytest.mark.parametrize("settings", [ALONE, BESIDE])
def test_the_admin_role_opens(settings: Settings) -> None:
    """A credential with the admin role opens admin routes."""
    ask(settings, "adm:in")


@pytest.mark.parametrize("settings", [ALONE, BESIDE])
def test_another_role_does_not(settings: Settings) -> None:
    """A credential of another role is known and not enough: 403, and nobody is asked to authenticate again."""
    with pytest.raises(ControlPlaneRefusal) as refused:
        ask(settings, "use:r")
    assert (refused.value.status, refused.value.headers) == (403, ())


@pytest.mark.parametrize("token", [None, "shared", "red-key", "adm", "adm:inn", "ops", "x"])
def test_no_other_key_opens(token: str | None) -> None:
    """Neither nothing, nor the shared key, nor a tenant's, nor anything else opens an admin route: 401."""
    with pytest.raises(ControlPlaneRefusal) as refused:
        ask(BESIDE, token)
    assert (refused.value.status, refused.value.headers) == (401, (CHALLENGE,))


def test_serving_routes_keep_their_keys() -> None:
    """Control-plane keys open no serving route, and serving keys still do."""
    ask(BESIDE, "shared", Group.SERVING)
    ask(BESIDE, "red-key", Group.SERVING)
    with pytest.raises(Unauthorized):
        ask(BESIDE, "adm:in", Group.SERVING)


def test_control_plane_keys_alone_leave_serving_open() -> None:
    """Without API keys the serving routes ask for none."""
    ask(ALONE, None, Group.SERVING)


@pytest.mark.parametrize(
    ("key", "status", "text"),
    [(None, 401, "Missing or invalid"), ("shared", 401, "Invalid authentication token"), ("use:r", 403, "Admin role")],
)
async def test_refusals_are_plain_text(key: str | None, status: int, text: str) -> None:
    """On the wire a refusal is plain text with the control plane's challenge: no envelope, no error code."""
    front = Front(BESIDE)
    front.app = create_app(front.state, Fleet(BESIDE))
    headers = [] if key is None else [("authorization", f"Bearer {key}")]
    reply = await front.ask("GET", "/workers", headers)
    assert (reply.status, reply.header("content-type")) == (status, "text/plain; charset=utf-8")
    assert reply.body.decode().startswith(text)
    assert reply.header("www-authenticate") == (CHALLENGE[1] if status == 401 else None)
    assert reply.header("x-smg-error-code") is None


async def test_an_administrator_lists_workers() -> None:
    """The admin credential gets the answer itself; public routes ask for nothing still."""
    front = Front(BESIDE)
    front.app = create_app(front.state, Fleet(BESIDE))
    assert (await front.ask("GET", "/workers", [("authorization", "Bearer adm:in")])).json["total"] == 0
    assert (await front.ask("GET", "/v1/models")).status == 200


async def test_every_decision_is_written_down(caplog: pytest.LogCaptureFixture) -> None:
    """The log says who did what and how it ended, on one line each, and shows no key."""
    with caplog.at_level(logging.INFO, "reference_server.audit"):
        ask(AUDITED, "adm:in")
        for token in ("use:r", "secret-guess", None):
            with pytest.raises(ControlPlaneRefusal):
                ask(AUDITED, token, path="/workers/a\nb")
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == (
        'control_plane_audit principal="ops" name="Operations" auth_method="api_key" role="admin" '
        'method="GET" path="/workers" outcome="success" request_id="id-1"'
    )
    assert ['outcome="denied"' in line for line in lines] == [False, True, True, True]
    assert 'principal="dev"' in lines[1]
    assert 'principal="unauthenticated"' in lines[2]
    assert not any("\n" in line or key in line for line in lines for key in ("adm:in", "use:r", "secret-guess"))


def test_without_the_flag_nothing_is_written(caplog: pytest.LogCaptureFixture) -> None:
    """The log is kept only on request."""
    with caplog.at_level(logging.DEBUG):
        ask(BESIDE, "adm:in")
    assert not caplog.records


def test_nothing_of_a_key_is_in_a_repr() -> None:
    """Settings may be logged: control-plane keys are left out of their text."""
    assert "adm:in" not in repr(ALONE)
