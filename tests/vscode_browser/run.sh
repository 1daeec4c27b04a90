#!/bin/sh
# The tests in a real VS Code. Usage: sh run.sh VSIX DRAGOMAN [options of node --test]
# The main moments become pictures in DRAGOMAN_IMAGES; without it in the cache, so that it is known that they can be taken.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
absolute() { printf '%s/%s' "$(cd "$(dirname "$1")" && pwd)" "$(basename "$1")"; }
DRAGOMAN_VSIX=$(absolute "$1")
DRAGOMAN=$(absolute "$2")
shift 2
cache=${DRAGOMAN_TEST_CACHE:-$HOME/.cache/dragoman-tests}
DRAGOMAN_VSCODE_CACHE=$cache/vscode
DRAGOMAN_BROWSER_CACHE=$cache/browser
DRAGOMAN_IMAGES=${DRAGOMAN_IMAGES:-$DRAGOMAN_VSCODE_CACHE/images}
export DRAGOMAN_VSIX DRAGOMAN DRAGOMAN_VSCODE_CACHE DRAGOMAN_BROWSER_CACHE DRAGOMAN_IMAGES

sh "$here/setup.sh" "$DRAGOMAN_VSCODE_CACHE" "$DRAGOMAN_BROWSER_CACHE"
# One editor at a time.
exec "$DRAGOMAN_BROWSER_CACHE/node/bin/node" --test --test-concurrency=1 --test-reporter=spec "$@" "$here"/*.test.mjs
