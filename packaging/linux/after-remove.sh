#!/bin/sh
# After the files of reeve are gone, as root. What users have is theirs and
# stays: state, registrations, services and missions that run.
set -e
case "${1:-}" in
remove | 0 | *.*) # dpkg, how many are left, or a version, as on Arch
  echo "Reeve is removed. Users keep their state (.local/state/reeve); who has registered a service runs: systemctl --user disable --now reeve"
  ;;
esac
