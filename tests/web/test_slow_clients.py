"""Slow clients, behind a real socket: they are cut off, and everybody else is served."""

from __future__ import annotations

import http.client
import json
import select
import socket
import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest

from nqg.errors import NqgError
from nqg.inference.parser import Parser
from nqg.web.app import Server, bound_socket
from nqg.web.middleware import Limits
from nqg.web.service import Explained, Question, Service
from web_service import running

SHORT = Limits(client_timeout=0.2)


def connected(server: Server) -> socket.socket:
    address = urlsplit(server.address)
    return socket.create_connection((address.hostname, address.port), timeout=30)


def asked(server: Server, sentence: str = "run twice") -> dict[str, object]:
    address = urlsplit(server.address)
    connection = http.client.HTTPConnection(
        address.hostname or "", address.port, timeout=30
    )
    body = json.dumps({"sentence": sentence})
    connection.request("POST", "/api/parse", body, {"Content-Type": "application/json"})
    answer: dict[str, object] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def rest(connection: socket.socket) -> bytes:
    """Everything until the server hangs up."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize(
    "head", [b"", b"GET / HTTP/1.1\r\nHost: loc"], ids=["nothing", "half a head"]
)
def test_a_client_that_never_finishes_its_request_does_not_keep_others_waiting(
    parser: Parser, head: bytes
) -> None:
    with running(parser, SHORT) as server, connected(server) as slow:
        slow.sendall(head)
        assert asked(server)["target"] == "R R"


def test_a_connection_on_which_nothing_more_is_asked_is_closed(parser: Parser) -> None:
    with running(parser, SHORT) as server, connected(server) as idle:
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert rest(idle).count(b"HTTP/1.1 200 OK") == 1


def test_a_body_that_does_not_arrive_is_a_408(parser: Parser) -> None:
    head = b"POST /api/parse HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    with running(parser, SHORT) as server, connected(server) as slow:
        slow.sendall(head)
        received = rest(slow)
    assert received.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not arrive within 0.2 s" in received


def test_a_head_that_is_too_large_is_refused(parser: Parser) -> None:
    with running(parser, SHORT) as server, connected(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000)
        assert b"400" in rest(client).split(b"\r\n")[0]


@pytest.mark.skipif(
    not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux drops such clients"
)
def test_a_client_that_does_not_take_its_answer_is_cut_off(parser: Parser) -> None:
    body = json.dumps(
        {"text": f"{'fly and ' * 40} run\n" * 2000}
    ).encode()  # whose answer is more than buffers hold
    head = b"POST /api/batch HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    hung_up = select.poll()
    with running(parser, SHORT) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        slow.connect((urlsplit(server.address).hostname, urlsplit(server.address).port))
        slow.sendall(head % len(body) + body)
        hung_up.register(slow, 0)
        while not hung_up.poll(200):
            slow.send(
                b"x"
            )  # which a server that has forgotten the connection answers with a reset
        assert asked(server)["target"] == "R R"


def test_an_orderly_end_answers_what_is_under_way(
    parser: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    original = Service.explain_all

    def slowly(self: Service, questions: Sequence[Question]) -> list[Explained]:
        begun.set()
        assert may_go_on.wait(30)
        return original(self, questions)

    monkeypatch.setattr(Service, "explain_all", slowly)
    answers: list[dict[str, object]] = []
    with running(parser, examples=()) as server:
        client = threading.Thread(target=lambda: answers.append(asked(server)))
        client.start()
        assert begun.wait(30)
        server.stop()
        may_go_on.set()
    client.join()
    assert [answer["target"] for answer in answers] == ["R R"]


def test_a_port_in_use_is_an_error_with_a_way_out(parser: Parser) -> None:
    with running(parser) as server:
        port = urlsplit(server.address).port or 0
        with pytest.raises(
            NqgError,
            match=rf"cannot listen at 127.0.0.1:{port} .*choose another --host or --port",
        ):
            bound_socket("127.0.0.1", port)
