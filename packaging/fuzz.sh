#!/bin/sh
# Runs every fuzz target for the given time each.
set -eu
cd "$(dirname "$0")/.."
for f in $(git grep -l '^func Fuzz' -- '*_test.go'); do
  for t in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$f"); do
    echo "$t in $(dirname "$f")"
    go test -run '^$' -fuzz "^$t\$" -fuzztime "${1:-20s}" "./$(dirname "$f")"
  done
done
