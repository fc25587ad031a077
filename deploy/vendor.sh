#!/bin/sh
# Brings back the files of npm's packages that the console and its tests use, by deploy/vendor/package-lock.json.
#   vendor.sh            the versions of the lock file, so that `git status` shows whether somebody changed a file
#   vendor.sh --update   writes the lock file again from package.json first
# npm refuses an archive whose SHA-512 is not the lock file's. It runs no script of a package.
set -eu
cd "$(dirname "$0")/.."

lock=deploy/vendor
page=bridge/http/console/page/vendor
tests=tests/tools/console/vendor
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

npm="npm --prefix $new --loglevel=error --ignore-scripts --no-audit --no-fund --omit-lockfile-registry-resolved"
cp "$lock/package.json" "$new"
[ "${1:-}" = --update ] || cp "$lock/package-lock.json" "$new"
if [ "${1:-}" = --update ]; then $npm install >/dev/null; else $npm ci >/dev/null; fi
cp "$new/package-lock.json" "$lock"

from=$new/node_modules
rm -rf "$page" "$tests"
mkdir -p "$page" "$tests"
cp "$from/lit-html/lit-html.js" "$page/lit-html.js"
cp "$from/lit-html/LICENSE" "$page/lit-html.LICENSE.txt"
cp "$from/uplot/dist/uPlot.esm.js" "$page/uplot.js"
cp "$from/uplot/dist/uPlot.min.css" "$page/uplot.css"
cp "$from/uplot/LICENSE" "$page/uplot.LICENSE.txt"
cp "$from/@picocss/pico/css/pico.min.css" "$page/pico.css"
cp "$from/@picocss/pico/LICENSE.md" "$page/pico.LICENSE.txt"
cp "$from/axe-core/axe.min.js" "$tests/axe.js"
cp "$from/axe-core/LICENSE" "$tests/axe.LICENSE.txt"
sha256sum "$page"/* "$tests"/* >"$lock/SHA256SUMS"
