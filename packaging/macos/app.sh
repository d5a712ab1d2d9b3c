#!/bin/sh
# app.sh OUT/Reeve.app PROGRAM... lays out the bundle from built programs. It
# runs on a Mac and elsewhere; without reeve-desktop, which only a Mac can
# build, the bundle has everything else and does not start.
set -eu
cd "$(dirname "$0")/../.."
app=$1
shift
version=$(sed -n 's/^const Version = "\(.*\)"/\1/p' assets/version.go)
rm -rf "$app"
mkdir -p "$app/Contents/MacOS" "$app/Contents/Resources"
sed "s/@VERSION@/$version/" packaging/macos/Info.plist.in >"$app/Contents/Info.plist"
printf 'APPL????' >"$app/Contents/PkgInfo"
for program; do
  cp "$program" "$app/Contents/MacOS/"
  chmod 755 "$app/Contents/MacOS/$(basename "$program")"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go run ./packaging/icons/generate -app "$work"
cp "$work/reeve.icns" "$app/Contents/Resources/"
go run ./packaging/licences "$@" >"$work/licences"
{ cat packaging/linux/copyright; echo; cat "$work/licences"; } | sed 's/third-party-licences.gz beside this one/below/' >"$app/Contents/Resources/Licences.txt"
