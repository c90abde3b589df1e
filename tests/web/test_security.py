"""Who gets in, what the answers' headers say, and that text stays text."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from nqg.errors import SettingsError
from nqg.inference.parser import Parser
from nqg.web.app import STATIC
from nqg.web.middleware import COOKIE, Access
from web_service import HOSTILE, HOSTILE_TARGET, served

TOKEN = "a-token-of-some-length"
LOCKED = Access(token=TOKEN)
PARSE = {"sentence": "run twice"}


def test_this_machine_alone_needs_no_token() -> None:
    assert Access.for_host("127.0.0.1").token is None
    assert Access.for_host("localhost", TOKEN).token == TOKEN


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "example.org"])
def test_any_other_address_demands_a_token_and_makes_one_up(host: str) -> None:
    first, second = Access.for_host(host), Access.for_host(host)
    assert first.token is not None
    assert len(first.token) >= 32
    assert first.token != second.token


@pytest.mark.parametrize(
    "token",
    [
        "",
        "short",
        "fifteen-letters",
        "with\nline-feeds-in-it",
        "ümlauts-are-not-for-headers",
    ],
)
def test_a_token_that_is_too_weak_is_refused(token: str) -> None:
    with pytest.raises(
        SettingsError, match="the token needs at least 16 printable ASCII characters"
    ):
        Access.for_host("0.0.0.0", token)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LOCALHOST"]
)
def test_the_names_of_this_machine_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/api/model", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "192.168.1.7",
    ],
)
def test_another_host_name_is_refused_so_that_dns_rebinding_fails(
    client: TestClient, host: str
) -> None:
    answer = client.get("/api/model", headers={"Host": host})
    assert answer.status_code == 421
    assert answer.json()["error"].startswith(
        f"this server does not answer for the host '{host}'"
    )


def test_beyond_this_machine_addresses_and_given_names_are_answered(
    parser: Parser,
) -> None:
    access = Access.for_host("0.0.0.0", TOKEN, ["parser.example"])
    with served(parser, access=access) as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        found = {
            host: client.get(
                "/api/model", headers={**headers, "Host": host}
            ).status_code
            for host in (
                "192.168.1.7:8000",
                "[fe80::1]:8000",
                "parser.example",
                "evil.example",
            )
        }
    assert found == {
        "192.168.1.7:8000": 200,
        "[fe80::1]:8000": 200,
        "parser.example": 200,
        "evil.example": 421,
    }


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_cannot_post(client: TestClient, site: str) -> None:
    answer = client.post("/api/parse", json=PARSE, headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 403
    assert "other sites" in answer.json()["error"]
    assert (
        client.post(
            "/api/parse", json=PARSE, headers={"Sec-Fetch-Site": "same-origin"}
        ).status_code
        == 200
    )


def test_without_the_token_nothing_but_the_login_is_shown(parser: Parser) -> None:
    with served(parser, access=LOCKED) as client:
        for path in ("/api/model", "/api/rules", "/openapi.json", "/", "/docs"):
            answer = client.get(path)
            assert answer.status_code == 401
            assert "Authorization: Bearer TOKEN" in answer.json()["error"]
        assert client.post("/api/parse", json=PARSE).status_code == 401
        assert client.get("/login").status_code == 200
        assert client.get("/static/page.css").status_code == 200
        assert client.get("/health").json() == {"status": "ok"}


def test_a_browser_without_the_token_is_led_to_the_login(parser: Parser) -> None:
    with served(parser, access=LOCKED) as client:
        answer = client.get(
            "/", headers={"Accept": "text/html"}, follow_redirects=False
        )
        assert (answer.status_code, answer.headers["Location"]) == (303, "/login")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"Basic {TOKEN}", 401),
        ("Bearer", 401),
        ("", 401),
        ("Bearer \xff\xfe", 401),
    ],
)
def test_the_bearer_token_must_be_exact(
    parser: Parser, header: str, status: int
) -> None:
    with served(parser, access=LOCKED) as client:
        answer = client.get(
            "/api/model", headers={b"Authorization": header.encode("latin-1")}
        )
        assert answer.status_code == status


def test_logging_in_sets_a_cookie_that_scripts_and_other_sites_do_not_get(
    parser: Parser,
) -> None:
    with served(parser, access=LOCKED) as client:
        answer = client.post("/login", data={"token": TOKEN}, follow_redirects=False)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert client.get("/api/model").status_code == 200


@pytest.mark.parametrize(
    "body", ["token=wrong", "", "token=", "token=%ff%fe", "\x00", "token=" + "x" * 5000]
)
def test_a_wrong_login_stays_outside(parser: Parser, body: str) -> None:
    with served(parser, access=LOCKED) as client:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = client.post(
            "/login", content=body, headers=headers, follow_redirects=False
        )
        assert answer.status_code == 401
        assert "This is not the token." in answer.text
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "cookie", ["nonsense", f"{COOKIE}=", f"{COOKIE}=0", f"{COOKIE}={TOKEN}", '=;";\\']
)
def test_a_made_up_cookie_opens_nothing(parser: Parser, cookie: str) -> None:
    with served(parser, access=LOCKED) as client:
        assert client.get("/api/model", headers={"Cookie": cookie}).status_code == 401


def test_no_login_is_possible_where_there_is_no_token(client: TestClient) -> None:
    assert client.post("/login", data={"token": ""}).status_code == 401


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/api/model", "/static/page.js", "/nowhere", "/login"]
)
def test_every_answer_carries_the_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"


def test_refusals_carry_the_headers_too(client: TestClient) -> None:
    assert (
        "Content-Security-Policy"
        in client.get("/", headers={"Host": "evil.example"}).headers
    )
    assert "Content-Security-Policy" in client.post("/api/parse", content=b"{").headers


def test_a_hostile_grammar_and_sentence_stay_text_in_every_drawing(
    client: TestClient,
) -> None:
    sentence = f"{HOSTILE} twice"
    answer = client.post(
        "/api/parse", json={"sentence": sentence, "readings": 3, "drawings": True}
    ).json()
    assert answer["target"] == f"{HOSTILE_TARGET} {HOSTILE_TARGET}"
    abstained = client.post(
        "/api/parse", json={"sentence": f"{HOSTILE} <b>x</b>", "drawings": True}
    ).json()
    rules = client.get("/api/rules", params={"search": "script"}).json()["rules"]
    drawings = [
        *(answer["best"][key] for key in ("drawing", "outline")),
        answer["chart_drawing"],
        abstained["gaps_drawing"],
        *(rule["drawing"] for rule in rules),
    ]
    assert len(drawings) == 5
    for drawing in drawings:
        assert "&lt;script&gt;" in drawing
        assert "<script" not in drawing
        assert "<img" not in drawing
        assert "<b>" not in drawing


def test_answers_say_what_they_are_so_that_no_browser_guesses(
    client: TestClient,
) -> None:
    answer = client.post("/api/parse", json={"sentence": HOSTILE})
    assert answer.headers["Content-Type"] == "application/json"


def test_the_pages_have_no_inline_script_style_or_foreign_address() -> None:
    for page in sorted(STATIC.iterdir()):
        text = page.read_text(encoding="utf-8")
        addresses = text.replace("http://www.w3.org/2000/svg", "").replace(
            "http://127.0.0.1:8000", ""
        )
        assert "http" not in addresses.replace("http-equiv", ""), page.name
        if page.suffix == ".html":
            assert "<style" not in text
            assert " style=" not in text
            assert " on" + "click=" not in text
            assert "<script>" not in text
        if page.suffix == ".js":
            assert "innerHTML" not in text
            assert "eval(" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
    ],
)
def test_files_outside_the_page_are_not_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404
