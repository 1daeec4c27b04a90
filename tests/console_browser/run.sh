#!/bin/sh
# The tests of the console in a real browser. Usage: sh run.sh DRAGOMAN [options of node --test]
# A picture of each test that failed is in the cache.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
DRAGOMAN=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
cache=${DRAGOMAN_TEST_CACHE:-$HOME/.cache/dragoman-tests}
DRAGOMAN_BROWSER_CACHE=$cache/browser
DRAGOMAN_IMAGES=${DRAGOMAN_IMAGES:-$cache/console/images}
export DRAGOMAN DRAGOMAN_BROWSER_CACHE DRAGOMAN_IMAGES
mkdir -p "$DRAGOMAN_IMAGES"

sh "$here/../browser/setup.sh" "$DRAGOMAN_BROWSER_CACHE"
# Two files at once: most of their time is waiting.
exec "$DRAGOMAN_BROWSER_CACHE/node/bin/node" --test --test-concurrency=2 --test-force-exit --test-timeout=90000 --test-reporter=spec "$@" "$here"/${DRAGOMAN_TEST_FILE:-*}.test.mjs
