"""The routes of the page and of its API, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Query, Request
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
    ModelResponse,
    ParseRequest,
    ParseResponse,
    Problem,
    RuleFound,
    RulesResponse,
)
from nqg.web.middleware import COOKIE, Access, Doors, Guard, Refused, refusal
from nqg.web.service import Order, Question, Service, read_lines

STATIC = Path(__file__).parent / "static"
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "Malformed request"},
    401: {"model": Problem, "description": "The token is missing or wrong"},
    403: {"model": Problem, "description": "From a page of another site"},
    408: {"model": Problem, "description": "The body took too long"},
    413: {"model": Problem, "description": "Too large"},
    415: {"model": Problem, "description": "Not JSON in UTF-8"},
    421: {"model": Problem, "description": "For another host"},
    422: {"model": Problem, "description": "Understood, but not acceptable"},
    503: {"model": Problem, "description": "Too busy; see Retry-After"},
}


def create_app(service: Service, access: Access = Access(), examples: Sequence[str] = ()) -> FastAPI:  # noqa: B008 (frozen)
    """The application that serves a model, to whom `access` lets in."""

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
        responses=REFUSALS,
    )
    app.add_middleware(Doors, limits=service.limits)
    app.add_middleware(Guard, access=access)
    _add_api(app, service)
    _add_pages(app, access)
    _add_error_handlers(app)
    return app


def _add_api(app: FastAPI, service: Service) -> None:
    @app.post("/api/parse", summary="The program of a sentence")
    async def parse(request: ParseRequest) -> ParseResponse:
        found = await service.explained(Question(request.sentence, request.readings, request.explain))
        return ParseResponse.of(found, request.explain)

    @app.post("/api/batch", summary="The programs of many sentences")
    async def batch(request: BatchRequest) -> BatchResponse:
        return BatchResponse.of(await service.rows(read_lines(request.text, service.limits)))

    @app.get("/api/rules", summary="The grammar, searched")
    async def rules(
        search: Annotated[str, Query(max_length=200)] = "",
        order: Order = "grammar",
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
        limit: Annotated[int, Query(ge=1, le=100)] = 50,
    ) -> RulesResponse:
        found = service.usage.listed(search, order)
        shown = found[offset : offset + min(limit, service.limits.rules)]
        return RulesResponse(found=len(found), offset=offset, rules=[RuleFound.of(each) for each in shown])

    @app.get("/api/model", summary="What is being served")
    async def model() -> ModelResponse:
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


def _add_pages(app: FastAPI, access: Access) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    @app.get("/health", include_in_schema=False)
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/static/pictures.css", include_in_schema=False)
    async def pictures() -> Response:
        return Response(style(), media_type="text/css")

    @app.get("/login", include_in_schema=False)
    async def login() -> FileResponse:
        return FileResponse(STATIC / "login.html")

    @app.post("/login", include_in_schema=False)
    async def log_in(request: Request) -> Response:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        if not access.is_token(form.get("token", [""])[0].strip()):
            return FileResponse(STATIC / "login.html", 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, access.session, httponly=True, samesite="strict", path="/")
        return answer

    app.mount("/static", StaticFiles(directory=STATIC))


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(NqgError)
    async def ours(request: Request, error: NqgError) -> Response:
        return refusal(error if isinstance(error, Refused) else Refused(422, str(error)))

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query")) or "the body"
        is_json = first["type"] != "json_invalid"
        said = f"{place[:80]}: {first['msg']}" if is_json else f"the body is no JSON: {first['ctx']['error']}"
        return refusal(Refused(422 if is_json else 400, said.encode("utf-8", "replace").decode()))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "the server failed on this request; its log says why"}, 500)
