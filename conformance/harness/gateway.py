"""The client's side of a check: requests to the gateway under test, and what came back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from conformance.harness import bodies
from conformance.harness.bodies import OMIT, PROMPT
from conformance.harness.client import DEFAULT_BOUND_S, Live
from conformance.harness.errors import Disproved
from conformance.harness.worker import Proof, Scripted, Worker, observed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from conformance.harness.environment import Environment
    from conformance.harness.exchange import Exchange

CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
MODELS = "/v1/models"
ADMIN_ROUTES = ("/workers", "/flush_cache", "/get_loads")


class Refusal:
    """A request refused before any worker saw it, with the proof that its valid twin is seen."""

    def __init__(self, exchange: Exchange, proof: Proof, script: Scripted) -> None:
        self.exchange = exchange
        self.proof = proof
        self.script = script

    @property
    def status(self) -> int | None:
        """Status of the refusal."""
        return self.exchange.status

    @property
    def json(self) -> Any:
        """Body of the refusal as JSON."""
        return self.exchange.json

    @property
    def headers(self) -> Any:
        """Headers of the refusal."""
        return self.exchange.headers


class Gateway:
    """The gateway under test in one configuration, addressed for one engine behind it (fixture `gateway`).

    Headers are pairs; a pair whose value is None leaves out the header the client would add by itself (`content-
    type`, `accept`,
    `user-agent`, `authorization`, `host`, `content-length`). `key`: OMIT (not given) uses the configuration's
    default key, or that of its administrator on admin routes; None sends none, a string is sent as a bearer token.

    Attributes:
        model: the model of the engine this check runs behind.
        alias: a configured alias, and `alias_of` the model it stands for.
        features: what the target claims.
        keys: API keys of the configuration by name (`shared`, `red`, `blue`).
        base_url: where the gateway listens.
    """

    def __init__(self, environment: Environment, worker: Worker, proofs: dict[str, Proof]) -> None:
        self.environment = environment
        self.base_url = environment.gateway_url
        self.model = worker.model
        self.alias, self.alias_of = next(iter(environment.aliases.items()), ("", ""))
        self.features = environment.features
        self.keys: Mapping[str, str] = environment.keys
        self.exchanges: list[Exchange] = []
        self._worker = worker
        self._proofs = proofs
        split = urlsplit(self.base_url)
        self._address = (split.hostname or "127.0.0.1", split.port or 80)
        self._prefix = split.path.rstrip("/")

    # -- requests

    def open(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | bytes | Sequence[bytes] | None = None,
        headers: Sequence[tuple[str, str | None]] = (),
        *,
        key: Any = OMIT,
        within_s: float = DEFAULT_BOUND_S,
        receive_buffer: int | None = None,
        http2: bool = False,
    ) -> _Opening:
        """An exchange to follow as it happens: `async with gateway.open(...) as live: ...`.

        A dict goes out as JSON, bytes as they are (both with content-length), a list of bytes as HTTP chunks. With
        `http2` all of it goes in HTTP/2, to a gateway that claims to speak it; one connection an exchange there too.
        """
        pieces = self.written(method, path, body, headers, key=key)
        return self._opening(pieces, method, path, within_s, receive_buffer, http2=http2)

    def written(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | bytes | Sequence[bytes] | None = None,
        headers: Sequence[tuple[str, str | None]] = (),
        *,
        key: Any = OMIT,
    ) -> list[bytes]:
        """What `open` writes: the head with the whole body, or the head and each chunk of a body in chunks."""
        return bodies.request(method, self.target(path), body, self._headers(path, headers, key), host=self.netloc)

    def target(self, path: str) -> str:
        """The request target of a path of the contract: behind that of the gateway's URL, if it has one."""
        return self._prefix + path

    @property
    def netloc(self) -> str:
        """What an honest Host header says."""
        return f"{self._address[0]}:{self._address[1]}"

    def credential(self, path: str = CHAT) -> list[tuple[str, str]]:
        """The header that a caller of this route owes, if any."""
        administrator = self.environment.admin_key if path.startswith(ADMIN_ROUTES) else None
        token = administrator or self.environment.default_key
        return [("authorization", f"Bearer {token}")] if token is not None else []

    def open_raw(
        self, data: bytes | Sequence[bytes], *, method: str = "POST", within_s: float = DEFAULT_BOUND_S
    ) -> _Opening:
        """As `open`, with the bytes of the whole request given; `method` tells the parser what is answered."""
        return self._opening([data] if isinstance(data, bytes) else list(data), method, "(raw)", within_s, None)

    def _opening(
        self,
        pieces: list[bytes],
        method: str,
        target: str,
        within_s: float,
        receive_buffer: int | None,
        *,
        http2: bool = False,
    ) -> _Opening:
        live = Live(
            self._address,
            pieces,
            method=method,
            target=target,
            within_s=within_s,
            receive_buffer=receive_buffer,
            http2=http2,
        )
        self.exchanges.append(live.exchange)
        return _Opening(live, self._worker)

    async def request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | bytes | Sequence[bytes] | None = None,
        headers: Sequence[tuple[str, str | None]] = (),
        *,
        key: Any = OMIT,
        within_s: float = DEFAULT_BOUND_S,
        http2: bool = False,
    ) -> Exchange:
        """Send a request and read its answer to the end."""
        async with self.open(method, path, body, headers, key=key, within_s=within_s, http2=http2) as live:
            return await live.rest()

    async def raw(
        self, data: bytes | Sequence[bytes], *, method: str = "POST", within_s: float = DEFAULT_BOUND_S
    ) -> Exchange:
        """Send these bytes as they are and read the answer to its end."""
        async with self.open_raw(data, method=method, within_s=within_s) as live:
            return await live.rest()

    async def get(self, path: str, headers: Sequence[tuple[str, str | None]] = (), *, key: Any = OMIT) -> Exchange:
        """GET a path."""
        return await self.request("GET", path, None, headers, key=key)

    async def post(
        self,
        path: str,
        body: dict[str, Any] | bytes | Sequence[bytes],
        headers: Sequence[tuple[str, str | None]] = (),
        *,
        key: Any = OMIT,
    ) -> Exchange:
        """POST a body."""
        return await self.request("POST", path, body, headers, key=key)

    async def chat(
        self,
        script: Scripted,
        path: str = CHAT,
        headers: Sequence[tuple[str, str | None]] = (),
        *,
        key: Any = OMIT,
        **fields: Any,
    ) -> Exchange:
        """POST a chat completion of one user message that carries the script's marker.

        `fields` are added to the body, OMIT leaves one out.
        """
        return await self.post(path, self.chat_body(script, **fields), headers, key=key)

    async def completion(
        self,
        script: Scripted,
        path: str = COMPLETIONS,
        headers: Sequence[tuple[str, str | None]] = (),
        *,
        key: Any = OMIT,
        **fields: Any,
    ) -> Exchange:
        """POST a completion whose prompt carries the script's marker."""
        return await self.post(path, self.completion_body(script, **fields), headers, key=key)

    async def embedding(
        self,
        script: Scripted,
        path: str = EMBEDDINGS,
        headers: Sequence[tuple[str, str | None]] = (),
        *,
        key: Any = OMIT,
        **fields: Any,
    ) -> Exchange:
        """POST an embeddings request whose input carries the script's marker."""
        return await self.post(path, self.embedding_body(script, **fields), headers, key=key)

    def chat_body(self, script: Scripted | None = None, **fields: Any) -> dict[str, Any]:
        """The body `chat` sends; without a script the prompt is the placeholder PROMPT (see `refuses`)."""
        return bodies.body_for(CHAT, self.model, script.prompt if script else PROMPT, fields)

    def completion_body(self, script: Scripted | None = None, **fields: Any) -> dict[str, Any]:
        """The body `completion` sends."""
        return bodies.body_for(COMPLETIONS, self.model, script.prompt if script else PROMPT, fields)

    def embedding_body(self, script: Scripted | None = None, **fields: Any) -> dict[str, Any]:
        """The body `embedding` sends."""
        return bodies.body_for(EMBEDDINGS, self.model, script.prompt if script else PROMPT, fields)

    def open_chat(self, script: Scripted, headers: Sequence[tuple[str, str | None]] = (), **fields: Any) -> _Opening:
        """`open` for a chat completion."""
        return self.open("POST", CHAT, self.chat_body(script, **fields), headers)

    def open_completion(
        self, script: Scripted, headers: Sequence[tuple[str, str | None]] = (), **fields: Any
    ) -> _Opening:
        """`open` for a completion."""
        return self.open("POST", COMPLETIONS, self.completion_body(script, **fields), headers)

    # -- negative statements

    async def proof(
        self,
        worker: Worker,
        path: str,
        valid: dict[str, Any] | bytes,
        headers: Sequence[tuple[str, str | None]] = (),
        *,
        key: Any = OMIT,
    ) -> Proof:
        """Proof that this request reaches a worker and is answered with success; remembered for the rest of the run.

        `valid` is what it is in `refuses`.
        """
        body = bodies.complete(path, self.model, valid)
        cache_key = repr((self.base_url, path, body, list(headers), key))
        if cache_key not in self._proofs:
            script = worker.script()
            exchange = await self._send_marked(script, path, body, headers, key)
            if not exchange.succeeded:
                raise Disproved(
                    "the valid twin is refused",
                    f"the valid twin of the request is not answered with success: {exchange.brief()}",
                )
            self._proofs[cache_key] = observed(f"POST {path} {str(valid)[:200]}", await script.only())
        return self._proofs[cache_key]

    async def refuses(
        self,
        worker: Worker,
        path: str,
        valid: dict[str, Any] | bytes,
        invalid: dict[str, Any] | bytes,
        status: int | tuple[int, ...] = 400,
        *,
        headers: Sequence[tuple[str, str | None]] = (),
        key: Any = OMIT,
        invalid_headers: Sequence[tuple[str, str | None]] | None = None,
        invalid_key: Any = OMIT,
    ) -> Refusal:
        """Prove first that the valid twin reaches a worker, then that the invalid one is refused and no worker sees it.

        `valid` and `invalid` are members laid over the path's ordinary body (model and prompt; OMIT leaves one out), so
        `{"temperature": 2}` is enough and a whole body works too; or the bytes of a body. Wherever a text contains
        PROMPT, the prompt with the marker goes; it also travels as X-Request-ID, for bodies that have no room for it.
        `status` is what the invalid one must be refused with. `headers` and `key` belong to both requests;
        `invalid_headers` and `invalid_key` replace them for the invalid one.
        """
        proof = await self.proof(worker, path, valid, headers, key=key)
        script = worker.script()
        body = bodies.complete(path, self.model, invalid)
        exchange = await self._send_marked(
            script,
            path,
            body,
            headers if invalid_headers is None else invalid_headers,
            key if invalid_key is OMIT else invalid_key,
        )
        wanted = (status,) if isinstance(status, int) else status
        if exchange.status not in wanted:
            raise Disproved(
                "not refused" if exchange.succeeded else "refused with another status",
                f"expected a refusal with {' or '.join(map(str, wanted))}: {exchange.brief()}",
            )
        await script.never_seen(because=proof)
        return Refusal(exchange, proof, script)

    async def _send_marked(
        self,
        script: Scripted,
        path: str,
        body: dict[str, Any] | bytes,
        headers: Sequence[tuple[str, str | None]],
        key: Any,
    ) -> Exchange:
        """Send a body with the marker in place of PROMPT, and in X-Request-ID, for bodies that have no room for it."""
        pairs = list(headers)
        if not any(name.lower() == "x-request-id" for name, _ in pairs):
            pairs.append(("x-request-id", script.marker))
        return await self.post(path, bodies.with_prompt(body, script.prompt), pairs, key=key)

    def _headers(self, path: str, headers: Sequence[tuple[str, str | None]], key: Any) -> list[tuple[str, str | None]]:
        if any(name.lower() == "authorization" for name, _ in headers) or key is None:
            return list(headers)
        return [*(self.credential(path) if key is OMIT else [("authorization", f"Bearer {key}")]), *headers]


class _Opening:
    """Puts pending scripts, then connects."""

    def __init__(self, live: Live, worker: Worker) -> None:
        self.live = live
        self._worker = worker

    async def __aenter__(self) -> Live:
        await self._worker.flush()
        return await self.live.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.live.__aexit__(kind, value, trace)
