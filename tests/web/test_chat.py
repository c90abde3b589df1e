"""Chats in OpenAI's form: its own client gets calls of functions, from a server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from openai import APIStatusError, AuthenticationError, InternalServerError, OpenAI
from starlette.testclient import TestClient

from local_server import listening
from nqg.answers import Answer
from nqg.data.example import Example
from nqg.errors import SettingsError
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.web.app import Server, bound_socket, create_app
from nqg.web.chat import ChatRequest, PassOn, Reply
from nqg.web.middleware import Access, Limits
from nqg.web.service import Service

GRAMMAR = """
kitchen ### kitchen
wake me at seven ### alarm ( time = " 7:00 " , repeat = true )
lights off in the NT_1 ### lights ( NT_1 , off )
the NT_1 ### room . NT_1
NT_1 and NT_2 ### NT_1 ; NT_2
"""
TOKEN = "a token of enough letters"
WAKE = "wake me at seven"
LIGHTS = "lights off in the kitchen"
ALARM_TOOL = {"type": "function", "function": {"name": "alarm"}}
LIGHTS_TOOL = {
    "type": "function",
    "function": {
        "name": "lights",
        "description": "Switches the lights of a room.",
        "parameters": {
            "type": "object",
            "properties": {"room": {"type": "string"}, "state": {"type": "string"}},
        },
    },
}


@pytest.fixture(scope="module")
def caller() -> Parser:
    tiny = ModelSettings(
        dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
    )
    training = TrainingSettings(steps=1, batch_size=1)
    examples = [Example(LIGHTS, "lights ( kitchen , off )")]
    return fit_parser(
        Grammar.parse(GRAMMAR), examples, model=tiny, training=training, device="cpu"
    )


@contextmanager
def chatting(
    parser: Parser,
    *,
    token: str | None = None,
    key: str = "any",
    pass_on: PassOn | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> Iterator[OpenAI]:
    """OpenAI's client of a server on this machine; it does not ask again after an error."""
    with ExitStack() as stack:
        bound = stack.enter_context(bound_socket("127.0.0.1", 0))
        service = Service("home", parser, limits=limits)
        server = Server(service, Access(token=token), (), bound, pass_on)
        thread = threading.Thread(target=server.run)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.stop)
        address = f"{server.address}/v1"
        client = OpenAI(base_url=address, api_key=key, max_retries=0)
        yield stack.enter_context(client)


@pytest.fixture(scope="module")
def client(caller: Parser) -> Iterator[OpenAI]:
    with chatting(caller) as client:
        yield client


def ask(client: OpenAI, sentence: str, **options: Any) -> Any:
    messages = [
        {"role": "system", "content": "You are a home."},
        {"role": "user", "content": sentence},
    ]
    asked: Any = {"model": "home", "messages": messages, **options}
    return client.chat.completions.create(**asked)


def calls_of(completion: Any) -> list[tuple[str, Any]]:
    return [
        (call.function.name, json.loads(call.function.arguments))
        for call in completion.choices[0].message.tool_calls or []
    ]


def test_a_sentence_becomes_a_tool_call(client: OpenAI) -> None:
    completion = ask(client, WAKE, temperature=0, seed=7)
    (choice,) = completion.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert call.id.startswith("call_")
    assert calls_of(completion) == [("alarm", {"time": "7:00", "repeat": True})]
    assert completion.model == "home"
    assert completion.usage.prompt_tokens == 4
    assert completion.nqg["program"] == 'alarm ( time = " 7:00 " , repeat = true )'
    assert completion.nqg["probability"] == pytest.approx(1)
    assert completion.nqg["confidence"] is None


def test_a_sequence_becomes_several_tool_calls(client: OpenAI) -> None:
    completion = ask(client, f"{WAKE} and {LIGHTS}")
    assert [name for name, _ in calls_of(completion)] == ["alarm", "lights"]
    calls = completion.choices[0].message.tool_calls
    assert len({call.id for call in calls}) == 2


