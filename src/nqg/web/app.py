"""The routes of the page and of its API, and the process that serves them.

uvicorn closes idle connections, the kernel those whose client does not take its answer, and `BodyLimitMiddleware` gives
bodies a time limit. Nothing here bounds the time for a request's head: that is left to a proxy in front.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import parse_qs

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from nqg import __version__
from nqg.errors import DamagedModel, NqgError
from nqg.grammar.pictures import style
from nqg.web.messages import (
    BatchRequest,
    BatchResponse,
    ErrorResponse,
    ModelResponse,
    ParseRequest,
    ParseResponse,
    RulesResponse,
)
from nqg.web.middleware import COOKIE, Access, AuthMiddleware, BodyLimitMiddleware, HTTPError
from nqg.web.service import Question, RuleOrder, Service

STATIC = Path(__file__).parent / "static"
BACKLOG = 512  # connections that the system keeps until we take them
SEND_BUFFER = 1 << 17  # bytes that the system keeps for a client; it would grow to megabytes for those that do not read
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorResponse, "description": "Malformed request"},
    401: {"model": ErrorResponse, "description": "The token is missing or wrong"},
    403: {"model": ErrorResponse, "description": "From a page of another site"},
    408: {"model": ErrorResponse, "description": "The body took too long"},
    413: {"model": ErrorResponse, "description": "Too large"},
    415: {"model": ErrorResponse, "description": "Not JSON in UTF-8"},
    421: {"model": ErrorResponse, "description": "For another host"},
    422: {"model": ErrorResponse, "description": "Understood, but not acceptable"},
    431: {"model": ErrorResponse, "description": "The head is too large"},
    503: {"model": ErrorResponse, "description": "Too busy; see Retry-After"},
}
api = APIRouter()
pages = APIRouter(include_in_schema=False)


def create_app(service: Service, access: Access = Access(), examples: Sequence[str] = ()) -> FastAPI:  # noqa: B008 (frozen)
    """The application that serves a model to those whom `access` lets in; the page shows which rules `examples` use."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start(examples)
        yield
        await service.stop()

    # FastAPI's own documentation pages load scripts from elsewhere; ours is /docs below.
    app = FastAPI(
        title="nqg",
        version=__version__,
        description="Sentences to programs, with the derivation behind every answer.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # an unknown path is a 404 in JSON, with a slash at its end as well
        responses=ERRORS,
        exception_handlers={
            NqgError: our_error,
            RequestValidationError: validation_error,
            HTTPException: framework_error,
            Exception: unforeseen_error,
        },
    )
    app.state.service, app.state.access = service, access
    app.add_middleware(BodyLimitMiddleware, limits=service.limits)
    app.add_middleware(AuthMiddleware, access=access)
    app.include_router(api)
    app.include_router(pages)
    app.mount("/static", StaticFiles(directory=STATIC))
    return app


async def service_of(request: Request) -> Service:
    return cast(Service, request.app.state.service)


Served = Annotated[Service, Depends(service_of)]


@api.post("/api/parse", summary="The program of a sentence")
async def parse(request: ParseRequest, service: Served) -> ParseResponse:
    found = await service.explained(Question(request.sentence, request.readings, request.explain, request.exact))
    return ParseResponse.of(found.answer, request.explain, found.gaps, found.geobase)


@api.post("/api/batch", summary="The programs of many sentences", response_model=BatchResponse)
async def batch(request: BatchRequest, service: Served) -> Response:
    lines = request.lines(service.limits)
    parts = service.answers([line.sentence for line in lines])
    first = await anext(parts, None)  # what is refused is refused before the answer begins
    return StreamingResponse(BatchResponse.written(lines, first, parts), media_type="application/json")


@api.get("/api/rules", summary="The grammar, searched")
async def rules(
    service: Served,
    search: Annotated[str, Query(max_length=200)] = "",
    order: RuleOrder = "grammar",
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> RulesResponse:
    return service.usage.search(search, order, offset, min(limit, service.limits.rules))


@api.get("/api/model", summary="What is being served")
async def model(service: Served) -> ModelResponse:
    return ModelResponse(
        name=service.name,
        rules=len(service.parser.grammar),
        has_target_grammar=service.parser.model.target_grammar is not None,
        has_fallback=service.has_fallback,
        suggestions=service.suggestions,
        most_tokens=service.limits.tokens,
        most_sentences=service.limits.sentences,
        most_bytes=service.limits.body_bytes,
    )


@pages.get("/")
async def page() -> FileResponse:
    return FileResponse(STATIC / "index.html")


@pages.get("/docs")
async def docs() -> FileResponse:
    return FileResponse(STATIC / "docs.html")


@pages.get("/health")
async def health(service: Served) -> dict[str, str]:
    if trouble := service.trouble():
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
        return FileResponse(STATIC / "login.html", 401)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(COOKIE, access.session, httponly=True, samesite="strict", path="/")
    return answer


async def our_error(request: Request, error: NqgError) -> Response:
    if isinstance(error, HTTPError):
        return error.response()
    return HTTPError(500 if isinstance(error, DamagedModel) else 422, str(error)).response()


async def validation_error(request: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        status, reason = 400, f"the body is not JSON: {first['ctx']['error']}"
    else:
        place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query")) or "the body"
        status, reason = 422, f"{place[:80]}: {first['msg']}"
    return HTTPError(status, reason.encode("utf-8", "replace").decode()).response()


async def framework_error(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)


async def unforeseen_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the server failed on this request; its log says why"}, 500)


class Server:
    """A model at an address; the socket is bound at once, so that a port in use is an error before anything starts."""

    def __init__(self, service: Service, access: Access, examples: Sequence[str], host: str, port: int) -> None:
        limits = service.limits
        self._socket = bound_socket(host, port, limits.client_timeout)
        config = uvicorn.Config(
            create_app(service, access, examples),
            http="h11",
            ws="none",
            lifespan="on",
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(limits.client_timeout),
            timeout_graceful_shutdown=int(limits.answer_timeout),
            h11_max_incomplete_event_size=limits.head_bytes,
            backlog=BACKLOG,
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self) -> None:
        """Serve until a signal says stop; requests under way are finished."""
        self._server.run([self._socket])

    def stop(self) -> None:
        """May be called from a signal handler or another thread."""
        self._server.should_exit = True


def bound_socket(host: str, port: int, send_timeout: float) -> socket.socket:
    """A socket that listens; a client that takes nothing of what was sent for `send_timeout` seconds is dropped."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as on_failure:
            bound = on_failure.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * send_timeout))
            bound.bind(address)
            bound.listen(BACKLOG)
            on_failure.pop_all()
    except OSError as error:
        raise NqgError(f"cannot listen at {host}:{port} ({error.strerror}); choose another --host or --port") from error
    return bound
