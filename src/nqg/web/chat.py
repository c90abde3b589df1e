"""Chats in the form of OpenAI's API: the last sentence of the user becomes calls of functions.

A client that was written for a language model gets `tool_calls`. Where the model abstains, the
answer is a message that says why, or comes from another server that the operator chose.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import httpx
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict

from nqg.answers import Answer
from nqg.calls import POSITIONAL, Call, JsonValue, calls_or_none
from nqg.errors import SettingsError
from nqg.web.messages import Text
from nqg.web.middleware import HTTPError, Limits
from nqg.web.service import Question, Served, Service

EVENT_STREAM = "text/event-stream"
TOOL_CALLS, STOP = "tool_calls", "stop"

# Described by docs/serving.md; the document of the API has nqg's own routes.
chat = APIRouter(include_in_schema=False)


class ChatPart(BaseModel):
    """What clients send beyond what is needed here (temperature, seed, …) is ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)


class ContentPart(ChatPart):
    """A part of a message; only text can be read."""

    type: str
    text: Text | None = None


class ChatMessage(ChatPart):
    """A message of the system, the user, the assistant or a tool."""

    role: str
    content: Text | list[ContentPart] | None = None


class Function(ChatPart):
    """A function that the client offers, with its JSON Schema."""

    name: str
    parameters: dict[str, Any] | None = None


class ChatTool(ChatPart):
    """Something that the client can call; only functions are known here."""

    type: str
    function: Function | None = None


class StreamOptions(ChatPart):
    """Whether the tokens are counted in a chunk of their own."""

    include_usage: bool | None = None