def test_positional_arguments_have_the_names_of_the_tool(client: OpenAI) -> None:
    without = ask(client, LIGHTS)
    named = ask(client, LIGHTS, tools=[LIGHTS_TOOL])
    assert calls_of(without) == [("lights", {"positional": ["kitchen", "off"]})]
    assert calls_of(named) == [("lights", {"room": "kitchen", "state": "off"})]


def test_an_abstention_is_a_message_that_says_why(client: OpenAI) -> None:
    completion = ask(client, "sing a song")
    (choice,) = completion.choices
    assert choice.finish_reason == "stop"
    assert choice.message.tool_calls is None
    assert choice.message.content == (
        "abstained: no derivation: no rule knows 'sing', 'a' and 'song'"
    )
    assert completion.nqg["program"] is None


@pytest.mark.parametrize(
    ("sentence", "options", "reason"),
    [
        (LIGHTS, {"tools": [ALARM_TOOL]}, "no call: 'lights' is not among the tools: alarm"),
        (WAKE, {"tools": []}, "no call: 'alarm' is not among the tools: nothing"),
        (WAKE, {"tool_choice": "none"}, "no call: tool_choice is 'none'"),
        (
            WAKE,
            {"tools": [ALARM_TOOL, LIGHTS_TOOL], "tool_choice": LIGHTS_TOOL},
            "no call: 'alarm' is not among the tools: lights",
        ),
        (
            f"{WAKE} and {LIGHTS}",
            {"parallel_tool_calls": False},
            "no call: 2 are needed, and parallel_tool_calls is false",
        ),
        ("walk " * 101, {}, "abstained: the sentence has 101 tokens; at most 100 are read"),
    ],
)  # fmt: skip
def test_a_call_that_the_request_does_not_allow_is_not_returned(
    client: OpenAI, sentence: str, options: dict[str, Any], reason: str
) -> None:
    (choice,) = ask(client, sentence, **options).choices
    assert (choice.finish_reason, choice.message.content) == ("stop", reason)
    assert choice.message.tool_calls is None


def test_a_program_that_is_not_a_call_is_the_text_of_the_message(
    client: OpenAI,
) -> None:
    (choice,) = ask(client, "the kitchen").choices
    assert (choice.finish_reason, choice.message.content) == ("stop", "room . kitchen")


