#!/bin/sh
# The installed service below a real systemd user manager: a crash, a hang, an
# upgrade and a downgrade in a live mission, a restart of the machine, removal.
# Exit status: the tests'; 77 when the machine can't do it, with the reason.
set -eu
cd "$(dirname "$0")/.."
said=$(mktemp)
trap 'rm -f "$said"' EXIT
status=0
REEVE_TEST_SERVICE=1 go test -count=1 -timeout 15m -v -run 'TestService$' ./cmd/e2e >"$said" 2>&1 || status=$?
cat "$said"
if [ $status = 0 ] && grep -q '^--- SKIP: TestService ' "$said"; then
  exit 77
fi
exit $status
