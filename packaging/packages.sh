#!/bin/sh
# `make packages`: builds into dist/ everything that this machine can build.
#   linux    reeve as .deb, .rpm, Arch package and tar.gz for amd64 and arm64;
#            reeve-desktop for the architecture of this machine, as it needs cgo
#   windows  the installer for amd64, where mingw and makensis are
#   macos    the command line for both architectures in one program; the rest
#            needs a Mac: packaging/macos/release.sh
# Arguments name some of them; none is all; `tools` only fetches what they need.
# The same sources and tools give the same bytes, wherever they lie: times are
# the commit's, or SOURCE_DATE_EPOCH.
# DIST names another folder for the results, ARCHITECTURES those for Linux, and
# DESKTOP=no leaves the desktop out of the installer for Windows, as Fyne takes
# ten minutes there when nothing of it is cached.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC CGO_ENABLED=0
unset GOFLAGS GOAMD64 GOARM64 CGO_CFLAGS CGO_LDFLAGS 2>/dev/null || true
umask 022
nfpm="go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"
cyclonedx="go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
if [ "$*" = tools ]; then
  $nfpm --version >/dev/null && $cyclonedx version >/dev/null
  exit
fi
version=$(sed -n 's/^const Version = "\(.*\)"/\1/p' assets/version.go)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
host=$(go env GOHOSTARCH)
dist=${DIST:-dist}
architectures=${ARCHITECTURES:-amd64 arm64}
[ $# -gt 0 ] || set -- linux windows macos
rm -rf "$dist"
mkdir -p "$dist/work"
dist=$(cd "$dist" && pwd)
work=$dist/work
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

say() { echo "packages: $*"; }

# step runs a function and says how long it took.
step() {
  began=$(date +%s)
  "$@"
  say "$(($(date +%s) - began)) s: $*"
}

# build OS ARCH PROGRAM [LINKER FLAGS]: the flags are the Makefile's, so that
# both use the same cache.
build() {
  GOOS=$1 GOARCH=$2 go build -buildvcs=false -trimpath -ldflags "-s -w${4:+ $4}" -o "$work/$1-$2/" "./cmd/$3"
}

# fill NAME=VALUE... < TEMPLATE puts values in place of @NAME@.
fill() {
  script="s|@VERSION@|$version|g;s|@DATE@|$(date -u -d "@$SOURCE_DATE_EPOCH" +%F)|g"
  for pair; do script="$script;s|@${pair%%=*}@|${pair#*=}|g"; done
  sed "$script"
}

# archive FILE FOLDER packs a folder so that the same files give the same bytes.
archive() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -C "$(dirname "$2")" -cf - "$(basename "$2")" | gzip -9n >"$1"
}

# common makes what every package holds: manuals, completions, icons.
common() {
  go run ./packaging/manual "$work/manual"
  go run ./packaging/icons/generate -app "$work/icons"
}

# bill OS ARCH PROGRAM writes a program's bill of materials.
bill() {
  $cyclonedx bin -json -std -noserial -notimestamp -version "v$version" -output "$dist/${3%.exe}-$version-$1-$2.cdx.json" "$work/$1-$2/$3" 2>"$work/bill" || { cat "$work/bill"; exit 1; }
}

# doc FOLDER PROGRAM... fills the folder of a package's documents.
doc() {
  to=$1
  shift
  mkdir -p "$to"
  go run ./packaging/licences "$@" >"$work/licences"
  gzip -9n <"$work/licences" >"$to/third-party-licences.gz"
  cp packaging/linux/copyright "$to/copyright"
}

linux() {
  for arch in $architectures; do
    build linux $arch reeve
    stage=$work/stage/reeve-$arch
    mkdir -p "$stage/usr/bin" "$stage/usr/share/man" "$stage/usr/share/bash-completion/completions" "$stage/usr/share/zsh/vendor-completions" "$stage/usr/share/fish/vendor_completions.d"
    cp "$work/linux-$arch/reeve" "$stage/usr/bin/"
    cp -r "$work/manual/man" "$stage/usr/share/man/man1"
    cp "$work/manual/completions/reeve" "$stage/usr/share/bash-completion/completions/"
    cp "$work/manual/completions/_reeve" "$stage/usr/share/zsh/vendor-completions/"
    cp "$work/manual/completions/reeve.fish" "$stage/usr/share/fish/vendor_completions.d/"
    doc "$stage/usr/share/doc/reeve" "$work/linux-$arch/reeve"
    changelog reeve "$stage"
    bill linux $arch reeve
    package reeve $arch packaging/linux/nfpm.yaml
  done
  desktop
  for arch in $architectures; do tarball $arch; done
}

# changelog PACKAGE STAGE: Debian wants one; what changed is in the releases.
changelog() {
  printf '%s (%s-1) unstable; urgency=medium\n\n  * Release %s.\n\n -- The Reeve authors <maintainers@reevehq.github.io>  %s\n' \
    "$1" "$version" "$version" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$2/changelog.gz"
}

