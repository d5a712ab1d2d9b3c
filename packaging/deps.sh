#!/bin/sh
# Installs what building (build), testing (test), or making and testing packages
# (packages) needs on a bare Debian or Ubuntu machine. Elsewhere it only says what is missing.
set -eu
case "${1:-build}" in
build) want="gcc libc6-dev pkg-config git libgl1-mesa-dev xorg-dev" ;;
test)  want="gcc libc6-dev git nodejs npm libgl1-mesa-dev xorg-dev xvfb xauth xdotool wmctrl openbox imagemagick x11-utils
  dbus dbus-bin systemd dunst libnotify-bin libglib2.0-bin gnome-keyring xfce4-panel xfconf iproute2 procps strace fonts-noto-cjk" ;;
packages) want="gcc libc6-dev pkg-config git libgl1-mesa-dev xorg-dev binutils nsis gcc-mingw-w64-x86-64
  debootstrap rpm pacman-package-manager libarchive-tools lintian rpmlint desktop-file-utils appstream man-db
  wine wine64 xvfb xauth xdotool imagemagick libplist-utils icnsutils file openssl osslsigncode procps" ;;
*) echo "usage: deps.sh build|test|packages" >&2; exit 2 ;;
esac
command -v dpkg-query >/dev/null 2>&1 || { echo "Not a Debian-like system; needed are the equivalents of: $want"; exit 0; }
missing=""
for p in $want; do
  case $p in
  nodejs) command -v node >/dev/null 2>&1 && continue ;;
  npm) command -v npm >/dev/null 2>&1 && continue ;;
  gcc) command -v gcc >/dev/null 2>&1 && continue ;;
  esac
  dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^ii' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
sudo=""
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "Please install:$missing" >&2; exit 1; }
  sudo=sudo
fi
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
