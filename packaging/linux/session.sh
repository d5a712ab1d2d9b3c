# Part of test-packages.sh: the packages below a real user manager of systemd, as
# a user has who logs on.

# session starts ada's user manager in the clean root, or says why it can't.
session() {
  groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
  group=$groups/reeve-$(basename "$work")
  if [ -z "$groups" ] || ! mkdir "$group" 2>/dev/null; then
    skip "a user manager of systemd (no control group of version 2 can be made)"
    return 1
  fi
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  uid=$(chroot "$root" id -u ada)
  # The group is hers, as it is that of a user's slice.
  chown "$uid" "$group" "$group/cgroup.procs" "$group/cgroup.subtree_control" "$group/cgroup.threads"
  runtime=/run/user/$uid
  mkdir -p "$root/run/systemd/system" # says that systemd runs, which programs look for
  install -d -o "$uid" -g "$uid" -m 700 "$root$runtime"
  log_on || { skip "a user manager of systemd ($(tail -1 "$work/manager.log"))"; runtime=; return 1; }
}
log_on() {
  sh -c 'echo 0 >"$1/cgroup.procs" && exec chroot --userspec=ada:ada "$2" env -i HOME=/home/ada USER=ada LOGNAME=ada PATH=/usr/bin:/bin LANG=C.UTF-8 XDG_RUNTIME_DIR="$3" /lib/systemd/systemd --user' sh "$group" "$root" "$runtime" >"$work/manager.log" 2>&1 &
  manager=$!
  within 30 ada 'systemctl --user is-system-running | grep -e running -e degraded && busctl --user status org.freedesktop.systemd1'
}
log_off() {
  ada 'systemctl --user exit' >/dev/null || true
  wait "$manager" || true
}

# is FIELD VALUE, of a service that answers.
is() { [ "$(service "$1")" = "$2" ]; }

# outside lists the user's files but those of the state, of the checkouts, and of
# the library that draws the window.
outside() { (cd "$root/home/ada" && find . -type f -not -path './.local/state/reeve/*' -not -regex '\./\(first\|second\|between\|third\|fourth\)/.*' -not -path './.cache/mesa_shader_cache/*' | sort); }

# managed is the life of a registered service: a crash, an upgrade and a restart
# of the machine, each with a mission live.
managed() {
  outside >"$work/home"
  check "the user registers the service" ada 'reeve service install'
  unit=$root/home/ada/.config/systemd/user/reeve.service
  check "what is registered is the package's program" grep '^ExecStart="*/usr/bin/reeve"* ' "$unit"
  check "systemd runs it" same "$(ada 'reeve service status --json' | field manager) $(ada 'systemctl --user is-enabled reeve')" "systemd enabled"

  mission=$(ada 'reeve demo --folder third --propose --json' | field id)
  check "a mission starts" allow_next
  within 30 pending || true
  before=$(guards) pid=$(service pid) generation=$(service generation)
  check "it has a guard" test "$before"
  killed=$(date +%s%N)
  [ -z "$pid" ] || kill -KILL "$pid"
  check "after a crash the service is back" within 30 is generation $((generation + 1))
  echo "test-packages: after kill -9 the service answered again in $((($(date +%s%N) - killed) / 1000000)) ms"
  check "the worker is untouched" same "$(guards)" "$before"
  check "the mission ends well" finish

  upgrade

  mission=$(ada 'reeve demo --folder fourth --propose --json' | field id)
  check "a mission starts" allow_next
  within 30 pending || true
  generation=$(service generation)
  log_off
  check "with the machine all ends" empty "$(pgrep -u "$uid" -a || true)"
  check "the user logs on again" log_on
  check "the service is there at log-on" within 30 is generation $((generation + 1))
  check "the mission can be recovered" within 30 recoverable
  check "the user asks to go on with it" ada "reeve recover $mission </dev/null >recover.txt; rm recover.txt"
  check "and allows that" allow_next
  check "it ends well" finish

  check "the user takes the service away" ada 'reeve service uninstall --stop-missions'
  check "no unit is left" same "$(ada 'systemctl --user show -P LoadState reeve; systemctl --user list-units --all --plain --no-legend reeve\*')" not-found
  check "no process is left" empty "$(pgrep -x -a reeve || true)"
  outside >"$work/home2"
  check "no file is left outside the state and the checkouts" diff "$work/home" "$work/home2"
  log_off
}
recoverable() { [ "$(ada "reeve show $mission --json" | field recovery)" = approval_required ]; }
