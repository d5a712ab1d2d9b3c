#!/bin/sh
# `make run`: the service in the foreground with state of its own, the desktop
# where there is a display, and the demo mission waiting for its approval.
# Ctrl-C ends all of it.
set -eu
bin=$(cd "$1" && pwd)
export REEVE_STATE="${REEVE_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/reeve-try}"
mkdir -p "$REEVE_STATE"
chmod 700 "$REEVE_STATE"
desktop=""
"$bin/reeve" service run &
service=$!
cleanup() {
  trap - INT TERM EXIT
  [ -z "$desktop" ] || kill "$desktop" 2>/dev/null || true
  "$bin/reeve" service stop --workers >/dev/null 2>&1 || kill "$service" 2>/dev/null || true
  wait "$service" 2>/dev/null || true
}
trap cleanup EXIT
trap 'exit 130' INT TERM
n=0
until "$bin/reeve" service status >/dev/null 2>&1; do
  n=$((n + 1))
  if [ "$n" -gt 100 ] || ! kill -0 "$service" 2>/dev/null; then
    echo "The service did not come up; see $REEVE_STATE/logs/service.log" >&2
    exit 1
  fi
  sleep 0.1
done
"$bin/reeve" demo --propose || true
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
  "$bin/reeve-desktop" &
  desktop=$!
  echo "The desktop is open: the demo mission waits there for your approval."
else
  cat <<TXT

There is no display here, so follow on the command line. In another terminal:

  export REEVE_STATE='$REEVE_STATE' PATH='$bin':"\$PATH"
  reeve approvals        what waits for you
  reeve allow ID         look at it, then allow it
  reeve watch            see what happens
TXT
fi
echo "The service runs until Ctrl-C."
wait "$service"
