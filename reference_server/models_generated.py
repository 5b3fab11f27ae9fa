"""Request models generated from spec/openapi.yaml by `make models`. Do not edit: change the document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)
from typing_extensions import TypeAliasType


class StopItem(RootModel[StrictStr]):
    root: Annotated[StrictStr, Field(min_length=1)]


class StopArrayItem(RootModel[StrictStr]):
    root: Annotated[StrictStr, Field(min_length=1)]


StopArray = TypeAliasType(
    "StopArray", Annotated[list[StopArrayItem], Field(max_length=4)]
)


StopString = TypeAliasType("StopString", Annotated[StrictStr, Field(min_length=1)])


class StopTokenId(RootModel[StrictInt]):
    root: Annotated[StrictInt, Field(ge=0)]


class LegacyFunction(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    name: StrictStr
    description: StrictStr | None = None


class LegacyFunctionCall(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    name: StrictStr


class StreamOptions(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    include_usage: Annotated[
        StrictBool | None,
        Field(description="Send the request's usage in a last chunk."),
    ] = False
    continuous_usage_stats: Annotated[
        StrictBool | None, Field(description='A running usage on every chunk.')
    ] = False


class Thinking(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    type: Annotated[
        Literal['enabled', 'disabled', 'adaptive'] | None,
        Field(description='The toggle.'),
    ] = None
    effort: Annotated[
        StrictStr | None,
        Field(description='Effort level; stronger than reasoning_effort.'),
    ] = None
    keep: Annotated[
        StrictStr | None, Field(description='Keep mode of one dialect.')
    ] = None
    clear_thinking: Annotated[
        StrictBool | None, Field(description='Drop the reasoning of earlier turns.')
    ] = None


ContentString = TypeAliasType(
    "ContentString", Annotated[StrictStr, Field(min_length=1)]
)


class ContentPart(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )


class Function(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    name: Annotated[StrictStr, Field(description="The function's name.")]
    arguments: Annotated[
        StrictStr | None, Field(description='Arguments as JSON text.')
    ] = None


class ToolCall(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    id: Annotated[StrictStr, Field(description="The call's id.")]
    type: StrictStr
    function: Annotated[
        Function, Field(description='Which function with which arguments.')
    ]


class Function1(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    name: Annotated[StrictStr, Field(description="The function's name.")]
    description: Annotated[
        StrictStr | None, Field(description='What the function does.')
    ] = None
    parameters: Annotated[
        Any | None,
        Field(
            description='A JSON Schema of the arguments; whether another value than an object is refused is not said.'
        ),
    ] = None
    strict: Annotated[
        StrictBool | None, Field(description="Follow the parameters' schema exactly.")
    ] = None


class Tool(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    type: Annotated[StrictStr, Field(description='The kind of tool.')]
    function: Annotated[Function1, Field(description='The function.')]


class Function2(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    name: Annotated[StrictStr, Field(description="The function's name.")]


class NamedToolChoice(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    type: Literal['function']
    function: Annotated[
        Function2, Field(description='The function that must be called.')
    ]


class ToolReference(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    type: StrictStr
    name: StrictStr | None = None


class TextFormat(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    type: Literal['text']


class JsonObjectFormat(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    type: Literal['json_object']


class JsonSchema(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    name: Annotated[StrictStr, Field(description="The schema's name.", min_length=1)]
    schema_: Annotated[
        dict[str, Any], Field(alias='schema', description='The JSON Schema itself.')
    ]
    strict: Annotated[
        StrictBool | None, Field(description='Follow the schema exactly.')
    ] = None


class JsonSchemaFormat(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    type: Literal['json_schema']
    json_schema: Annotated[JsonSchema, Field(description='The schema with its name.')]


PromptArray = TypeAliasType(
    "PromptArray", Annotated[list[StrictStr], Field(min_length=1)]
)


class StopArray1Item(RootModel[StrictStr]):
    root: Annotated[StrictStr, Field(min_length=1)]


StopArray1 = TypeAliasType(
    "StopArray1", Annotated[list[StopArray1Item], Field(max_length=4)]
)


class CompletionRequest(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    model: Annotated[
        StrictStr, Field(description='Canonical model id or a configured alias.')
    ]
    prompt: Annotated[
        StrictStr | PromptArray, Field(description='The prompt, or several.')
    ]
    max_tokens: Annotated[
        StrictInt | None, Field(description='Upper bound on generated tokens.', ge=0)
    ] = None
    temperature: Annotated[
        StrictFloat | None, Field(description='Sampling temperature.', ge=0.0, le=2.0)
    ] = None
    top_p: Annotated[
        StrictFloat | None, Field(description='Nucleus sampling.', gt=0.0, le=1.0)
    ] = None
    n: Annotated[
        StrictInt | None, Field(description='Completions per prompt.', ge=1, le=128)
    ] = None
    best_of: Annotated[
        StrictInt | None,
        Field(
            description='Candidates to choose from; more than n, and not with stream.',
            ge=0,
            le=20,
        ),
    ] = None
    logprobs: Annotated[
        StrictInt | None,
        Field(description='Log probabilities of the likeliest tokens.', ge=0, le=5),
    ] = None
    stream: Annotated[
        StrictBool | None, Field(description='Answer with server-sent events.')
    ] = None
    stream_options: Annotated[
        StreamOptions | None,
        Field(description='Options of a stream; only with stream.'),
    ] = None
    stop: Annotated[
        StopString | StopArray1 | None,
        Field(description='Sequences that end the output.'),
    ] = None
    echo: Annotated[
        StrictBool | None, Field(description='Repeat the prompt in the answer.')
    ] = None
    suffix: Annotated[
        StrictStr | None, Field(description='Text that follows the completion.')
    ] = None
    presence_penalty: Annotated[
        StrictFloat | None,
        Field(description='Penalty for tokens seen before.', ge=-2.0, le=2.0),
    ] = None
    frequency_penalty: Annotated[
        StrictFloat | None,
        Field(description='Penalty by how often a token was seen.', ge=-2.0, le=2.0),
    ] = None
    seed: Annotated[StrictInt | None, Field(description='Seed of the sampler.')] = None
    user: Annotated[
        StrictStr | None, Field(description="The end user's identifier.")
    ] = None
    top_k: Annotated[
        StrictInt | None,
        Field(description='Top-k sampling; -1 switches it off.', ge=-1),
    ] = None
    min_p: Annotated[
        StrictFloat | None, Field(description='Min-p threshold.', ge=0.0, le=1.0)
    ] = None
    min_tokens: Annotated[
        StrictInt | None, Field(description='Tokens to generate at least.', ge=0)
    ] = None
    repetition_penalty: Annotated[
        StrictFloat | None, Field(description='Repetition penalty.', ge=0.0, le=2.0)
    ] = None
    regex: Annotated[
        StrictStr | None, Field(description='Regular expression for the output.')
    ] = None
    ebnf: Annotated[StrictStr | None, Field(description='Grammar for the output.')] = (
        None
    )
    json_schema: Annotated[
        StrictStr | None, Field(description='A JSON Schema as text.')
    ] = None
    stop_token_ids: Annotated[
        list[StopTokenId] | None, Field(description='Token ids that end the output.')
    ] = None
    ignore_eos: Annotated[
        StrictBool | None, Field(description='Go on past the end token.')
    ] = None
    no_stop_trim: Annotated[
        StrictBool | None, Field(description='Keep the stop sequence in the output.')
    ] = None
    skip_special_tokens: Annotated[
        StrictBool | None, Field(description='Drop special tokens.')
    ] = True
    lora_path: Annotated[StrictStr | None, Field(description='LoRA adapter.')] = None
    sampling_seed: Annotated[
        StrictInt | None, Field(description='Seed of the sampler.', ge=0)
    ] = None
    return_hidden_states: Annotated[
        StrictBool | None, Field(description='Return hidden states.')
    ] = None
    rid: Annotated[
        StrictStr | None, Field(description='Request id for the backend.')
    ] = None
    logit_bias: Annotated[
        dict[str, StrictFloat] | None, Field(description='Bias by token id.')
    ] = None
    session_params: Annotated[
        dict[str, Any] | None, Field(description='Parameters of a session.')
    ] = None


class EmbeddingRequest(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    model: Annotated[
        StrictStr, Field(description='Canonical model id or a configured alias.')
    ]
    input: Annotated[
        Any,
        Field(
            description="A text, several texts, or token ids; which of them is the engine's matter."
        ),
    ]
    encoding_format: Annotated[
        StrictStr | None,
        Field(
            description="float or base64; which values exist is the engine's matter."
        ),
    ] = None
    dimensions: Annotated[
        StrictInt | None, Field(description='Length of the vectors.')
    ] = None
    user: Annotated[
        StrictStr | None, Field(description="The end user's identifier.")
    ] = None


class SystemMessage(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    role: Literal['system']
    content: Annotated[
        StrictStr | list[ContentPart] | None, Field(description='The instruction.')
    ] = None
    name: Annotated[StrictStr | None, Field(description="The participant's name.")] = (
        None
    )


class DeveloperMessage(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    role: Literal['developer']
    content: Annotated[
        StrictStr | list[ContentPart], Field(description='The instruction.')
    ]
    name: Annotated[StrictStr | None, Field(description="The participant's name.")] = (
        None
    )


ContentArray = TypeAliasType(
    "ContentArray", Annotated[list[ContentPart], Field(min_length=1)]
)


class UserMessage(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    role: Literal['user']
    content: Annotated[
        ContentString | ContentArray, Field(description='What the user says.')
    ]
    name: Annotated[StrictStr | None, Field(description="The participant's name.")] = (
        None
    )


class AssistantMessage(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    role: Literal['assistant']
    content: Annotated[
        StrictStr | list[ContentPart] | None,
        Field(description='What the assistant said.'),
    ] = None
    name: Annotated[StrictStr | None, Field(description="The participant's name.")] = (
        None
    )
    tool_calls: Annotated[
        list[ToolCall] | None, Field(description='Calls the assistant made.')
    ] = None
    reasoning_content: Annotated[
        StrictStr | None, Field(description='Reasoning of an earlier turn.')
    ] = None
    reasoning: Annotated[
        StrictStr | None, Field(description='Another name of reasoning_content.')
    ] = None


class ToolMessage(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    role: Literal['tool']
    content: Annotated[
        StrictStr | list[ContentPart], Field(description="The tool's answer.")
    ]
    tool_call_id: Annotated[
        StrictStr, Field(description='The call this message answers.')
    ]
    name: Annotated[StrictStr | None, Field(description="The participant's name.")] = (
        None
    )


class FunctionMessage(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    role: Literal['function']
    content: Annotated[
        StrictStr | list[ContentPart] | None,
        Field(description="The function's answer."),
    ]
    name: Annotated[StrictStr, Field(description="The function's name.")]


class RootMessage(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    role: Literal['root']
    content: StrictStr | list[ContentPart]
    name: Annotated[StrictStr | None, Field(description="The participant's name.")] = (
        None
    )


class AllowedTools(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    type: Literal['allowed_tools']
    mode: Annotated[
        Literal['auto', 'required'],
        Field(description='Whether one of the tools must be called.'),
    ]
    tools: Annotated[
        list[ToolReference], Field(description='The tools the model may choose from.')
    ]


class ChatCompletionRequest(BaseModel):
    model_config = ConfigDict(
        extra='allow',
    )
    model: Annotated[
        StrictStr, Field(description='Canonical model id or a configured alias.')
    ]
    messages: Annotated[
        list[Annotated[SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage | RootMessage, Field(discriminator='role')]],
        Field(description='The conversation so far.', min_length=1),
    ]
    max_completion_tokens: Annotated[
        StrictInt | None, Field(description='Upper bound on generated tokens.', ge=1)
    ] = None
    max_tokens: Annotated[
        StrictInt | None,
        Field(
            description='The old name of max_completion_tokens.',
            ge=1,
            json_schema_extra={'deprecated': True},
        ),
    ] = None
    temperature: Annotated[
        StrictFloat | None, Field(description='Sampling temperature.', ge=0.0, le=2.0)
    ] = None
    top_p: Annotated[
        StrictFloat | None, Field(description='Nucleus sampling.', gt=0.0, le=1.0)
    ] = None
    n: Annotated[
        StrictInt | None, Field(description='Number of choices.', ge=1, le=10)
    ] = None
    stream: Annotated[
        StrictBool | None, Field(description='Answer with server-sent events.')
    ] = None
    stream_options: Annotated[
        StreamOptions | None,
        Field(description='Options of a stream; only with stream.'),
    ] = None
    stop: Annotated[
        StopString | StopArray | None,
        Field(description='Sequences that end the output.'),
    ] = None
    presence_penalty: Annotated[
        StrictFloat | None,
        Field(description='Penalty for tokens seen before.', ge=-2.0, le=2.0),
    ] = None
    frequency_penalty: Annotated[
        StrictFloat | None,
        Field(description='Penalty by how often a token was seen.', ge=-2.0, le=2.0),
    ] = None
    logprobs: Annotated[
        StrictBool | None, Field(description='Return log probabilities.')
    ] = None
    top_logprobs: Annotated[
        StrictInt | None, Field(description='Likely tokens per position.', ge=0, le=20)
    ] = None
    logit_bias: Annotated[
        dict[str, StrictFloat] | None, Field(description='Bias by token id.')
    ] = None
    tools: Annotated[
        list[Tool] | None, Field(description='Functions the model may call.')
    ] = None
    tool_choice: Annotated[
        Literal['none', 'auto', 'required'] | NamedToolChoice | AllowedTools | None,
        Field(description='Whether and which tool the model must call.'),
    ] = None
    parallel_tool_calls: Annotated[
        StrictBool | None, Field(description='Allow several calls at once.')
    ] = None
    response_format: Annotated[
        TextFormat | JsonObjectFormat | JsonSchemaFormat | None,
        Field(description='Shape of the output.'),
    ] = None
    reasoning_effort: Annotated[
        StrictStr | StrictFloat | None,
        Field(description='Effort of reasoning. A number becomes its decimal string.'),
    ] = None
    thinking: Annotated[
        Thinking | None, Field(description='Typed control of thinking.')
    ] = None
    user: Annotated[
        StrictStr | None, Field(description="The end user's identifier.")
    ] = None
    top_k: Annotated[
        StrictInt | None,
        Field(description='Top-k sampling; -1 switches it off.', ge=-1),
    ] = None
    min_p: Annotated[
        StrictFloat | None, Field(description='Min-p threshold.', ge=0.0, le=1.0)
    ] = None
    min_tokens: Annotated[
        StrictInt | None, Field(description='Tokens to generate at least.', ge=0)
    ] = None
    repetition_penalty: Annotated[
        StrictFloat | None, Field(description='Repetition penalty.', ge=0.0, le=2.0)
    ] = None
    regex: Annotated[
        StrictStr | None, Field(description='Regular expression for the output.')
    ] = None
    ebnf: Annotated[StrictStr | None, Field(description='Grammar for the output.')] = (
        None
    )
    stop_token_ids: Annotated[
        list[StopTokenId] | None, Field(description='Token ids that end the output.')
    ] = None
    ignore_eos: Annotated[
        StrictBool | None, Field(description='Go on past the end token.')
    ] = None
    no_stop_trim: Annotated[
        StrictBool | None, Field(description='Keep the stop sequence in the output.')
    ] = None
    skip_special_tokens: Annotated[
        StrictBool | None, Field(description='Drop special tokens.')
    ] = True
    continue_final_message: Annotated[
        StrictBool | None, Field(description='Continue the trailing assistant message.')
    ] = None
    separate_reasoning: Annotated[
        StrictBool | None, Field(description='Return reasoning on its own.')
    ] = True
    stream_reasoning: Annotated[
        StrictBool | None, Field(description='Stream reasoning as well.')
    ] = True
    chat_template_kwargs: Annotated[
        dict[str, Any] | None, Field(description='Variables for the chat template.')
    ] = None
    lora_path: Annotated[StrictStr | None, Field(description='LoRA adapter.')] = None
    sampling_seed: Annotated[
        StrictInt | None, Field(description='Seed of the sampler.', ge=0)
    ] = None
    return_hidden_states: Annotated[
        StrictBool | None, Field(description='Return hidden states.')
    ] = None
    rid: Annotated[
        StrictStr | None, Field(description='Request id for the backend.')
    ] = None
    seed: Annotated[
        StrictInt | None,
        Field(description="Seed of the sampler, OpenAI's name for it."),
    ] = None
    metadata: Annotated[
        dict[str, StrictStr] | None, Field(description='Labels of the request.')
    ] = None
    modalities: Annotated[
        list[StrictStr] | None, Field(description='Kinds of output.')
    ] = None
    service_tier: Annotated[
        StrictStr | None, Field(description='Class of service.')
    ] = None
    prompt_cache_key: Annotated[
        StrictStr | None, Field(description='Key of a prompt cache.')
    ] = None
    safety_identifier: Annotated[
        StrictStr | None, Field(description="The end user's identifier.")
    ] = None
    return_audio: Annotated[StrictBool | None, Field(description='Return audio.')] = (
        None
    )
    session_params: Annotated[
        dict[str, Any] | None, Field(description='Parameters of a session.')
    ] = None
    functions: Annotated[
        list[LegacyFunction] | None,
        Field(
            description='The old name of tools.', json_schema_extra={'deprecated': True}
        ),
    ] = None
    function_call: Annotated[
        Literal['none', 'auto'] | LegacyFunctionCall | None,
        Field(
            description='The old name of tool_choice.',
            json_schema_extra={'deprecated': True},
        ),
    ] = None
