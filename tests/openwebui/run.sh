#!/bin/sh
# Open WebUI in a real browser, before a real `dragoman serve`. Usage: sh run.sh DRAGOMAN [options of node --test]
# A picture of each test that failed is in the cache.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
DRAGOMAN=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
cache=${DRAGOMAN_TEST_CACHE:-$HOME/.cache/dragoman-tests}
DRAGOMAN_BROWSER_CACHE=$cache/browser
OPENWEBUI=$cache/openwebui/venv/bin/open-webui
DRAGOMAN_IMAGES=${DRAGOMAN_IMAGES:-$cache/openwebui/images}
export DRAGOMAN DRAGOMAN_BROWSER_CACHE OPENWEBUI DRAGOMAN_IMAGES
mkdir -p "$DRAGOMAN_IMAGES"

sh "$here/../browser/setup.sh" "$DRAGOMAN_BROWSER_CACHE"
sh "$here/setup.sh" "$cache/openwebui"
# One process for all files: they share the server, Open WebUI and the browser.
exec "$DRAGOMAN_BROWSER_CACHE/node/bin/node" --test --test-isolation=none --test-force-exit --test-timeout=180000 --test-reporter=spec "$@" "$here"/${DRAGOMAN_TEST_FILE:-*}.test.mjs
