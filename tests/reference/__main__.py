"""Writes the pages of `docs/reference` anew: `make reference`."""

import sys

from reference.pages import FOLDER, PAGES


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), "utf-8")
        print(f"docs/reference/{name} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
