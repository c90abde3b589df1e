"""The routes of the page and of its API, and how uvicorn serves them.

uvicorn closes idle connections, the kernel those whose client does not take its answer, and
`BodyLimitMiddleware` gives bodies a time limit. Nothing here bounds the time for a request's head:
that is left to a proxy in front.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

import uvicorn
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from nqg import __version__
from nqg.errors import DamagedModel, NqgError
from nqg.web.chat import Forwarder, PassOn, chat
from nqg.web.messages import (
    BatchRequest,
    BatchResponse,
    CheckResponse,
    ErrorResponse,
    ExampleRequest,
    ExampleResponse,
    ModelResponse,
    Pair,
    ParseRequest,
    ParseResponse,
    RulesResponse,
    SampleAnswer,
    SuggestedSentence,
    SuggestionsResponse,
)
from nqg.web.middleware import (
    COOKIE,
    Access,
    AuthMiddleware,
    BodyLimitMiddleware,
    HTTPError,
    Limits,
    error_body,
)
from nqg.web.render import style
from nqg.web.service import (
    CurrentService,
    Question,
    RuleOrder,
    Served,
    Service,
    ServiceMiddleware,
)

STATIC = Path(__file__).parent / "static"
BACKLOG = 512  # connections that the system keeps until we take them
LOADING_TIMEOUT = 120  # seconds in which a worker must have loaded the model
# Bytes that the system keeps for a client; it would grow to megabytes for those that do not read.
SEND_BUFFER = 1 << 17
ERROR_TEXTS = {
    400: "Malformed request",
    401: "The token is missing or wrong",
    403: "From a page of another site",
    404: "Not offered by this server",
    408: "The body took too long",
    413: "Too large",
    415: "Not JSON in UTF-8",
    421: "For another host",
    422: "Understood, but not acceptable",
    431: "The head is too large",
    503: "Too busy; see Retry-After",
}
ERROR_STATUS: dict[int | str, dict[str, Any]] = {}
for _status, _text in ERROR_TEXTS.items():
    ERROR_STATUS[_status] = {"model": ErrorResponse, "description": _text}
api = APIRouter()
pages = APIRouter(include_in_schema=False)


@dataclass
class Reload:
    """Loads the model again when it is requested, beside the one that serves, so that no request
    and no connection is lost.
    """

    load: Callable[[], Service]
    report: Callable[[str], None]
    requested: asyncio.Event = field(default_factory=asyncio.Event)

    def on_signal(self) -> None:
        """Take SIGHUP as the request, from now on: a model may still be loading."""
        # Uvicorn's loop looks around ten times a second, so it sees the event soon.
        signal.signal(signal.SIGHUP, lambda *_: self.requested.set())

    async def serve(self, current: CurrentService) -> None:
        while True:
            await self.requested.wait()
            self.requested.clear()
            before = current.service.digest
            # Whatever is wrong with the new model, the one that serves goes on.
            try:
                await current.replace(self.load)
            except Exception as error:
                self.report(f"the model is not loaded again: {error}")
            else:
                digest = current.service.digest
                unchanged = ""
                if digest == before:
                    unchanged = " (unchanged)"
                self.report(
                    f"process {os.getpid()} loaded the model again: {digest}{unchanged}"
                )


def create_app(
    service: Service,
    access: Access | None = None,
    examples: Sequence[str] = (),
    pass_on: PassOn | None = None,
    reload: Reload | None = None,
) -> FastAPI:
    """The application that serves a model to those whom `access` lets in; the page shows which
    rules `examples` use. Chats on which the model abstains go to the server of `pass_on`. Where
    `reload` is requested, another service takes over.
    """
    current = CurrentService(service, examples)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await current.start()
        async with AsyncExitStack() as stack:
            if reload:
                reloading = asyncio.create_task(reload.serve(current))
                stack.callback(reloading.cancel)
            app.state.forwarder = None
            if pass_on:
                forwarder = Forwarder(pass_on, service.limits)
                app.state.forwarder = await stack.enter_async_context(forwarder)
            yield
        await current.stop()

    # FastAPI's own documentation pages load scripts from elsewhere; ours is /docs below.
    app = FastAPI(
        title="nqg",
        version=__version__,
        description="Sentences to programs, with the derivation behind every answer.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # An unknown path is a 404 in JSON, with a slash at its end as well.
        redirect_slashes=False,
        responses=ERROR_STATUS,
        exception_handlers={
            NqgError: our_error,
            RequestValidationError: validation_error,
            HTTPException: framework_error,
            Exception: unforeseen_error,
        },
    )
    access = access or Access()
    app.state.access = access
    app.add_middleware(ServiceMiddleware, current=current)
    app.add_middleware(BodyLimitMiddleware, limits=service.limits)
    app.add_middleware(AuthMiddleware, access=access)
    app.include_router(api)
    app.include_router(chat)
    app.include_router(pages)
    app.mount("/static", StaticFiles(directory=STATIC))
    return app


@api.post("/api/parse", summary="The program of a sentence")
async def parse(request: ParseRequest, service: Served) -> ParseResponse:
    # What is drawn has to be explained first.
    explain = request.explain or request.drawings
    question = Question(request.sentence, request.readings, explain, request.exact)
    explained = await service.explained(question)
    return ParseResponse.of(explained.answer, request, explained.gaps)


@api.post(
    "/api/batch", summary="The programs of many sentences", response_model=BatchResponse
)
async def batch(request: BatchRequest, service: Served) -> Response:
    # In a thread, because thousands of sentences take a while to be counted.
    lines = await asyncio.to_thread(request.lines, service.limits)
    parts = service.answers([line.sentence for line in lines])
    # What is refused is refused before the answer begins.
    first = await anext(parts, None)
    return StreamingResponse(
        BatchResponse.written(lines, first, parts), media_type="application/json"
    )


SearchText = Annotated[str, Query(max_length=200)]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]
AtMost = Annotated[int, Query(ge=1, le=100)]
ByHand = Annotated[bool, Query(description="Only those written by hand.")]


@api.get("/api/rules", summary="The grammar, searched")
async def rules(
    service: Served,
    search: SearchText = "",
    order: RuleOrder = "grammar",
    offset: Offset = 0,
    limit: AtMost = 50,
    by_hand: ByHand = False,
) -> RulesResponse:
    return service.usage.search(
        search, order, offset, min(limit, service.limits.rules), by_hand
    )


@api.get("/api/suggestions", summary="Which sentences of the log to annotate next")
async def suggestions(service: Served, limit: AtMost = 20) -> SuggestionsResponse:
    suggested = await service.suggested(limit)
    return SuggestionsResponse(suggestions=list(map(SuggestedSentence.of, suggested)))


@api.post("/api/check", summary="Whether a pair may be added to the training file")
async def check(request: Pair, service: Served) -> CheckResponse:
    found = await service.check(request.example())
    return CheckResponse(problem=found.problem, new=found.new)


@api.post("/api/examples", summary="Add a pair to the training file")
async def add_example(request: ExampleRequest, service: Served) -> ExampleResponse:
    file = await service.accept(request.example(), allows_new=request.allows_new)
    return ExampleResponse(file=str(file))


@api.post("/api/undo", summary="Take back the pair that was added last")
async def undo(request: Pair, service: Served) -> ExampleResponse:
    return ExampleResponse(file=str(await service.take_back(request.example())))


@api.get("/api/model", summary="What is being served")
async def model(service: Served) -> ModelResponse:
    served = service.parser.model
    data = served.provenance.data
    samples = [
        SampleAnswer(sentence=sentence, target=target)
        for sentence, target in service.suggestions.items()
    ]
    limits = service.limits
    rules = len(service.parser.grammar)
    return ModelResponse(
        name=service.name,
        digest=service.digest,
        rules=rules,
        by_hand=len(served.by_hand),
        examples=data.examples if data else None,
        has_target_grammar=served.target_grammar is not None,
        has_fallback=service.has_fallback,
        has_review=service.review is not None,
        suggestions=samples,
        most_tokens=limits.tokens,
        most_sentences=limits.sentences,
        most_bytes=limits.body_bytes,
    )


@pages.get("/")
async def page() -> FileResponse:
    return FileResponse(STATIC / "index.html")


@pages.get("/docs")
async def docs() -> FileResponse:
    return FileResponse(STATIC / "docs.html")


@pages.get("/health")
async def health(service: Served) -> dict[str, str]:
    trouble = service.trouble()
    if trouble:
        raise HTTPError(503, trouble)
    return {"status": "ok"}


@pages.get("/static/pictures.css")
async def pictures() -> Response:
    return Response(style(), media_type="text/css")


@pages.get("/login")
async def login() -> FileResponse:
    return FileResponse(STATIC / "login.html")


@pages.post("/login")
async def log_in(request: Request) -> Response:
    access: Access = request.app.state.access
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    if not access.is_token(form.get("token", [""])[0].strip()):
        page = (STATIC / "login.html").read_text("utf-8")
        return HTMLResponse(
            page.replace('role="alert">', 'role="alert">This is not the token.'), 401
        )
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        COOKIE, access.session, httponly=True, samesite="strict", path="/"
    )
    return answer


async def our_error(request: Request, error: NqgError) -> Response:
    path = request.url.path
    if isinstance(error, HTTPError):
        return error.response(path)
    # Nobody who asks can do anything about a damaged model.
    status = 500 if isinstance(error, DamagedModel) else 422
    return HTTPError(status, str(error)).response(path)


async def validation_error(request: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        status, reason = 400, f"the body is not JSON: {first['ctx']['error']}"
    else:
        # The keys that lead to the value, but for the part of the request that has it.
        keys = [str(key) for key in first["loc"] if key not in ("body", "query")]
        field = ".".join(keys) or "the body"
        status, reason = 422, f"{field[:80]}: {first['msg']}"
    reason = reason.encode("utf-8", "replace").decode()
    return HTTPError(status, reason).response(request.url.path)


async def framework_error(request: Request, error: HTTPException) -> Response:
    status = error.status_code
    body = error_body(str(error.detail), status, request.url.path)
    return JSONResponse(body, status, error.headers)


async def unforeseen_error(request: Request, error: Exception) -> Response:
    reason = "the server failed on this request; its log says why"
    return JSONResponse(error_body(reason, 500, request.url.path), 500)


def server_config(
    app: FastAPI | Callable[[], FastAPI], limits: Limits, workers: int = 1
) -> uvicorn.Config:
    """How uvicorn serves an application or, in several workers, what each of them makes its own
    with.
    """
    # Headers of proxies are not trusted, and the server does not name itself.
    return uvicorn.Config(
        app,
        factory=not isinstance(app, FastAPI),
        workers=workers,
        http="h11",
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        # Clients that know when an idle connection ends do not send into its end.
        headers=[("Keep-Alive", f"timeout={int(limits.client_timeout) - 1}")],
        proxy_headers=False,
        timeout_keep_alive=int(limits.client_timeout),
        timeout_graceful_shutdown=limits.stop_timeout,
        timeout_worker_healthcheck=LOADING_TIMEOUT,
        h11_max_incomplete_event_size=limits.head_bytes,
        backlog=BACKLOG,
    )


class Server:
    """A model at a socket that listens, in this process."""

    def __init__(
        self,
        service: Service,
        access: Access,
        examples: Sequence[str],
        bound: socket.socket,
        pass_on: PassOn | None = None,
        reload: Reload | None = None,
    ) -> None:
        self._socket = bound
        app = create_app(service, access, examples, pass_on, reload)
        self._server = uvicorn.Server(server_config(app, service.limits))

    @property
    def address(self) -> str:
        return address_of(self._socket)

    def run(self) -> None:
        """Serve until a signal says stop; requests under way are finished."""
        self._server.run([self._socket])

    def stop(self) -> None:
        """May be called from a signal handler or another thread."""
        self._server.should_exit = True


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    # An IPv6 address stands in brackets.
    if ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"


def bound_socket(
    host: str, port: int, send_timeout: float = Limits().client_timeout
) -> socket.socket:
    """A socket that listens; a client that takes nothing of what was sent for `send_timeout`
    seconds is dropped.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        with ExitStack() as on_failure:
            bound = on_failure.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            # Only Linux has it; connections inherit it.
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                milliseconds = int(1000 * send_timeout)
                bound.setsockopt(
                    socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds
                )
            bound.bind(address)
            bound.listen(BACKLOG)
            on_failure.pop_all()
    except OSError as error:
        raise NqgError(
            f"cannot listen at {host}:{port} ({error.strerror}); choose another --host or --port"
        ) from error
    return bound
