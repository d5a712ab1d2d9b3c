# Part of test-packages.sh: what can be looked at without a Mac.

macos() {
  tar -xzf "$dist/reeve-$version-macos-universal.tar.gz" -C "$work"
  program=$work/reeve-$version-macos-universal/bin/reeve
  check "the program is for both processors" sh -c "file -b '$program' | grep 'Mach-O universal binary with 2 architectures.*x86_64.*arm64'"
  check "the archive has manuals and completions" ls "$work/reeve-$version-macos-universal/share/man/man1/reeve.1.gz" "$work/reeve-$version-macos-universal/share/completions/_reeve"

  app=$work/Reeve.app
  check "the bundle is laid out" packaging/macos/app.sh "$app" "$program"
  check "it has what a bundle has, and nothing else" same "$(cd "$app" && find . -type f | sort | tr '\n' ' ')" \
    "./Contents/Info.plist ./Contents/MacOS/reeve ./Contents/PkgInfo ./Contents/Resources/Licences.txt ./Contents/Resources/reeve.icns "
  check "its programs run" test -x "$app/Contents/MacOS/reeve"
  plist=$app/Contents/Info.plist
  if have plistutil; then
    # To Apple's binary form and back: what comes through was understood.
    for f in "$plist" packaging/macos/entitlements.plist; do
      check "$(basename "$f") is a property list" sh -c "plistutil -i '$f' -f bin -o '$work/plist.bin' && plistutil -i '$work/plist.bin' -f xml -o '$work/$(basename "$f")' && grep '<dict' '$work/$(basename "$f")'"
    done
    tr -d '\n\t' <"$work/Info.plist" >"$work/plist"
    for pair in "CFBundleIdentifier $id" "CFBundleExecutable reeve-desktop" "CFBundleIconFile reeve.icns" "CFBundleShortVersionString $version" "CFBundleVersion $version" "CFBundlePackageType APPL"; do
      check "it says ${pair%% *}" grep "<key>${pair%% *}</key><string>${pair#* }</string>" "$work/plist"
    done
    check "it is a program of the menu bar" grep '<key>LSUIElement</key><true/>' "$work/plist"
  else
    skip "the property list (no plistutil)"
  fi
  if have icns2png; then
    check "the icon has every size" sh -c "icns2png -l '$app/Contents/Resources/reeve.icns' | tee /dev/stderr | grep -c \"^ *'ic\" | grep -x 11"
  else
    skip "the icon (no icns2png)"
  fi
  for script in packaging/macos/*.sh; do check "$script can be read by sh" sh -n "$script"; done
  check "release.sh says where it runs" sh -c 'packaging/macos/release.sh 2>&1 | grep "needs a Mac"'
}
