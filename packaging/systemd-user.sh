#!/bin/sh
# Runs a command beside a real systemd user manager of its own:
#   systemd-user.sh COMMAND [ARGUMENT...]
# The manager, its session bus and the command live in mount, pid and cgroup
# namespaces that end with the command, with an empty HOME and XDG_RUNTIME_DIR
# and nothing of the user's own manager. It needs root, util-linux, systemd and
# dbus. Exit status: the command's; 77 when the machine can't do it, with the
# reason on standard error.
set -eu

cannot() { echo "systemd-user.sh: no user manager can be run here: $*" >&2; exit 77; }

if [ "${REEVE_SYSTEMD_USER_DIR-}" = "" ]; then
  [ $# -gt 0 ] || { echo "usage: systemd-user.sh COMMAND [ARGUMENT...]" >&2; exit 2; }
  [ "$(id -u)" = 0 ] || cannot "it needs root"
  for program in unshare systemctl dbus-daemon; do
    command -v $program >/dev/null || cannot "there is no $program"
  done
  [ -x /lib/systemd/systemd ] || cannot "there is no /lib/systemd/systemd"
  groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
  [ "$groups" ] || cannot "no cgroup v2 is mounted"
  group=$groups/systemd-user-test.$$
  mkdir "$group" 2>/dev/null || cannot "no control group can be made in $groups"
  dir=$(mktemp -d)
  # Controllers that the machine hands down reach the manager, where there are
  # any: it can hand them on only while nobody lives in its own group.
  mkdir "$group/harness"
  clean() {
    # What was killed leaves its group a moment later.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
      sleep 0.2
    done
    rm -rf "$dir"
  }
  trap clean EXIT
  child=
  # Killing unshare kills what it started, and with that the namespace.
  trap '[ -z "$child" ] || { kill -KILL "$child"; wait "$child" || true; }; exit 130' INT TERM
  export REEVE_SYSTEMD_USER_DIR="$dir" REEVE_SYSTEMD_USER_GROUP="$group"
  # The namespace begins in the group, so that this is all its root is.
  status=0
  sh -c 'echo $$ >"$REEVE_SYSTEMD_USER_GROUP/cgroup.procs" && exec unshare --mount --pid --fork --cgroup --kill-child "$0" "$@"' \
    "$0" "$@" <&0 &
  child=$!
  wait "$child" || status=$?
  exit $status
fi

dir=$REEVE_SYSTEMD_USER_DIR
unset REEVE_SYSTEMD_USER_DIR REEVE_SYSTEMD_USER_GROUP
mount --make-rprivate /
mount -t proc proc /proc
umount -l /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup || cannot "cgroup v2 can't be mounted"
echo $$ >/sys/fs/cgroup/harness/cgroup.procs
mount -t tmpfs tmpfs "$dir"
mkdir -p /run/systemd
mount -t tmpfs tmpfs /run/systemd
mkdir /run/systemd/system # says that systemd runs, which programs look for
mkdir -m 700 "$dir/home" "$dir/run"
unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME NOTIFY_SOCKET
export HOME="$dir/home" XDG_RUNTIME_DIR="$dir/run" DBUS_SESSION_BUS_ADDRESS="unix:path=$dir/run/bus"
dbus-daemon --session --fork --nopidfile --address="$DBUS_SESSION_BUS_ADDRESS" || cannot "the session bus doesn't start"
# The manager takes the group that it is born in for its own.
sh -c 'echo $$ >/sys/fs/cgroup/cgroup.procs && exec /lib/systemd/systemd --user --log-target=console' >"$dir/manager.log" 2>&1 &
manager=$!
tries=0
until systemctl --user is-system-running --wait >/dev/null 2>&1 || [ "$(systemctl --user is-system-running 2>/dev/null)" = degraded ]; do
  tries=$((tries + 1))
  if [ $tries -gt 100 ] || ! kill -0 $manager 2>/dev/null; then
    cat "$dir/manager.log" >&2
    cannot "it doesn't start"
  fi
  sleep 0.1
done
# It runs before it is on the bus, where programs ask for it.
tries=0
until busctl --user status org.freedesktop.systemd1 >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ $tries -le 100 ] || cannot "it doesn't come to the bus"
  sleep 0.1
done
status=0
"$@" || status=$?
exit $status
