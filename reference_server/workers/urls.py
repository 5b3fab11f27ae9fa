"""Worker URLs: which are accepted, and how a URL and a path make a target."""

from __future__ import annotations

from urllib.parse import urlsplit

_HTTP_SCHEMES = ("http://", "https://")
_OTHER_SCHEMES = ("grpc://", "grpcs://", "ipc://")
_HIGHEST_PORT = 65_535


class WorkerUrlError(ValueError):
    """The text is no worker URL; the message says why and what one looks like."""


def check_worker_url(url: str) -> str:
    """Return `url` unchanged when a worker can be reached by it over HTTP.

    A path is allowed and is put in front of every request's path; IPv6 hosts stand in brackets.

    Raises:
        WorkerUrlError: Empty, another scheme, no host, a bad port, or parts that have no meaning for a worker.
    """
    if not url:
        raise WorkerUrlError("the URL is empty; write for example http://127.0.0.1:8000")
    if url.startswith(_OTHER_SCHEMES):
        raise WorkerUrlError(f"workers over {url.split(':', 1)[0]} are not built yet; register an http:// URL")
    if not url.startswith(_HTTP_SCHEMES):
        raise WorkerUrlError("the URL must start with a lower-case http:// or https://")
    if any(character.isspace() or not character.isprintable() for character in url) or "\\" in url:
        raise WorkerUrlError("the URL holds blanks, control characters or a backslash")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may repeat a password that stands where the port should
        raise WorkerUrlError("the host or port of the URL cannot be read") from None
    if not parts.hostname:
        raise WorkerUrlError("the URL names no host")
    if port is not None and not 0 < port <= _HIGHEST_PORT:
        raise WorkerUrlError("the port must be between 1 and 65535")
    if "@" in parts.netloc:
        raise WorkerUrlError("the URL must not hold a user or password; give the worker's key as api_key")
    if "?" in url or "#" in url:
        raise WorkerUrlError("the URL must end before any query or fragment")
    return url


def identity(url: str) -> str:
    """What makes two URLs the same worker: host without case, the scheme's own port left out, no slash at the end."""
    parts = urlsplit(url)
    default = 80 if parts.scheme == "http" else 443
    host = parts.hostname or ""
    return f"{parts.scheme}://{host}:{parts.port or default}{parts.path.rstrip('/')}"


def target(url: str, path: str) -> str:
    """The absolute URL of `path` (beginning with `/`) on the worker."""
    return url.rstrip("/") + path
