"""The routes that reach a worker: path, request model, and the name of its schema in the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reference_server import models_generated as models

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One serving route. `path` is the client's and the worker's alike; `charged`: a tenant pays for its requests."""

    name: str
    path: str
    model: type[BaseModel]
    schema: str
    charged: bool = True


CHAT = Endpoint("chat", "/v1/chat/completions", models.ChatCompletionRequest, "ChatCompletionRequest")
COMPLETIONS = Endpoint("completions", "/v1/completions", models.CompletionRequest, "CompletionRequest")
EMBEDDINGS = Endpoint("embeddings", "/v1/embeddings", models.EmbeddingRequest, "EmbeddingRequest", charged=False)
ENDPOINTS = (CHAT, COMPLETIONS, EMBEDDINGS)
