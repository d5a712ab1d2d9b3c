#!/bin/sh
# After the files of reeve are in place, as root: says what each user can do and
# does nothing for them. Running services, and so missions, go on with the
# program that they were started from.
set -e
case "${1:-}:${2:-}" in
configure:?* | [2-9]:*) # the version before, or how many are installed now
  echo "Reeve is upgraded. Services that run go on with the program from before; their users run: reeve service restart"
  ;;
configure: | 1:* | *.*:*) # the last is a version, as on Arch
  echo "Reeve is installed. Each user who wants a service registers their own: reeve service install"
  ;;
esac