class ChatRequest(ChatPart):
    """What is read of a request for a completion."""

    messages: list[ChatMessage]
    tools: list[ChatTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ChatTool | None = None
    parallel_tool_calls: bool | None = None
    n: Literal[1] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    def sentence(self) -> str:
        """The text of the last message of the user."""
        for number in range(len(self.messages) - 1, -1, -1):
            message = self.messages[number]
            if message.role == "user":
                break
        else:
            raise HTTPError(422, "messages: expected one with the role 'user'")
        if isinstance(message.content, str):
            return message.content
        texts = []
        for part in message.content or ():
            if part.type != "text" or part.text is None:
                raise HTTPError(
                    422,
                    f"messages.{number}.content: expected text, found '{part.type[:80]}'",
                )
            texts.append(part.text)
        return "\n".join(texts)

    @property
    def has_results(self) -> bool:
        """Whether the functions were called already, and the client wants to hear of it."""
        return self.messages[-1].role in ("tool", "function")

    def functions(self) -> dict[str, Function] | None:
        """The functions that may be called, by name; None where any may."""
        offered: dict[str, Function] = {}
        for tool in self.tools or ():
            if tool.function is not None:
                offered[tool.function.name] = tool.function
        # A tool that has to be used leaves out the others.
        if isinstance(self.tool_choice, ChatTool) and self.tool_choice.function:
            chosen = self.tool_choice.function
            return {chosen.name: offered.get(chosen.name, chosen)}
        return None if self.tools is None else offered


@dataclass(frozen=True, slots=True)
class Reply:
    """The calls or the text that answer a request; `reason` says why there are no calls."""

    answer: Answer
    calls: tuple[Call, ...] = ()
    text: str = ""
    reason: str = ""

    @classmethod
    def to(cls, request: ChatRequest, answer: Answer) -> Reply:
        if answer.target is None:
            return cls(answer, reason=f"abstained: {answer.reason}")
        calls = calls_or_none(answer.target)
        # Queries, and whatever else is not a call, are an answer as well.
        if calls is None:
            return cls(answer, text=answer.target)
        if request.tool_choice == "none":
            return cls(answer, reason="no call: tool_choice is 'none'")
        if request.parallel_tool_calls is False and len(calls) > 1:
            reason = (
                f"no call: {len(calls)} are needed, and parallel_tool_calls is false"
            )
            return cls(answer, reason=reason)
        functions = request.functions()
        if functions is None:
            return cls(answer, calls)
        for call in calls:
            if call.name not in functions:
                offered = ", ".join(functions) or "nothing"
                reason = f"no call: '{call.name}' is not among the tools: {offered}"
                return cls(answer, reason=reason)
        named = [_named(call, functions[call.name]) for call in calls]
        return cls(answer, tuple(named))

    @property
    def finish_reason(self) -> str:
        return TOOL_CALLS if self.calls else STOP

    def tool_calls(self) -> list[dict[str, Any]]:
        written = []
        for call in self.calls:
            values = call.to_json()
            arguments = cast(dict[str, JsonValue], values["arguments"])
            # Only names are known to OpenAI's form.
            if POSITIONAL in values:
                arguments[POSITIONAL] = values[POSITIONAL]
            function = {
                "name": call.name,
                "arguments": json.dumps(arguments, ensure_ascii=False),
            }
            name = f"call_{uuid.uuid4().hex}"
            written.append({"id": name, "type": "function", "function": function})
        return written

    def usage(self) -> dict[str, int]:
        """Words, which are what nqg counts in place of tokens."""
        read = len(self.answer.source_tokens)
        written = len((self.answer.target or self.reason).split())
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }

    def extension(self) -> dict[str, Any]:
        """What OpenAI's form has no field for."""
        answer = self.answer
        judged = answer if answer.confidence is not None else answer.first
        return {
            "program": answer.target,
            "confidence": judged.confidence,
            "probability": judged.probability,
            "answered_by": answer.answered_by,
            "reason": self.reason or answer.reason,
            "corrections": list(map(str, answer.all_corrections)),
        }

    def completion(self, model: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if self.calls:
            message["tool_calls"] = self.tool_calls()
        else:
            message["content"] = self.text or self.reason
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self.finish_reason,
        }
        return {
            **_head(model, "chat.completion"),
            "choices": [choice],
            "usage": self.usage(),
            "nqg": self.extension(),
        }

    def chunks(self, model: str, include_usage: bool) -> Iterator[dict[str, Any]]:
        """The same in pieces: the role, each call or the text, and why it ends."""
        head = _head(model, "chat.completion.chunk")
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        for index, written in enumerate(self.tool_calls()):
            deltas.append({"tool_calls": [{"index": index, **written}]})
        if not self.calls:
            deltas.append({"content": self.text or self.reason})
        for delta in deltas:
            yield {**head, "choices": [_choice(delta, None)]}
        last = [_choice({}, self.finish_reason)]
        yield {**head, "choices": last, "nqg": self.extension()}
        if include_usage:
            yield {**head, "choices": [], "usage": self.usage()}


def _named(call: Call, function: Function) -> Call:
    """The call, its positional arguments named by the parameters of the function's schema."""
    properties = (function.parameters or {}).get("properties")
    if not isinstance(properties, dict):
        return call
    return call.with_names(list(properties))


