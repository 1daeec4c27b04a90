"""Globs over paths: relative to the workspace, through links, case and `..`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.permissions.sensitive import Places
from dragoman.policy.path_patterns import PathPatterns, resolving_once
from permissions.actions import HOME, WORKSPACE

PLACES = Places((WORKSPACE,), HOME)

BOTH = [
    ("src/**", "src/a/b.py", True),
    ("src/**", "src", True),
    ("src/**", "srcs/a", False),
    ("src/*", "src/a/b.py", False),
    ("*.md", "README.md", True),
    ("*.md", "docs/README.md", False),
    ("**/*.md", "docs/README.md", True),
    ("**", ".", True),
    ("**", "../other", False),
    ("src/**", "src/../secret", False),
    ("secret", "src/../secret", True),
    (".", ".", True),
    (".", "src", False),
    ("/etc/*", "/etc/hosts", True),
    ("/etc/*", "etc/hosts", False),
    ("~/notes/**", f"{HOME}/notes/a", True),
    ("~/notes/**", "notes/a", False),
    ("~", HOME, True),
]


def absolute(path: str) -> str:
    return path if path.startswith("/") else f"{WORKSPACE}/{path}"


@pytest.mark.parametrize(("pattern", "path", "matches"), BOTH)
def test_a_pattern_is_relative_to_the_workspace_or_absolute(pattern: str, path: str, matches: bool) -> None:  # noqa: FBT001 - a parameter of the table
    patterns = PathPatterns([pattern])
    assert patterns.all_ways_match(absolute(path), PLACES) is matches
    assert patterns.a_way_matches(absolute(path), PLACES) is matches


def test_case_counts_for_allow_and_not_for_deny() -> None:
    patterns = PathPatterns(["**/.env"])
    assert not patterns.all_ways_match(absolute("A/.ENV"), PLACES)
    assert patterns.a_way_matches(absolute("A/.ENV"), PLACES)


def test_a_link_must_match_at_both_ends_to_be_allowed_and_at_one_to_be_denied(tmp_path: Path) -> None:
    workspace = tmp_path / "project"
    (workspace / "src").mkdir(parents=True)
    (workspace / "secrets").mkdir()
    (workspace / "src" / "link").symlink_to(workspace / "secrets" / "key")
    places = resolving_once(Places.around([workspace]))
    link = str(workspace / "src" / "link")
    assert not PathPatterns(["src/**"]).all_ways_match(link, places)
    assert PathPatterns(["src/**", "secrets/**"]).all_ways_match(link, places)
    assert PathPatterns(["secrets/**"]).a_way_matches(link, places)
    assert PathPatterns(["src/**"]).a_way_matches(link, places)


def test_a_workspace_that_is_reached_by_a_link_is_the_same_workspace(tmp_path: Path) -> None:
    (tmp_path / "real" / "src").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    places = resolving_once(Places.around([tmp_path / "link"]))
    assert PathPatterns(["src/**"]).all_ways_match(str(tmp_path / "link" / "src" / "a"), places)
    assert PathPatterns(["src/**"]).all_ways_match(str(tmp_path / "real" / "src" / "a"), places)


def test_a_folder_behind_a_link_is_looked_up_once_and_rightly(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "project" / "out").symlink_to(tmp_path / "outside")
    places = Places.around([tmp_path / "project"])
    once = resolving_once(places)
    for path in ("out/a", "out/../b", "a/b", "a/.", "out", "a//b", "out/a"):
        given = str(tmp_path / "project") + "/" + path
        assert once.resolve(given) == places.resolve(given), path


def test_a_path_that_cannot_be_looked_up_is_not_allowed() -> None:
    def fail(_path: str) -> str:
        raise OSError("too many links")

    places = Places((WORKSPACE,), HOME, resolve=fail)
    assert not PathPatterns(["**"]).all_ways_match(f"{WORKSPACE}/a", places)
