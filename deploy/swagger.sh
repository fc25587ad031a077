#!/bin/sh
# Replaces the files of Swagger UI in the package by those of npm's swagger-ui-dist.
#   swagger.sh [VERSION]    such as 5.35.0; by default the version of the files, which brings back changed ones
# The archive must have the SHA-512 that the registry names. npm runs no script of the package, and installs nothing.
set -eu
cd "$(dirname "$0")/.."

folder=bridge/http/v1/document/swagger
version=${1:-$(sed -n 's/.*"version": "\(.*\)".*/\1/p' "$folder/package.json")}
if ! expr "$version" : '[0-9]*\.[0-9]*\.[0-9]*$' >/dev/null; then
    echo "swagger: the version is '$version': name one, such as 5.35.0" >&2
    exit 2
fi
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

named=$(npm view --loglevel=error "swagger-ui-dist@$version" dist.integrity)
npm pack --loglevel=error --pack-destination "$new" "swagger-ui-dist@$version" >/dev/null
found=sha512-$(openssl dgst -sha512 -binary "$new/swagger-ui-dist-$version.tgz" | openssl base64 -A)
if [ "$found" != "$named" ]; then
    echo "swagger: npm's archive of $version has $found, and the registry names $named: try again" >&2
    exit 1
fi
tar -xzf "$new/swagger-ui-dist-$version.tgz" -C "$new" --no-same-owner \
    package/LICENSE package/NOTICE package/package.json package/favicon-32x32.png package/swagger-ui.css \
    package/swagger-ui-bundle.js package/swagger-ui-bundle.js.LICENSE.txt
rm -rf "$folder"
mv "$new/package" "$folder"
