"""What the source must never do: unpickle files, evaluate text, run a shell, unpack archives by their own paths."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nqg.paper.datasets import _SPIDER_TABLES, CATALOGUE
from nqg.paper.download import RemoteFile

SOURCE = Path(__file__).resolve().parents[2] / "src" / "nqg"
ENGINES = {"parallel.py"}  # pickle goes between a process and workers it started
MODULES = sorted(
    path
    for path in SOURCE.rglob("*.py")
    if path.relative_to(SOURCE).as_posix() not in ENGINES
)

BANNED_MODULES = {
    "pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "xml.etree",
    "xml.sax",
}
BANNED_NAMES = {"eval", "exec", "compile", "__import__"}
BANNED_METHODS = {
    *("os.system", "os.popen", "torch.load", "tempfile.mktemp", "torch.hub.load"),
    *(
        "yaml.load",
        "pickle.loads",
        "tar.extract",
        "tar.extractall",
        "shutil.unpack_archive",
    ),
}
REMOTE_CODE = ("from_pretrained", "from_config")


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def forbidden_import(node: ast.AST) -> bool:
    return any(
        name == banned or name.startswith(f"{banned}.")
        for name in imported(node)
        for banned in BANNED_MODULES
    )


def forbidden_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return ast.unparse(node.func) in BANNED_NAMES | BANNED_METHODS


def keyword(node: ast.Call, name: str) -> object:
    """The constant that a call gives for a parameter; None where it gives none."""
    given = [each.value for each in node.keywords if each.arg == name]
    return given[0].value if given and isinstance(given[0], ast.Constant) else None


def is_careless(node: ast.AST) -> bool:
    """Whether a call leaves to chance what must be said."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if keyword(node, "shell") or keyword(node, "verify") is False:
        return True
    if node.func.attr in REMOTE_CODE and ast.unparse(node.func).startswith("Auto"):
        return keyword(node, "trust_remote_code") is not False
    return (
        ast.unparse(node.func) in ("np.load", "np.savez")
        and keyword(node, "allow_pickle") is not False
    )


RULES: list[Callable[[ast.AST], bool]] = [forbidden_import, forbidden_call, is_careless]


@pytest.mark.parametrize("rule", RULES)
def test_no_module_does_what_is_never_safe(rule: Callable[[ast.AST], bool]) -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)[:80]}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.expr | ast.stmt) and rule(node)
    ]
    assert not found, "\n".join(found)


def test_the_engines_read_no_file() -> None:
    called = {
        ast.unparse(node.func)
        for name in ENGINES
        for node in ast.walk(ast.parse((SOURCE / name).read_text()))
        if isinstance(node, ast.Call)
    }
    assert "pickle.loads" in called
    assert not {name.rpartition(".")[2] for name in called} & {
        "open",
        "read",
        "read_bytes",
        "read_text",
        "load",
    }


@pytest.mark.parametrize(
    "bad",
    [
        "import pickle",
        "from xml.etree import ElementTree",
        "eval(text)",
        "torch.load(path)",
        "tar.extractall()",
        "subprocess.run(command, shell=True)",
        "AutoModel.from_pretrained(name)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
        "np.load(path)",
        "requests.get(url, verify=False)",
    ],
)
def test_what_is_not_safe_would_be_seen(bad: str) -> None:
    assert any(rule(node) for rule in RULES for node in ast.walk(ast.parse(bad)))


FILES = {
    file.path: file
    for entry in CATALOGUE.values()
    for file in [
        *entry.files,
        *(file for split in entry.splits.values() for file in split.files),
        _SPIDER_TABLES,
    ]
}


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_everything_that_is_downloaded_is_checked(file: RemoteFile) -> None:
    source = file.archive or file
    assert source.sha256 or source.marks or source.by_hand


def test_only_two_old_addresses_are_not_encrypted_and_one_of_them_has_a_checksum() -> (
    None
):
    plain = {
        name: file
        for name, file in FILES.items()
        if not file.address.startswith("https://")
    }
    assert sorted(plain) == ["geoquery/corpus.xml", "geoquery/geobase"]
    assert plain["geoquery/geobase"].sha256
    assert plain[
        "geoquery/corpus.xml"
    ].marks  # and `nqg data prepare` says whether the examples are as published