# desktop packs the program with a window, for this machine's architecture.
desktop() {
  (CGO_ENABLED=1 build linux "$host" reeve-desktop)
  stage=$work/stage/reeve-desktop-$host
  mkdir -p "$stage/usr/bin" "$stage/usr/share/metainfo" "$stage/usr/share/man/man1" "$stage/usr/share/icons"
  cp "$work/linux-$host/reeve-desktop" "$stage/usr/bin/"
  fill <packaging/linux/reeve-desktop.1 | gzip -9n >"$stage/usr/share/man/man1/reeve-desktop.1.gz"
  fill <packaging/linux/io.github.reevehq.reeve.metainfo.xml.in >"$stage/usr/share/metainfo/io.github.reevehq.reeve.metainfo.xml"
  cp -r "$work/icons/hicolor" "$stage/usr/share/icons/"
  doc "$stage/usr/share/doc/reeve-desktop" "$work/linux-$host/reeve-desktop"
  changelog reeve-desktop "$stage"
  bill linux "$host" reeve-desktop
  # The oldest C library that has all that the program was linked to.
  glibc=$(readelf -V "$stage/usr/bin/reeve-desktop" | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -1)
  package reeve-desktop "$host" packaging/linux/nfpm-desktop.yaml "GLIBC=${glibc#GLIBC_}"
}

# package NAME ARCH CONFIG [NAME=VALUE...]
package() {
  name=$1 arch=$2 config=$3
  shift 3
  find "$work/stage/$name-$arch" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  fill "ARCH=$arch" "STAGE=$work/stage/$name-$arch" "$@" <"$config" >"$work/nfpm.yaml"
  for format in deb rpm archlinux; do
    if [ $format = archlinux ]; then # it has one line for a description
      awk '/^[^ ]/ { d = /^description:/ } !d || n < 2 { print } d { n++ }' "$work/nfpm.yaml" >"$work/arch.yaml"
      mv "$work/arch.yaml" "$work/nfpm.yaml"
    fi
    $nfpm package --config "$work/nfpm.yaml" --packager $format --target "$dist/" >"$work/nfpm.out" 2>&1 || { cat "$work/nfpm.out"; exit 1; }
  done
}

# tarball ARCH holds all files of the packages below one folder, which can be
# copied to /usr/local or ~/.local.
tarball() {
  top=$work/tar/reeve-$version-linux-$1
  mkdir -p "$top"
  cp -r "$work/stage/reeve-$1/usr/." "$top/"
  if [ -d "$work/stage/reeve-desktop-$1" ]; then
    cp -r "$work/stage/reeve-desktop-$1/usr/." "$top/"
    install -D -m 644 packaging/linux/io.github.reevehq.reeve.desktop "$top/share/applications/io.github.reevehq.reeve.desktop"
    install -D -m 644 packaging/linux/autostart/io.github.reevehq.reeve.desktop "$top/share/doc/reeve-desktop/autostart/io.github.reevehq.reeve.desktop"
  fi
  archive "$dist/reeve-$version-linux-$1.tar.gz" "$top"
}

windows() {
  if ! command -v makensis >/dev/null || ! command -v x86_64-w64-mingw32-gcc >/dev/null; then
    say "no makensis or mingw here, so no installer for Windows: packaging/deps.sh packages"
    return
  fi
  in=$work/windows-amd64
  build windows amd64 reeve
  if [ "${DESKTOP:-yes}" = yes ]; then
    (CGO_ENABLED=1 CC=x86_64-w64-mingw32-gcc build windows amd64 reeve-desktop "-H windowsgui")
  else
    say "the installer for Windows is without the desktop"
  fi
  for program in "$in"/*.exe; do bill windows amd64 "$(basename "$program")"; done
  go run ./packaging/licences "$in"/*.exe >"$work/licences"
  { cat packaging/linux/copyright; echo; cat "$work/licences"; } |
    sed 's/third-party-licences.gz beside this one/below/;s/$/\r/' >"$in/LICENCES.txt"
  cp "$work/icons/reeve.ico" "$work/manual/completions/reeve.ps1" "$in/"
  [ -z "${SIGN:-}" ] || for program in "$in"/*.exe; do "$SIGN" "$program"; done
  find "$in" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
  makensis -V2 -WX -DVERSION="$version" -DIN="$in" -DOUT="$dist/reeve-$version-windows-amd64-setup.exe" ${SIGN:+-DSIGN="$SIGN"} packaging/windows/reeve.nsi
}

macos() {
  for arch in amd64 arm64; do
    build darwin $arch reeve
    bill darwin $arch reeve
  done
  top=$work/tar/reeve-$version-macos-universal
  mkdir -p "$top/bin" "$top/share/man" "$top/share/completions"
  go run ./packaging/macos/universal "$top/bin/reeve" "$work/darwin-amd64/reeve" "$work/darwin-arm64/reeve"
  cp -r "$work/manual/man" "$top/share/man/man1"
  cp "$work/manual/completions/"* "$top/share/completions/"
  doc "$top/share/doc/reeve" "$work/darwin-arm64/reeve"
  archive "$dist/reeve-$version-macos-universal.tar.gz" "$top"
}

step common
for target; do step "$target"; done
rm -rf "$work"
(cd "$dist" && sha256sum ./* | sed 's| \./| |' >SHA256SUMS)
say "$version in $dist, dated $(date -u -d "@$SOURCE_DATE_EPOCH" +%F)"
(cd "$dist" && ls -l | awk 'NR > 1 { printf "%10d  %s\n", $5, $9 }')
