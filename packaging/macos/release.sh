#!/bin/sh
# Makes Reeve for macOS, on a Mac with Xcode's command line tools and Go: a
# universal Reeve.app, in a .dmg to drag from and in a .pkg that installs it for
# all users and puts `reeve` on the PATH.
#
#   APP_IDENTITY="Developer ID Application: …"       signs programs and bundle
#   INSTALLER_IDENTITY="Developer ID Installer: …"   signs the .pkg
#   NOTARY_PROFILE=name      notarises with a profile of `xcrun notarytool store-credentials`
#
# Without them it makes the same, signed for this Mac only.
set -eu
cd "$(dirname "$0")/../.."
[ "$(uname)" = Darwin ] || { echo "release.sh: this needs a Mac; packages.sh makes what others can build" >&2; exit 1; }
version=$(sed -n 's/^const Version = "\(.*\)"/\1/p' assets/version.go)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH MACOSX_DEPLOYMENT_TARGET=12.0
dist=${DIST:-dist}
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { GOOS=darwin GOARCH=$1 go build -buildvcs=false -trimpath -ldflags "-s -w" -o "$work/$1/" "./cmd/$2"; }
for arch in amd64 arm64; do
  clang=arm64
  [ $arch = arm64 ] || clang=x86_64
  CGO_ENABLED=0 build $arch reeve
  CGO_ENABLED=1 CC="clang -arch $clang" build $arch reeve-desktop
done
mkdir "$work/bin"
for program in reeve reeve-desktop; do
  lipo -create -output "$work/bin/$program" "$work/amd64/$program" "$work/arm64/$program"
done

app=$work/Reeve.app
packaging/macos/app.sh "$app" "$work/bin/reeve" "$work/bin/reeve-desktop"
plutil -lint "$app/Contents/Info.plist"

# Inside out: a bundle's signature covers those of its programs.
sign() { codesign --force --timestamp --options runtime --entitlements packaging/macos/entitlements.plist --sign "$APP_IDENTITY" "$@"; }
[ -n "${APP_IDENTITY:-}" ] || sign() { codesign --force --sign - "$@"; }
sign --identifier io.github.reevehq.reeve.cli "$app/Contents/MacOS/reeve"
sign "$app"
codesign --verify --strict --verbose=2 "$app"

# notarise FILE waits for Apple's word and attaches it.
notarise() {
  [ -n "${NOTARY_PROFILE:-}" ] || return 0
  xcrun notarytool submit "$1" --keychain-profile "$NOTARY_PROFILE" --wait
  xcrun stapler staple "$1"
}
if [ -n "${NOTARY_PROFILE:-}" ]; then
  ditto -c -k --keepParent "$app" "$work/Reeve.zip"
  xcrun notarytool submit "$work/Reeve.zip" --keychain-profile "$NOTARY_PROFILE" --wait
  xcrun stapler staple "$app"
fi

mkdir "$work/dmg"
cp -R "$app" "$work/dmg/"
ln -s /Applications "$work/dmg/Applications"
dmg=$dist/Reeve-$version.dmg
hdiutil create -quiet -ov -volname "Reeve $version" -srcfolder "$work/dmg" -format UDZO "$dmg"
[ -z "${APP_IDENTITY:-}" ] || codesign --timestamp --sign "$APP_IDENTITY" "$dmg"
notarise "$dmg"

# The package starts nothing and registers nothing: `reeve service install` does
# that for one user.
root=$work/root
mkdir -p "$root/Applications" "$root/usr/local/bin"
cp -R "$app" "$root/Applications/"
ln -s /Applications/Reeve.app/Contents/MacOS/reeve "$root/usr/local/bin/reeve"
pkgbuild --quiet --root "$root" --identifier io.github.reevehq.reeve.pkg --version "$version" --install-location / "$work/reeve.pkg"
pkg=$dist/Reeve-$version.pkg
productbuild --quiet --package "$work/reeve.pkg" ${INSTALLER_IDENTITY:+--sign "$INSTALLER_IDENTITY"} "$pkg"
notarise "$pkg"
(cd "$dist" && shasum -a 256 "Reeve-$version.dmg" "Reeve-$version.pkg" >>SHA256SUMS)
ls -l "$dmg" "$pkg"
