#!/bin/sh
# Open WebUI, into a folder outside the clone that the next run finds again. Usage: sh setup.sh DIR
# Progress is on standard error; done at once where all is there.
#
# requirements.txt has what Open WebUI imports in its slim form. The whole of it would bring PyTorch along, some GB.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?usage: sh setup.sh DIR}"
cd "$1"

if ! cmp -s "$here/requirements.txt" venv/done-requirements.txt; then
  python=${PYTHON311:-python3.11}
  command -v "$python" >/dev/null 2>&1 || python=python3
  "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
    echo "Open WebUI is pinned for Python 3.11: install it, or name it in PYTHON311." >&2
    exit 1
  }
  echo "installing Open WebUI (550 MB) ..." >&2
  rm -rf venv
  "$python" -m venv venv
  # Every package is in the list. What is imported is compiled at the first start.
  venv/bin/python -m pip --quiet --disable-pip-version-check install \
    --require-hashes --only-binary=:all: --no-deps --no-compile -r "$here/requirements.txt" >&2
  cp "$here/requirements.txt" venv/done-requirements.txt
fi
