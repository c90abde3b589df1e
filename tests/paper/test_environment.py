"""What a record says of the machine that made it."""

from __future__ import annotations

import pytest

from nqg.paper.environment import commit, versions


def test_versions_of_packages_that_are_not_installed_are_unknown() -> None:
    assert versions("no-such-package") == {**versions(), "no-such-package": "unknown"}


def test_the_commit_can_be_given_where_there_is_no_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NQG_COMMIT", "abc123")
    assert commit() == "abc123"
