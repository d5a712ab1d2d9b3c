# Part of test-packages.sh: the installer, the launcher and the code for Windows
# under Wine. That is not Windows: what it lacks is made up for here and by the
# build tag testhooks.

windows() {
  setup=$dist/reeve-$version-windows-amd64-setup.exe
  [ -f "$setup" ] || { skip "the installer (it was not built)"; return; }
  if ! have wine || ! have Xvfb || ! have x86_64-w64-mingw32-gcc; then
    skip "the installer (no wine, Xvfb or mingw)"
    return
  fi
  parts || { skip "the code for Windows (it was not built)"; cat "$work/parts.log"; }
  # Wine has no access lists, and takes what they say from the mode.
  umask 077
  export HOME="$work/winehome" WINEPREFIX="$work/wine" WINEDEBUG=-all WINEARCH=win64 WINEPATH="Z:$(echo "$work/overlay" | tr / '\\')" WINEDLLOVERRIDES="mscoree,mshtml="
  mkdir "$HOME" "$WINEPREFIX"
  Xvfb -displayfd 3 -screen 0 1280x800x24 -nolisten tcp -noreset 3>"$work/winedisplay" >/dev/null 2>&1 &
  within 20 test -s "$work/winedisplay" || { skip "the installer (Xvfb doesn't start)"; return; }
  DISPLAY=:$(cat "$work/winedisplay")
  export DISPLAY
  wineboot -i >"$work/said" 2>&1 || { skip "the installer (wine does not start: $(tail -1 "$work/said"))"; return; }
  wineserver -w
  drive=$WINEPREFIX/drive_c
  # Wine 8 has no bcryptprimitives.dll, which every program of Go opens. Only
  # this prefix gets one.
  cat >"$work/prng.c" <<C
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n) { return SystemFunction036(p, (ULONG)n); }
C
  x86_64-w64-mingw32-gcc -shared -o "$drive/windows/system32/bcryptprimitives.dll" "$work/prng.c" -ladvapi32
  [ ! -d "$work/parts" ] || run_parts
  uninstall='Software\Microsoft\Windows\CurrentVersion\Uninstall\Reeve'
  programs=$(find "$drive/users" -maxdepth 1 -type d -name "$(id -un)")/AppData/Local/Programs/Reeve
  check "file properties say the version" sh -c "strings -el '$setup' | grep -x '$version'"

  # One user, whose PATH is longer than NSIS's strings.
  long=
  for n in $(seq 1 60); do long="$long;C:\\a folder of many\\number $n"; done
  long=${long#;}
  reg add 'HKCU\Environment' /v Path /t REG_EXPAND_SZ /d "$long" /f
  listing_of_wine >"$work/before"
  check "it installs for one user" in_wine "$setup" /S /CurrentUser
  check "its files are there" ls "$programs/reeve.exe" "$programs/uninstall.exe" "$programs/LICENCES.txt"
  check "reeve says its version" sh -c "wine '$programs/reeve.exe' version | tr -d '\r' | grep '^reeve $version '"
  check "Settings say the version" same "$(value HKCU "$uninstall" DisplayVersion)" "$version"
  check "nothing is written for all users" same "$(value HKLM "$uninstall" DisplayVersion)" ""
  place=$(value HKCU "$uninstall" InstallLocation)
  check "a long PATH is kept whole" same "$(value HKCU Environment Path)" "$long;$place"
  if [ -f "$programs/reeve-desktop.exe" ]; then
    check "the tray starts at log-on" same "$(value HKCU 'Software\Microsoft\Windows\CurrentVersion\Run' 'Reeve Desktop')" "\"$place\\reeve-desktop.exe\" -hidden"
    check "the Start menu has it" test -f "$(find "$drive/users" -name Reeve.lnk)"
    render
  fi
  desktop_under_wine
  check "it installs once more, over itself" wine "$setup" /S /CurrentUser
  check "the PATH has it once" same "$(value HKCU Environment Path)" "$long;$place"
  check "it is removed" wine "$programs/uninstall.exe" /S /CurrentUser
  check "the PATH is as before" within 30 as_before "$long"
  check "the tray was ended" within 30 no_desktop
  wineserver -w
  check "no entry is left" same "$(value HKCU "$uninstall" DisplayVersion)$(value HKCU 'Software\Microsoft\Windows\CurrentVersion\Run' 'Reeve Desktop')" ""
  listing_of_wine >"$work/after"
  check "no file is left" diff "$work/before" "$work/after"

  check "it installs for all users" in_wine "$setup" /S /AllUsers
  check "its files are there" ls "$drive/Program Files/Reeve/reeve.exe"
  check "Settings say the version" same "$(value HKLM "$uninstall" DisplayVersion)" "$version"
  check "nothing is written for one user" same "$(value HKCU "$uninstall" DisplayVersion)$(value HKCU Environment Path)" "$long"
  check "the PATH of all has it" sh -c 'echo "$1" | grep -F "C:\Program Files\Reeve"' sh "$(value HKLM 'SYSTEM\CurrentControlSet\Control\Session Manager\Environment' Path)"
  [ ! -d "$work/parts" ] || registered
  check "it is removed" in_wine "$drive/Program Files/Reeve/uninstall.exe" /S /AllUsers
  check "the launcher is removed" same "$(value HKLM "$launcher" ImagePath)" ""
  [ ! -d "$work/parts" ] || check "the state is kept" test -f "$(echo "$drive"/users/*/AppData/Local/Reeve/reeve.db)"
  check "no service is registered" same "$(value HKCU 'Software\Reeve\Service' Exe)" ""
  within 30 test ! -e "$drive/Program Files/Reeve" || true
  listing_of_wine >"$work/after"
  check "no file is left" diff "$work/before" "$work/after"
  check "no entry is left" same "$(value HKLM "$uninstall" DisplayVersion)" ""
  signing
}

