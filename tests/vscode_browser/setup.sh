#!/bin/sh
# What the tests in a real VS Code need, into a folder outside the clone that the next run finds again.
# Usage: sh setup.sh DIR BROWSER_DIR; BROWSER_DIR is for what all browser tests need (../browser/setup.sh).
# Prints nothing but progress, on standard error; done at once where all is there.
#
# code-server is VS Code with a browser for a window.
# Its native modules are left out, so no compiler is needed: lost are log files, sqlite and kerberos.
set -eu

# The newest that there is, and the oldest that `engines` in editors/vscode/package.json allows.
NEWEST='4.139.1'
OLDEST='4.133.0'

here=$(cd "$(dirname "$0")" && pwd)
sh "$here/../browser/setup.sh" "${2:?usage: sh setup.sh DIR BROWSER_DIR}"
PATH="$(cd "$2" && pwd)/node/bin:$PATH"
export PATH

mkdir -p "$1"
cd "$1"
home=$(pwd)

quiet_npm() { npm install --no-audit --no-fund --no-update-notifier --loglevel=error --ignore-scripts "$@" >&2; }

# Named after what it has installed: another version is installed anew.
install() {
  stamp="done-code-server-$2"
  if [ -e "$stamp" ]; then
    return
  fi
  echo "installing VS Code $2 (600 MB) ..." >&2
  rm -rf "$1"
  mkdir "$1"
  cd "$1"
  echo '{"private": true}' > package.json
  quiet_npm "code-server@$2"
  cd node_modules/code-server/lib/vscode
  quiet_npm --omit=dev
  cd extensions
  quiet_npm --omit=dev
  cd "$home"
  touch "$stamp"
}

install code-server "$NEWEST"
install code-server-oldest "$OLDEST"