def _choice(delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {
        "index": 0,
        "delta": delta,
        "logprobs": None,
        "finish_reason": finish_reason,
    }


def _head(model: str, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
    }


async def events(chunks: Sequence[dict[str, Any]]) -> AsyncIterator[str]:
    for chunk in chunks:
        yield f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
    yield "data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class PassOn:
    """The server that chats are passed on to, which whoever starts nqg chooses."""

    address: str
    model: str | None = None
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        try:
            url = httpx.URL(self.address)
        except httpx.InvalidURL as error:
            raise SettingsError(f"--pass-on '{self.address}': {error}") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise SettingsError(
                f"--pass-on is '{self.address}'; expected the address of an "
                "OpenAI-compatible server, such as http://localhost:11434/v1"
            )

    @property
    def completions(self) -> str:
        return f"{self.address.rstrip('/')}/chat/completions"


class Forwarder:
    """Asks another server; neither the client's headers nor its token go there."""

    def __init__(self, pass_on: PassOn, limits: Limits) -> None:
        self._pass_on, self._limits = pass_on, limits
        headers = {"Authorization": f"Bearer {pass_on.key}"} if pass_on.key else {}
        # The environment may name proxies and passwords that are meant for others.
        self._client = httpx.AsyncClient(
            headers=headers, timeout=limits.answer_timeout, trust_env=False
        )

    async def __aenter__(self) -> Forwarder:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def response(self, body: dict[str, Any], reply: Reply) -> Response:
        """The other server's answer: as it comes if it is a stream, else with the reason."""
        if self._pass_on.model is not None:
            body = {**body, "model": self._pass_on.model}
        async with AsyncExitStack() as stack:
            try:
                request = self._client.build_request(
                    "POST", self._pass_on.completions, json=body
                )
                answered = await self._client.send(request, stream=True)
                stack.push_async_callback(answered.aclose)
                if answered.status_code != 200:
                    raise self._error(reply, f"status {answered.status_code}")
                kind = answered.headers.get("content-type", "").partition(";")[0]
                if kind == EVENT_STREAM:
                    # The stream closes the connection when it ends, or nobody reads it any more.
                    rest = stack.pop_all()
                    return StreamingResponse(
                        self._relayed(answered, rest), media_type=EVENT_STREAM
                    )
                content = b"".join([part async for part in self._limited(answered)])
                completion = json.loads(content)
                if not isinstance(completion, dict):
                    raise self._error(reply, "an answer that is not an object")
                extension = {**reply.extension(), "passed_on": True}
                return JSONResponse({**completion, "nqg": extension})
            except (httpx.HTTPError, ValueError, RecursionError) as error:
                raise self._error(reply, type(error).__name__) from error

    async def _relayed(
        self, answered: httpx.Response, stack: AsyncExitStack
    ) -> AsyncIterator[bytes]:
        async with stack:
            async for part in self._limited(answered):
                yield part

    async def _limited(self, answered: httpx.Response) -> AsyncIterator[bytes]:
        size = 0
        async for part in answered.aiter_bytes():
            size += len(part)
            if size > self._limits.body_bytes:
                raise httpx.DecodingError("too large")
            yield part

    def _error(self, reply: Reply, problem: str) -> HTTPError:
        # Whoever asks may not know the other server, so its address is left out.
        return HTTPError(
            502, f"{reply.reason}; the server that it was passed on to: {problem}"
        )


async def _reply(asked: ChatRequest, service: Service) -> Reply:
    sentence = asked.sentence()
    if asked.has_results:
        # Else the same sentence would be answered with the same calls, for ever.
        reason = "no call: the functions were called, and nqg writes nothing but calls"
        return Reply(Answer(sentence), reason=reason)
    # People write long messages to language models: those are no error here.
    try:
        service.limits.check_length(sentence)
    except HTTPError as error:
        return Reply(Answer(sentence), reason=f"abstained: {error}")
    explained = await service.explained(Question(sentence))
    return Reply.to(asked, explained.answer)


@chat.post("/v1/chat/completions")
async def completions(
    asked: ChatRequest, request: Request, service: Served
) -> Response:
    reply = await _reply(asked, service)
    forwarder: Forwarder | None = request.app.state.forwarder
    if reply.reason and forwarder:
        return await forwarder.response(await request.json(), reply)
    if not asked.stream:
        return JSONResponse(reply.completion(service.name))
    options = asked.stream_options or StreamOptions()
    chunks = list(reply.chunks(service.name, bool(options.include_usage)))
    return StreamingResponse(events(chunks), media_type=EVENT_STREAM)


@chat.get("/v1/models")
async def models(service: Served) -> dict[str, Any]:
    model = {"id": service.name, "object": "model", "created": 0, "owned_by": "nqg"}
    return {"object": "list", "data": [model]}