# parts builds the tests of the packages that have code for Windows, and a reeve
# for tests. Wine 8 can't delete files as Go wants it first; Go's other way,
# for an old Windows, is switched on.
parts() {
  mkdir "$work/parts" "$work/overlay"
  at=$(go env GOROOT)/src/internal/syscall/windows/at_windows.go
  sed 's/^var TestDeleteatFallback bool$/var TestDeleteatFallback = true/' "$at" >"$work/overlay/at_windows.go"
  echo "{\"Replace\":{\"$at\":\"$work/overlay/at_windows.go\"}}" >"$work/overlay/overlay.json"
  (
    export GOOS=windows GOARCH=amd64 CGO_ENABLED=0
    for p in ipc/sock service/internal/private service/internal/proc service/osservice; do
      go test -c -trimpath -tags testhooks -overlay "$work/overlay/overlay.json" -o "$work/parts/$(basename "$p").exe" "./$p" || exit 1
    done
    go build -buildvcs=false -trimpath -tags testhooks -overlay "$work/overlay/overlay.json" -o "$work/overlay/reeve.exe" ./cmd/reeve &&
      go build -trimpath -o "$work/overlay/git.exe" ./packaging/windows/winegit
  ) >"$work/parts.log" 2>&1 && go build -trimpath -o "$work/overlay/winegit" ./packaging/windows/winegit || { rm -rf "$work/parts"; return 1; }
}
run_parts() {
  for part in "$work/parts"/*.exe; do
    check "the tests of $(basename "$part" .exe) pass under Wine" timeout -k 5 200 wine "$part" -test.v -test.timeout 180s
    wineserver -k || true
    wineserver -w
  done
}

launcher='SYSTEM\CurrentControlSet\Services\ReeveLauncher'
# registered registers the service with the Service Control Manager, from a
# reeve for tests: real pipes hang under Wine. The uninstaller removes it.
registered() {
  reeve="$drive/Program Files/Reeve/reeve.exe"
  cp "$work/overlay/reeve.exe" "$reeve"
  check "the service is registered" service_says install 'registered with windows'
  check "the launcher is the installed program" same "$(value HKLM "$launcher" ImagePath)" '"C:\Program Files\Reeve\reeve.exe" service launch'
  check "the launcher runs" sh -c "wine net start | tr -d '\r' | grep -x ' *Reeve launcher'"
  check "nothing is started at log-on beside it" same "$(value HKCU 'Software\Microsoft\Windows\CurrentVersion\Run' Reeve)" ""
  check "the service answers" service_says status '^Service running'
  check "the service ends" service_says stop ended
  check "it says so" service_says status 'not running'
  check "the service starts" service_says start '^Service running'
  mission
}
service_says() { # COMMAND PATTERN
  reeve_says service "$1"
  grep -q "$2" "$work/reeve"
}
reeve_says() {
  # Through a file: a service that it starts keeps what it writes to.
  timeout -k 5 60 wine "$reeve" "$@" >"$work/raw" 2>&1 </dev/null || true
  tr -d '\r' <"$work/raw" | tee "$work/reeve"
}

# mission does the demo's mission: with a guard, its keeper, a job, pipes, and a
# service that is killed meanwhile.
mission() {
  "$work/overlay/winegit" "$drive" "$work/overlay" >"$work/winegit.log" 2>&1 &
  reeve_says demo >/dev/null
  check "a mission is allowed" answer
  check "its agent asks for a change" within 60 asks 'wants to change convert.sh'
  mission=$(sed -n 's/.*needs you  *\([a-z0-9]*\) .*/\1/p' "$work/reeve")
  check "Reeve is not removed below a mission" refuses_removal
  reeve_says service status --json >/dev/null
  # Wine takes that for an orderly end, after which the launcher leaves it be.
  wine taskkill /F /PID "$(field pid <"$work/reeve")" >/dev/null 2>&1 </dev/null
  check "the service that was killed is gone" within 20 service_says status 'not running'
  check "it starts again" service_says start '^Service running .* generation 3'
  check "it took the worker over" service_says logs 'its guard was adopted; nothing was interrupted'
  reeve_says show "$mission" >/dev/null
  check "the change is allowed" answer
  check "its agent asks to run a program" within 60 asks 'wants to run sh check.sh'
  reeve_says show "$mission" >/dev/null
  check "the program is allowed" answer
  check "the mission is done" within 60 asks '✓ done'
  check "the change was made" sh -c 'grep "5 / 9" "$1"/users/*/Temp/reeve-demo-*/convert.sh' sh "$drive"
  check "nothing of it runs" sh -c '! pgrep -fa "reeve\.exe\"* (guard|demo-agent)"'
}
# refuses_removal: with _?= the uninstaller neither moves away nor goes on behind
# its caller's back.
refuses_removal() {
  code=0
  printf '@"%s\\uninstall.exe" /S /AllUsers _?=%s\r\n@exit %%errorlevel%%\r\n' 'C:\Program Files\Reeve' 'C:\Program Files\Reeve' >"$drive/remove.bat" # quotes would hide it
  timeout -k 5 120 wine cmd /c 'C:\remove.bat' </dev/null >/dev/null 2>&1 || code=$?
  rm "$drive/remove.bat"
  same "$code" 2 && test -f "$reeve" && service_says status '^1 live mission'
}
asks() {
  reeve_says ls
  grep -q "$1" "$work/reeve"
}
# answer allows what reeve said last that can be allowed.
answer() {
  id=$(sed -n 's/.*reeve allow \([a-z0-9]*\).*/\1/p' "$work/reeve" | head -1)
  reeve_says allow "$id"
  reeve_says allow "$id" --digest "$(sed -n 's/.*--digest \([0-9a-f]*\).*/\1/p' "$work/reeve" | head -1)"
  grep -x Allowed. "$work/reeve"
}