def test_results_of_functions_are_not_answered_with_the_same_calls(
    client: OpenAI,
) -> None:
    messages: Any = [
        {"role": "user", "content": WAKE},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    completion = client.chat.completions.create(model="home", messages=messages)
    assert completion.choices[0].message.tool_calls is None
    assert "the functions were called" in (completion.choices[0].message.content or "")


def test_the_text_of_parts_is_read(client: OpenAI) -> None:
    parts: Any = [{"type": "text", "text": WAKE}]
    messages: Any = [{"role": "user", "content": parts}]
    completion = client.chat.completions.create(model="home", messages=messages)
    assert [name for name, _ in calls_of(completion)] == ["alarm"]


def test_a_stream_has_the_calls_in_chunks(client: OpenAI) -> None:
    usage = {"include_usage": True}
    chunks = list(
        ask(client, f"{WAKE} and {LIGHTS}", stream=True, stream_options=usage)
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    deltas = [
        call
        for chunk in chunks
        for choice in chunk.choices
        for call in choice.delta.tool_calls or ()
    ]
    assert [(call.index, call.function.name) for call in deltas] == [
        (0, "alarm"),
        (1, "lights"),
    ]
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    assert "confidence" in chunks[-2].nqg
    assert chunks[-1].usage.prompt_tokens == 10
    assert len({chunk.id for chunk in chunks}) == 1


def test_openai_s_own_reader_of_streams_puts_the_calls_together(client: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": WAKE}]
    with client.chat.completions.stream(model="home", messages=messages) as stream:
        for _ in stream:
            pass
        completion = stream.get_final_completion()
    assert calls_of(completion) == [("alarm", {"time": "7:00", "repeat": True})]


def test_an_abstention_is_streamed_too(client: OpenAI) -> None:
    chunks = list(ask(client, "sing", stream=True))
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(texts) == "abstained: no derivation: no rule knows 'sing'"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_models_are_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["home"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 422, "messages: Field required"),
        ({"messages": []}, 422, "messages: expected one with the role 'user'"),
        ({"messages": [{"role": "system", "content": "x"}]}, 422, "the role 'user'"),
        ({"messages": [{"role": "user", "content": 7}]}, 422, "messages.0.content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            422,
            "messages.0.content: expected text, found 'image_url'",
        ),
        ({"messages": [{"role": "user", "content": "x"}], "n": 2}, 422, "n: "),
        ({"messages": [{"role": "user", "content": "x" * 2_000_000}]}, 413, "bytes"),
    ],
)
def test_a_request_that_cannot_be_read_is_an_error_in_openai_s_form(
    client: OpenAI, body: dict[str, Any], status: int, message: str
) -> None:
    with pytest.raises(APIStatusError) as caught:
        client.post("/chat/completions", body=body, cast_to=object)
    assert caught.value.status_code == status
    error: Any = caught.value.body
    assert error["type"] == "invalid_request_error"
    assert message in error["message"]


def test_text_that_is_not_json_and_unknown_paths_are_errors_in_openai_s_form(
    caller: Parser,
) -> None:
    app = create_app(Service("home", caller))
    with TestClient(app, base_url="http://localhost") as client:
        typed = {"Content-Type": "application/json"}
        path = "/v1/chat/completions"
        answers = [
            (400, client.post(path, content=b"{", headers=typed)),
            (415, client.post(path, content=b"\xff", headers=typed)),
            (415, client.post(path, content=b"{}")),
            (404, client.get("/v1/engines")),
            (405, client.get(path)),
        ]
        for status, answer in answers:
            assert answer.status_code == status
            error = answer.json()["error"]
            assert error["type"] == "invalid_request_error"
            assert error["message"]


def test_the_key_is_the_token_of_the_server(caller: Parser) -> None:
    with chatting(caller, token=TOKEN, key=TOKEN) as client:
        assert calls_of(ask(client, WAKE))
        with pytest.raises(AuthenticationError) as caught:
            ask(client.with_options(api_key="another"), WAKE)
    error: Any = caught.value.body
    assert error["code"] == "invalid_api_key"


def test_a_page_of_another_site_cannot_chat(caller: Parser) -> None:
    app = create_app(Service("home", caller))
    with TestClient(app, base_url="http://localhost") as client:
        answer = client.post(
            "/v1/chat/completions",
            json={"messages": [{"role": "user", "content": WAKE}]},
            headers={"Origin": "https://evil.example"},
        )
    assert answer.status_code == 403


# Passing on


@dataclass
class OtherServer:
    """A language model that was not trained: it says what it is told to, and keeps what it is asked."""

    content: bytes = b""
    kind: str = "application/json"
    status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    address: str = ""


@pytest.fixture
def other() -> Iterator[OtherServer]:
    server = OtherServer(json.dumps(completion_of("I can sing.")).encode())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            server.asked.append(json.loads(self.rfile.read(size)))
            server.headers.append(
                {name.lower(): text for name, text in self.headers.items()}
            )
            server.paths.append(self.path)
            self.send_response(server.status)
            self.send_header("Content-Type", server.kind)
            self.send_header("Content-Length", str(len(server.content)))
            self.end_headers()
            self.wfile.write(server.content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Tests keep quiet."""

    with listening(Handler) as port:
        server.address = f"http://127.0.0.1:{port}/v1"
        yield server


def completion_of(text: str) -> dict[str, Any]:
    answer = Answer("sing", text)
    request = ChatRequest.model_validate({"messages": []})
    return Reply.to(request, answer).completion("large")


def test_what_nqg_abstains_on_is_passed_on_without_the_token_of_the_client(
    caller: Parser, other: OtherServer
) -> None:
    pass_on = PassOn(f"{other.address}/", "large", "secret")
    with chatting(caller, token=TOKEN, key=TOKEN, pass_on=pass_on) as client:
        completion = ask(client, "sing a song", temperature=0.5)
    assert completion.choices[0].message.content == "I can sing."
    assert completion.nqg["passed_on"] is True
    assert completion.nqg["reason"].startswith("abstained: no derivation")
    (asked,), (headers,) = other.asked, other.headers
    assert other.paths == ["/v1/chat/completions"]
    assert (asked["model"], asked["temperature"]) == ("large", 0.5)
    assert headers["authorization"] == "Bearer secret"
    assert TOKEN not in str(headers)


def test_without_a_key_no_authorization_is_sent(
    caller: Parser, other: OtherServer
) -> None:
    with chatting(caller, key="mine", pass_on=PassOn(other.address)) as client:
        ask(client, "sing a song")
    assert "authorization" not in other.headers[0]
    assert other.asked[0]["model"] == "home"


def test_what_nqg_answers_is_not_passed_on(caller: Parser, other: OtherServer) -> None:
    with chatting(caller, pass_on=PassOn(other.address)) as client:
        assert calls_of(ask(client, WAKE))
    assert other.asked == []


def test_a_request_cannot_name_the_server_that_it_is_passed_on_to(
    caller: Parser, other: OtherServer
) -> None:
    with chatting(caller) as client:
        extra = {"pass_on": other.address, "base_url": other.address}
        completion = ask(client, "sing a song", extra_body=extra)
    assert completion.choices[0].finish_reason == "stop"
    assert other.asked == []


def test_a_stream_is_passed_on_as_it_comes(caller: Parser, other: OtherServer) -> None:
    request = ChatRequest.model_validate({"messages": []})
    reply = Reply.to(request, Answer("sing", "la la"))
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in reply.chunks("large", False)]
    other.content = "".join([*lines, "data: [DONE]\n\n"]).encode()
    other.kind = "text/event-stream; charset=utf-8"
    with chatting(caller, pass_on=PassOn(other.address)) as client:
        chunks = list(ask(client, "sing a song", stream=True))
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(texts) == "la la"
    assert other.asked[0]["stream"] is True


@pytest.mark.parametrize(
    ("content", "status", "problem"),
    [
        (b"{}", 401, "status 401"),
        (b"", 302, "status 302"),
        (b"no JSON", 200, "JSONDecodeError"),
        (b"[]", 200, "an answer that is not an object"),
        (b'{"a": NaN}', 200, "ValueError"),
        (b'"' + b"x" * 2000 + b'"', 200, "DecodingError"),
    ],
)
def test_a_server_that_fails_is_an_error_with_the_reason_of_the_abstention(
    caller: Parser, other: OtherServer, content: bytes, status: int, problem: str
) -> None:
    other.content, other.status = content, status
    limits = Limits(body_bytes=1000)
    with (
        chatting(caller, pass_on=PassOn(other.address), limits=limits) as client,
        pytest.raises(InternalServerError) as caught,
    ):
        ask(client, "sing a song")
    assert caught.value.status_code == 502
    error: Any = caught.value.body
    assert error["type"] == "server_error"
    assert error["message"].startswith("abstained: no derivation")
    assert error["message"].endswith(problem)
    assert other.address not in error["message"]


def test_a_server_that_is_not_there_is_an_error(caller: Parser) -> None:
    with bound_socket("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
    pass_on = PassOn(f"http://127.0.0.1:{port}/v1")
    with (
        chatting(caller, pass_on=pass_on) as client,
        pytest.raises(InternalServerError, match="ConnectError"),
    ):
        ask(client, "sing a song")


@pytest.mark.parametrize(
    "address", ["", "localhost", "ftp://x/v1", "http://", "http://x:y/v1"]
)
def test_an_address_that_is_not_one_of_http_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="--pass-on"):
        PassOn(address)


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(PassOn("http://localhost/v1", key="secret"))
