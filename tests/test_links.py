"""Links in the documentation lead somewhere: files that are there, headings that they have."""

import re
from pathlib import Path

import pytest

from documents import heading_anchors

_ROOT = Path(__file__).parents[1]
_PAGES = sorted(
    [*_ROOT.glob("*.md"), *_ROOT.glob("docs/**/*.md"), *_ROOT.glob("examples/*.md")],
    key=lambda page: page.relative_to(_ROOT),
)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
# Of a link or a picture: what stands in the brackets behind it.
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _broken(page: Path) -> list[str]:
    return [
        link for link in _LINK.findall(_CODE.sub("``", page.read_text("utf-8"))) if not _leads(page, link)
    ]


def _leads(page: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        # Somebody else's page: this is a machine without a network.
        return True
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in heading_anchors(target.read_text("utf-8")))


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert _broken(page) == []


def test_every_page_is_in_the_index() -> None:
    """If this fails: say in docs/README.md what the page is for."""
    linked = set(_LINK.findall((_ROOT / "docs/README.md").read_text("utf-8")))
    pages = {str(path.relative_to(_ROOT / "docs")) for path in (_ROOT / "docs").glob("**/*.md")}
    assert pages - linked == {"README.md"}


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One\n\n## `[two]`: three\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n[a](other.md) [b](other.md#two-three) [c](#page) [d](https://example.test/x) `[e](gone.md)`\n"
        "[f](gone.md) [g](other.md#four) ![h](gone.png) [i](#four)\n\n```\n[j](gone.md)\n```\n"
    )
    assert _broken(page) == ["gone.md", "other.md#four", "gone.png", "#four"]


def test_the_diagram_stands_in_two_places_and_is_one() -> None:
    """If this fails: copy it from docs/machine.md, which is drawn from the table."""
    drawn = re.search(r"```mermaid\n.*?```", (_ROOT / "docs/machine.md").read_text("utf-8"), re.DOTALL)
    assert drawn is not None
    assert drawn[0] in (_ROOT / "docs/history.md").read_text("utf-8")
