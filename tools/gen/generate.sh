#!/bin/sh
# Generates api/kinesinv1 from api/proto with the tool versions pinned in
# tools/gen/go.mod. The output depends on nothing else, so that a fresh checkout
# on any machine generates the same bytes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
api=$(cd "$here/../../api" && pwd)
bin=$here/.bin

(cd "$here" && GOWORK=off GOBIN="$bin" go install tool)

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$api"
PATH="$bin:$PATH" buf lint
PATH="$bin:$PATH" buf generate -o "$out"

rm -rf "$api/kinesinv1"
mv "$out/kinesinv1" "$api/kinesinv1"
chmod 755 "$api/kinesinv1"
