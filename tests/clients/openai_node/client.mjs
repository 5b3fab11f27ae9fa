// Drives the real OpenAI client for Node against a gateway and prints what it got as one JSON document.
// Arguments: base URL (with /v1), API key, a marker whose script answers 409 once and then well.
// The judging is done in Python, by tests/clients/test_openai_node.py.
import OpenAI from "openai";

const [baseURL, apiKey, marker] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 20_000 });
const models = ["m-sglang", "m-vllm", "m-tokenspeed"];
const ask = (text) => [{ role: "user", content: text }];
const weather = {
  type: "function",
  function: {
    name: "weather",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const town = {
  type: "json_schema",
  json_schema: {
    name: "town",
    strict: true,
    schema: {
      type: "object",
      properties: { name: { type: "string" }, inhabitants: { type: "integer" } },
      required: ["name", "inhabitants"],
      additionalProperties: false,
    },
  },
};

async function collected(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

async function failure(promise) {
  try {
    await promise;
    return { name: "none" };
  } catch (error) {
    return { name: error.constructor.name, status: error.status, code: error.code, type: error.type };
  }
}

const found = { models: [], perModel: {} };
for (const model of models) {
  const chat = client.chat.completions;
  const tools = { model, messages: ask("weather in Paris?"), tools: [weather], tool_choice: "required" };
  found.perModel[model] = {
    chat: await chat.create({ model, messages: ask("hello"), max_completion_tokens: 5 }),
    chunks: await collected(
      await chat.create({
        model, messages: ask("hello"), max_completion_tokens: 5, stream: true, stream_options: { include_usage: true },
      }),
    ),
    whole: await chat.create({ model, messages: ask("same"), seed: 7 }),
    streamed: await chat.stream({ model, messages: ask("same"), seed: 7 }).finalChatCompletion(),
    tools: await chat.create(tools),
    toolsStreamed: await chat.stream(tools).finalChatCompletion(),
    parsed: (await chat.parse({ model, messages: ask("a town"), response_format: town })).choices[0].message.content,
    completion: await client.completions.create({ model, prompt: ["one", "two"], max_tokens: 4 }),
    completionChunks: await collected(
      await client.completions.create({ model, prompt: "one", max_tokens: 4, stream: true }),
    ),
  };
}
for await (const model of client.models.list()) found.models.push(model.id);
found.retrieved = (await client.models.retrieve("m-vllm")).id;
found.floats = await client.embeddings.create({ model: "m-vllm", input: ["a", "b"], encoding_format: "float" });
found.packed = await client.embeddings.create({ model: "m-vllm", input: ["a", "b"] });
found.errors = {
  wrongKey: await failure(
    new OpenAI({ baseURL, apiKey: "nobody", maxRetries: 0 }).chat.completions.create({ model: "m-vllm", messages: ask("x") }),
  ),
  unknownModel: await failure(client.chat.completions.create({ model: "nope", messages: ask("x") })),
  badRange: await failure(client.chat.completions.create({ model: "m-vllm", messages: ask("x"), temperature: 3 })),
};
const patient = new OpenAI({ baseURL, apiKey, maxRetries: 1, timeout: 20_000 });
found.retried = await patient.chat.completions.create({ model: "m-vllm", messages: ask(`hello ${marker}`) });
process.stdout.write(JSON.stringify(found));
