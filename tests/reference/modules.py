"""`modules.md`: every module of the package, with the first sentence of its docstring."""

import ast
import re
from pathlib import Path

__all__ = ["modules", "summary_of"]

_SOURCE = Path(__file__).parents[2] / "src" / "dragoman"
_HEAD = """\
# Modules

Every module with the first sentence of its docstring, made by `make reference`. [Architecture](../architecture.md)
says how they work together.
"""


def summary_of(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0].rstrip(".").replace("|", "\\|")


def modules() -> str:
    folders: dict[str, list[str]] = {}
    for path in sorted(_SOURCE.rglob("*.py"), key=lambda path: (str(path.parent), path.name)):
        if path.stem == "__main__":
            continue
        folder = str(path.parent.relative_to(_SOURCE.parent))
        lines = folders.setdefault(folder, [])
        if path.stem == "__init__":
            lines.insert(0, f"\n{summary_of(path)}.\n" if summary_of(path) else "")
        else:
            lines.append(f"| `{path.stem}` | {summary_of(path)} |")
    parts = [_HEAD]
    for folder, lines in folders.items():
        parts.append(f"\n## {folder}\n")
        head = lines.pop(0) if lines and not lines[0].startswith("|") else ""
        parts.append(head)
        if lines:
            parts.append("\n| module | |\n|---|---|\n" + "\n".join(lines) + "\n")
    return "".join(parts)
