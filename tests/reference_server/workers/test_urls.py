"""Worker URLs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.workers.urls import WorkerUrlError, check_worker_url, identity, target


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "http://127.0.0.1:8000/",
        "https://worker.example",
        "http://[::1]:8000",
        "http://worker-1/engine/a",
        "http://WORKER:65535",
    ],
)
def test_urls_of_workers(url: str) -> None:
    """Hosts, IPv6 in brackets, https and paths make worker URLs, kept as they are written."""
    assert check_worker_url(url) == url


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "empty"),
        ("127.0.0.1:8000", "http://"),
        ("ftp://127.0.0.1", "http://"),
        ("HTTP://127.0.0.1", "lower-case"),
        ("grpc://127.0.0.1:1", "not built yet"),
        ("ipc:///x", "not built yet"),
        ("http://", "no host"),
        ("http://:80", "no host"),
        ("http://a:99999", "cannot be read"),
        ("http://a:0", "between 1 and 65535"),
        ("http://a:b", "cannot be read"),
        ("http://[::1", "cannot be read"),
        ("http://a b", "blanks"),
        ("http://a/\n", "blanks"),
        ("http://a\\b", "backslash"),
        ("http://user:secret@a", "api_key"),
        ("http://a?b=c", "query"),
        ("http://a/#b", "fragment"),
    ],
)
def test_what_is_no_worker_url_is_refused_with_a_reason(url: str, says: str) -> None:
    """Anything else is refused, and the message says what is wrong without repeating a password."""
    with pytest.raises(WorkerUrlError, match=says) as caught:
        check_worker_url(url)
    assert "secret" not in str(caught.value)


def test_spellings_of_one_worker_have_one_identity() -> None:
    """Case of the host, the scheme's own port and a slash at the end make no difference; a path and a scheme do."""
    assert len({identity(url) for url in ("http://A", "http://a/", "http://a:80", "http://a:80/")}) == 1
    assert len({identity(url) for url in ("http://a", "https://a", "http://a/b", "http://a:81", "http://[::1]")}) == 5


@given(st.text(max_size=40).map("http://".__add__) | st.text(max_size=40))
def test_no_text_breaks_the_reading(text: str) -> None:
    """Whatever is written, it is a worker URL that can be asked or a clear refusal."""
    try:
        url = check_worker_url(text)
    except WorkerUrlError:
        return
    assert identity(url).startswith(("http://", "https://"))
    assert target(url, "/v1/models").endswith("/v1/models")
