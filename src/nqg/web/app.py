"""The routes of the page and of its API, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from nqg import __version__
from nqg.errors import NqgError
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
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorResponse, "description": "Malformed request"},
    401: {"model": ErrorResponse, "description": "The token is missing or wrong"},
    403: {"model": ErrorResponse, "description": "From a page of another site"},
    408: {"model": ErrorResponse, "description": "The body took too long"},
    413: {"model": ErrorResponse, "description": "Too large"},
    415: {"model": ErrorResponse, "description": "Not JSON in UTF-8"},
    421: {"model": ErrorResponse, "description": "For another host"},
    422: {"model": ErrorResponse, "description": "Understood, but not acceptable"},
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
    found = await service.explained(Question(request.sentence, request.readings, request.explain))
    return ParseResponse.of(found.answer, request.explain, found.gaps, found.geobase)


@api.post("/api/batch", summary="The programs of many sentences")
async def batch(request: BatchRequest, service: Served) -> BatchResponse:
    lines = request.lines(service.limits)
    return BatchResponse.of(lines, await service.answers([line.sentence for line in lines]))


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
async def health() -> dict[str, str]:
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
    return (error if isinstance(error, HTTPError) else HTTPError(422, str(error))).response()


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