in_wine() { wine "$@" && wineserver -w; }
reg() { wine reg "$@" >/dev/null 2>&1; wineserver -w; }
# value ROOT KEY NAME reads from the registry; nothing when it isn't there.
value() { wine reg query "$1\\$2" /v "$3" 2>/dev/null | tr -d '\r' | sed -n 's/^ *.* *REG_[A-Z_]* *//p'; }
as_before() { [ "$(value HKCU Environment Path)" = "$1" ]; }
listing_of_wine() { (cd "$drive" && find . -path ./windows -prune -o -path '*/Temp/*' -prune -o -path '*/AppData/Local/Reeve/*' -prune -o -type f -print | sort); }

# render looks whether the window is drawn: of some size, and with letters in it.
render() {
  have xdotool && have import || { skip "the window under Wine (no xdotool or imagemagick)"; return; }
  LIBGL_ALWAYS_SOFTWARE=1 wine "$programs/reeve-desktop.exe" >"$work/winedesktop" 2>&1 &
  check "the window opens under Wine" within 120 xdotool search --onlyvisible --name '^Reeve$'
  check "the window is drawn" within 60 drawn
  [ -z "${KEEP:-}" ] || cp "$work/window.png" "$KEEP/"
  wineserver -k || true
  wineserver -w
}
drawn() {
  id=$(xdotool search --onlyvisible --name '^Reeve$' | head -1)
  import -window "$id" "$work/window.png"
  identify -format '%w x %h, %k colours\n' "$work/window.png"
  [ "$(identify -format '%[fx:w>=800&&h>=500]' "$work/window.png")" = 1 ] && [ "$(identify -format %k "$work/window.png")" -gt 50 ]
}
# desktop_under_wine starts the tray, for those who upgrade and remove below it.
desktop_under_wine() {
  [ -f "$programs/reeve-desktop.exe" ] || return 0
  LIBGL_ALWAYS_SOFTWARE=1 wine "$programs/reeve-desktop.exe" >"$work/winedesktop" 2>&1 &
  check "the window is there in an upgrade" within 120 xdotool search --onlyvisible --name '^Reeve$'
}
no_desktop() { ! pgrep -f 'reeve-desktop\.exe' >/dev/null; }

# signing tries the Authenticode step with a certificate of the test's own.
signing() {
  if ! have osslsigncode || ! have openssl; then
    skip "signing (no osslsigncode or openssl)"
    return
  fi
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=Reeve test" -addext extendedKeyUsage=codeSigning -keyout "$work/key.pem" -out "$work/cert.pem" >/dev/null 2>&1
  cp "$setup" "$work/signed.exe"
  check "the installer is signed" env SIGN_CERTIFICATE="$work/cert.pem" SIGN_KEY="$work/key.pem" packaging/windows/sign.sh "$work/signed.exe"
  # Its exit code says little; its text says what was found.
  check "the signature is of the certificate" sh -c "osslsigncode verify -CAfile '$work/cert.pem' -in '$work/signed.exe' 2>&1 | tee '$work/verify' | grep 'CN=Reeve test' && grep -i 'signature verification: ok' '$work/verify'"
}
