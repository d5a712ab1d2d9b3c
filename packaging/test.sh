#!/bin/sh
# Runs the tests with the race detector and prints one line of totals.
set -eu
cd "$(dirname "$0")/.."
mode="${1:-all}"
export REEVE_TEST_CLAUDE="${REEVE_TEST_CLAUDE:-$PWD/.cache/agents/node_modules/@anthropic-ai/claude-code-linux-x64/claude}"
mkdir -p .cache
all=$(go list ./... | grep -v -e '/cmd/reeve-desktop$')
e2e=$(printf '%s\n' "$all" | grep '/cmd/e2e$' || true)
unit=$(printf '%s\n' "$all" | grep -v '/cmd/e2e$')
case "$mode" in
all) pkgs="$unit $e2e" ;;
unit) pkgs="$unit" ;;
e2e) pkgs="$e2e" ;;
*) echo "usage: test.sh all|unit|e2e" >&2; exit 2 ;;
esac
# shellcheck disable=SC2086
exec go run gotest.tools/gotestsum@v1.13.0 --format pkgname --jsonfile .cache/test.json -- -race -timeout 20m $pkgs
