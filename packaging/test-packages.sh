#!/bin/sh
# `make test-packages`: the packages in dist/, made by `make packages`, are
# installed, used, upgraded in a live mission, and removed.
#
#   twice    built again in another folder, they are the same, byte for byte
#   debian   in a clean root, with the dependencies that they name: versions,
#            doctor, the demo mission, the window; below a user manager of systemd
#            a crash, an upgrade and a restart of the machine, each in the middle
#            of a mission; and what is left after a removal
#   bare     the same by dpkg in an empty folder, used from there on the system of
#            this machine, without systemd: also where no clean root can be made
#   rpm, arch  installed and removed in that root; what they hold
#   linux    desktop entry, metadata, icons, manuals; lintian and rpmlint
#   windows  installed, upgraded and removed under Wine: files, registry, PATH
#   macos    the bundle, its property list, its icon, its architectures
#
# Arguments name some of them; none is all. It needs root, as it makes roots and
# namespaces of its own; what it can't do here it says, and counts.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
if [ "${REEVE_TEST_PACKAGES:-}" = "" ]; then
  [ "$(id -u)" = 0 ] || { echo "test-packages: it needs root, for roots of its own" >&2; exit 77; }
  unshare --mount --pid --fork --mount-proc true 2>/dev/null || { echo "test-packages: no namespaces can be made here" >&2; exit 77; }
  # Mounts and processes end with the namespaces.
  REEVE_TEST_PACKAGES=$(mktemp -d)
  export REEVE_TEST_PACKAGES
  clean() {
    group=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/reeve-$(basename "$REEVE_TEST_PACKAGES")
    for _ in 1 2 3 4 5; do # what was killed leaves its group a moment later
      [ -d "$group" ] && ! find "$group" -depth -type d -exec rmdir {} + || break
      sleep 0.2
    done
    rm -rf "$REEVE_TEST_PACKAGES"
  }
  trap clean EXIT
  child=
  trap '[ -z "$child" ] || { kill -KILL "$child"; wait "$child" || true; }; exit 130' INT TERM
  status=0
  unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@" &
  child=$!
  wait "$child" || status=$?
  exit $status
fi
work=$REEVE_TEST_PACKAGES
chmod 755 "$work"
dist=$(cd "${DIST:-dist}" && pwd)
version=$(sed -n 's/^const Version = "\(.*\)"/\1/p' assets/version.go)
next=${version%.*}.$((${version##*.} + 1))
host=$(go env GOHOSTARCH)
id=io.github.reevehq.reeve
export LC_ALL=C.UTF-8 TZ=UTC
cache=$top/.cache/packages
mkdir -p "$cache"
passed=0 failed=0 skipped=0
[ $# -gt 0 ] || set -- twice debian bare rpm arch linux windows macos

# check WHAT COMMAND... passes when the command does. What it said is in
# $work/said until the next.
check() {
  what=$1
  shift
  if "$@" >"$work/now" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "test-packages: FAILED: $what"
    tail -40 "$work/now" | sed 's/^/    /'
  fi
  mv "$work/now" "$work/said"
}
skip() {
  skipped=$((skipped + 1))
  echo "test-packages: not here: $*"
}
same() { [ "$1" = "$2" ] || { printf 'got:  %s\nwant: %s\n' "$1" "$2"; return 1; }; }
empty() { [ -z "$1" ] || { echo "$1"; return 1; }; }
have() { command -v "$1" >/dev/null; }

# copy FOLDER is the tree as it is here, with another version if one is given.
copy() {
  mkdir -p "$1"
  git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh | tar -cf - --null -T - | tar -xf - -C "$1"
  [ -z "${2:-}" ] || sed -i "s/^const Version = .*/const Version = \"$2\"/" "$1/assets/version.go"
}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

twice() {
  copy "$work/elsewhere"
  targets="linux macos"
  ! ls "$dist"/*setup.exe >/dev/null 2>&1 || targets="$targets windows"
  # COLD=1 compiles everything anew.
  [ -z "${COLD:-}" ] || export GOCACHE="$work/gocache"
  # shellcheck disable=SC2086
  (cd "$work/elsewhere" && SOURCE_DATE_EPOCH=$epoch DIST="$work/again" ./packaging/packages.sh $targets) >"$work/again.log" 2>&1 || { cat "$work/again.log"; failed=$((failed + 1)); return; }
  unset GOCACHE
  check "the same sources give the same bytes" diff "$dist/SHA256SUMS" "$work/again/SHA256SUMS"
  check "the checksums hold" sh -c "cd '$dist' && sha256sum --quiet -c SHA256SUMS"
}

# clean_root makes $root, a Debian of its own with one user, and keeps it for the
# next time as an archive.
clean_root() {
  [ -z "${root:-}" ] || { into "$root" ada /home/ada; return 0; }
  have debootstrap || { echo "there is no debootstrap"; return 1; }
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  kept=$cache/root-$suite-$host.tar
  fresh=$work/root
  mkdir "$fresh"
  if [ -f "$kept" ]; then
    tar -xpf "$kept" -C "$fresh"
  else
    site=$(apt-get indextargets --format '$(SITE)' "Suite: $suite" | head -1)
    [ "$site" ] || site=$(apt-get indextargets --format '$(SITE)' | head -1)
    debootstrap --variant=minbase "$suite" "$fresh" "$site" >"$work/debootstrap.log" 2>&1 || { tail -3 "$work/debootstrap.log"; return 1; }
    # It gets its packages from where this machine does.
    rm -f "$fresh/etc/apt/sources.list"
    for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
      [ ! -f "$f" ] || cp "$f" "$fresh/etc/apt/sources.list.d/"
    done
    apt-config dump | grep '^Acquire::' >"$fresh/etc/apt/apt.conf.d/99host"
    chroot "$fresh" useradd -m -s /bin/sh ada
    chroot "$fresh" apt-get update -qq >/dev/null
    tar -cpf "$kept.new" -C "$fresh" . && mv "$kept.new" "$kept"
  fi
  cp /etc/resolv.conf /etc/hosts "$fresh/etc/"
  mount -t proc proc "$fresh/proc"
  mount --rbind /dev "$fresh/dev"
  mount -t sysfs sysfs "$fresh/sys"
  mount -t tmpfs tmpfs "$fresh/run"
  mkdir -p "$fresh/tmp/.X11-unix"
  root=$fresh
  into "$root" ada /home/ada
}
# bare_root makes $bare, which holds nothing but what packages bring. What they
# depend on is looked for on this machine, whose system they are used on.
bare_root() {
  bare=$work/bare
  mkdir -p "$bare/home/ada" "$bare/tmp" "$bare/var/lib/dpkg/info" "$bare/var/lib/dpkg/updates"
  cp /var/lib/dpkg/status "$bare/var/lib/dpkg/"
  chown 64017:64017 "$bare/home/ada"
  into / 64017 "$bare/home/ada" "$bare"
}
# into ROOT USER HOME [BELOW]: where ada is from now on, and below what the
# programs are.
into() {
  inside=$1 user=$2 home=$3 below=${4:-}
  runtime=
}
in_root() { DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
# ada runs a line as the user, on a terminal of its own: without one Reeve takes
# nobody for a person who decides, once a worker has run.
ada() {
  status_=0
  script -qec "chroot --userspec=$user:$user '$inside' env -i HOME='$home' PATH='$below/usr/bin:/usr/bin:/bin' LANG=C.UTF-8 NO_COLOR=1 ${DISPLAY:+DISPLAY=$DISPLAY} ${runtime:+XDG_RUNTIME_DIR=$runtime} sh -c 'cd; $1'" /dev/null >"$work/tty" 2>&1 </dev/null || status_=$?
  tr -d '\r' <"$work/tty"
  return $status_
}

# field NAME takes the first value of that name out of JSON.
field() { grep -o "\"$1\":\(\"[^\"]*\"\|[0-9]*\)" | head -1 | sed 's/^[^:]*://;s/"//g'; }

# within SECONDS COMMAND... waits until the command says yes.
within() {
  until_=$(($(date +%s) + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$(date +%s)" -lt "$until_" ] || { echo "still not: $*"; return 1; }
    sleep 0.2
  done
}
# listing names all files of the root that packages could have put there.
listing() { (cd "${1:-$root}" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./home -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./packages \) -prune -o -print | sort); }

pending() { [ "$(ada 'reeve approvals --json' | field id)" ]; }
# allow_next allows what waits, after a look at its digest.
allow_next() {
  within 30 pending || return 1
  waiting=$(ada 'reeve approvals --json')
  ada "reeve allow $(echo "$waiting" | field id) --digest $(echo "$waiting" | field digest)"
}
phase() { ada "reeve show $mission --json" | field phase; }
works() { case $(phase) in working | waiting | completed) ;; *) return 1 ;; esac; }
over() { case $(phase) in completed | stopped | denied | startup_failed | blocked) ;; *) return 1 ;; esac; }
# finish allows everything until the mission is over.
finish() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    within 60 pending_or_over || return 1
    ! over || { same "$(phase)" completed; return; }
    allow_next || return 1
  done
  return 1
}
pending_or_over() { pending || over; }

# next_packages makes $work/next: this version with another number. NEXT is a
# folder that has it from before, to save the time.
next_packages() {
  [ ! -d "$work/next" ] || return 0
  if [ -n "${NEXT:-}" ]; then
    cp -r "$NEXT" "$work/next"
    return
  fi
  copy "$work/next-tree" "$next"
  (cd "$work/next-tree" && SOURCE_DATE_EPOCH=$epoch DIST="$work/next" ARCHITECTURES="$host" ./packaging/packages.sh linux) >"$work/next.log" 2>&1 || { cat "$work/next.log"; return 1; }
}

debian() {
  if ! clean_root >"$work/said" 2>&1; then
    skip "a clean root ($(tail -1 "$work/said"))"
    return
  fi
  next_packages || { failed=$((failed + 1)); return; }
  mkdir -p "$root/packages"
  cp "$dist"/*_"$host".deb "$work/next"/*_"$host".deb "$root/packages/"
  # What reeve-desktop needs comes first and stays, so that the listings differ
  # by Reeve alone.
  needs=$(dpkg-deb -f "$root/packages/reeve-desktop_$version-1_$host.deb" Depends | tr ',' '\n' | sed 's/ *(.*//' | grep -v reeve)
  # shellcheck disable=SC2086
  if ! in_root apt-get install -y -qq --no-install-recommends git systemd dbus-user-session $needs >"$work/said" 2>&1; then
    skip "a clean root ($(tail -1 "$work/said"))"
    return
  fi
  listing >"$work/before"
  put() { in_root apt-get install -y --no-install-recommends "/packages/reeve_$1-1_$host.deb" "/packages/reeve-desktop_$1-1_$host.deb"; }
  take() { in_root apt-get purge -y reeve reeve-desktop; }
  check "apt installs both packages" put "$version"
  cp "$work/said" "$work/put"
  check "nothing else was needed" grep ' 2 newly installed' "$work/put"
  lived
  check "the service stops" ada 'reeve service stop --workers' # before a session, whose socket is elsewhere
  if session; then
    managed
  else
    upgrade
    check "the service stops" ada 'reeve service stop --workers'
  fi
  removed "$root"
}

bare() {
  have dpkg || { skip "an empty folder (no dpkg)"; return; }
  next_packages || { failed=$((failed + 1)); return; }
  bare_root
  listing "$bare" >"$work/before"
  by_dpkg() { dpkg --root="$bare" --force-script-chrootless "$@"; }
  put() { for folder in "$dist" "$work/next"; do [ ! -f "$folder/reeve_$1-1_$host.deb" ] || by_dpkg -i "$folder/reeve_$1-1_$host.deb" "$folder/reeve-desktop_$1-1_$host.deb" || return 1; done; }
  take() { by_dpkg --purge reeve reeve-desktop; }
  check "dpkg installs both packages into an empty folder" put "$version"
  cp "$work/said" "$work/put"
  lived
  upgrade
  check "the service stops" ada 'reeve service stop --workers'
  removed "$bare"
}

# lived uses what was just installed, until the demo mission is over; what was
# said by the installation is in $work/put.
lived() {
  check "it says what to do" grep 'Each user who wants a service' "$work/put"
  check "nothing was started" empty "$(pgrep -x reeve || true)"
  check "nothing is missing to link" sh -c "! chroot '$inside' ldd '$below/usr/bin/reeve-desktop' | grep 'not found'"
  check "reeve says its version" same "$(ada 'reeve version --json' | field version)" "$version"
  check "reeve-desktop says its version" same "$(ada 'reeve-desktop -version' | tail -1)" "reeve-desktop $version"
  check "dpkg says the version" same "$(dpkg-query --admindir="$(place)/var/lib/dpkg" -W -f '${Version} ${db:Status-Status}' reeve)" "$version-1 installed"
  check "completion for bash works" bash -c ". '$(place)/usr/share/bash-completion/completions/reeve'; complete -p reeve"
  ada 'reeve doctor' >"$work/doctor" || true
  check "doctor says that there is no service" grep 'The service is not running' "$work/doctor"

  check "the service starts" ada 'setsid reeve service run >service.log 2>&1 & for i in 1 2 3 4 5 6 7 8 9 10; do reeve service status >/dev/null && exit 0; sleep 0.5; done; cat service.log; exit 1'
  ada 'reeve doctor --json' >"$work/doctor" || true
  for name in service 'private state' journal audit 'session logs' git; do
    check "doctor finds well: $name" grep "{\"name\":\"$name\",\"ok\":true" "$work/doctor"
  done
  mission=$(ada 'reeve demo --folder first --propose --json' | field id)
  check "the demo mission runs to its end" finish
  check "it did what was allowed" ada 'grep "5 / 9" first/convert.sh'
  window
}
# place is where the packages' files are, seen from here.
place() { echo "${below:-$root}"; }

# removed takes the packages away again.
removed() {
  check "both packages are removed" take
  check "it says what stays" grep 'Users keep their state' "$work/said"
  listing "$1" >"$work/after"
  check "nothing is left but the user's state" diff "$work/before" "$work/after"
  check "the user's state is there" test -d "$1/home/ada/.local/state/reeve"
}

# window starts the desktop on a screen of this machine's.
window() {
  if ! have Xvfb || ! have xdotool; then
    skip "the window (no Xvfb or xdotool)"
    return
  fi
  Xvfb -displayfd 3 -screen 0 1280x800x24 -nolisten tcp -noreset 3>"$work/display" >/dev/null 2>&1 &
  screen=$!
  within 20 test -s "$work/display" || { skip "the window (Xvfb doesn't start)"; return; }
  DISPLAY=:$(cat "$work/display")
  export DISPLAY
  [ "$below" ] || mount --bind /tmp/.X11-unix "$root/tmp/.X11-unix"
  ada 'LANG=en_US.UTF-8 LIBGL_ALWAYS_SOFTWARE=1 setsid reeve-desktop >desktop.log 2>&1 & sleep 1' || true
  check "the window opens" within 90 xdotool search --onlyvisible --name Reeve
  log=$(place)/home/ada/desktop.log
  [ ! -s "$log" ] || sed 's/^/    desktop: /' "$log" | head -5
  pkill -x reeve-desktop || true
  [ "$below" ] || umount "$root/tmp/.X11-unix"
  kill "$screen"
  unset DISPLAY
}

guards() { pgrep -f 'reeve guard' | sort | tr '\n' ' '; }
# service FIELD is what it says of itself.
service() { ada 'reeve service status --json' | field "$1"; }

# upgrade puts the next version over a service with a live mission.
upgrade() {
  check "the service is there" ada 'reeve service start'
  mission=$(ada 'reeve demo --folder second --propose --json' | field id)
  check "a mission starts" allow_next
  within 30 pending || true
  before=$(guards)
  check "it has a guard" test "$before"
  check "both are upgraded in a live mission" put "$next"
  check "it says what to do" grep 'their users run: reeve service restart' "$work/said"
  check "the new program is there" same "$(ada 'reeve version --json' | field version)" "$next"
  check "the running service is the old one" same "$(service version)" "$version"
  check "the guards go on" same "$(guards)" "$before"
  # What the old service starts from now on is the new program.
  second=$mission
  ada 'reeve demo --folder between --propose --json' >"$work/between"
  mission=$(field id <"$work/between")
  asked=$(grep -o '"approval":{.*' "$work/between")
  check "the old service starts another mission" ada "reeve allow $(echo "$asked" | field id) --digest $(echo "$asked" | field digest)"
  check "that one works, too" within 60 works
  before=$(guards)
  check "the user restarts their service" ada 'reeve service restart'
  check "it is the new one" same "$(service version)" "$next"
  check "the guards are the same" same "$(guards)" "$before"
  check "the mission ends well under the new one" finish
  mission=$second
  check "so does the one from before" finish
}

# files FORMAT FILE names what a package holds, without folders, as /usr/….
files() {
  case $1 in
  deb) dpkg-deb -c "$2" | awk '$1 !~ /^d/ { sub(/^\./, "", $6); print $6 }' ;;
  rpm) rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$2" | sed -n 's/^-[^ ]* //p' ;;
  arch) bsdtar -tf "$2" | grep -v -e '/$' -e '^\.' | sed 's|^|/|' ;;
  esac | sed 's|/zsh/vendor-completions/|/zsh/site-functions/|' | grep -v -e /lintian/ -e changelog.Debian | sort
}

rpm_() {
  have rpm || { skip "rpm packages (no rpm)"; return; }
  for arch in amd64 arm64; do
    as=x86_64
    [ $arch = amd64 ] || as=aarch64
    file=$dist/reeve-$version-1.$as.rpm
    check "$as: its digests hold" rpm -K --nosignature "$file"
    check "$as: it is what it says" same "$(rpm -qp --qf '%{NAME} %{VERSION} %{ARCH} %{OS}' "$file")" "reeve $version $as linux"
    check "$as: it holds what the .deb holds" same "$(files rpm "$file")" "$(files deb "$dist/reeve_$version-1_$arch.deb")"
  done
  as=$(rpm --eval '%{_arch}')
  check "reeve-desktop: it holds what the .deb holds" same "$(files rpm "$dist/reeve-desktop-$version-1.$as.rpm")" "$(files deb "$dist/reeve-desktop_$version-1_$host.deb")"
  check "reeve-desktop: the autostart entry is configuration" same "$(rpm -qpc "$dist/reeve-desktop-$version-1.$as.rpm")" "/etc/xdg/autostart/$id.desktop"
  clean_root >"$work/said" 2>&1 || { skip "installing the rpm ($(tail -1 "$work/said"))"; return; }
  listing >"$work/before"
  check "rpm installs it" rpm --root "$root" --nodeps -i "$dist/reeve-$version-1.$as.rpm"
  check "it says what to do" grep 'Each user who wants a service' "$work/said"
  check "its files are as packed" rpm --root "$root" --nodeps -V reeve
  check "reeve says its version" same "$(ada 'reeve version --json' | field version)" "$version"
  if [ -f "$work/next/reeve-$next-1.$as.rpm" ]; then
    check "rpm upgrades it" rpm --root "$root" --nodeps -U "$work/next/reeve-$next-1.$as.rpm"
    check "it says so once" same "$(grep -c 'Reeve is' "$work/said")" 1
    check "reeve says the next version" same "$(ada 'reeve version --json' | field version)" "$next"
  fi
  check "rpm removes it" rpm --root "$root" --nodeps -e reeve
  check "it says what stays" grep 'Users keep their state' "$work/said"
  listing | grep -v -e '/lib/sysimage/rpm' -e '^./var/lib/rpm' -e '^./root/.rpmdb' -e '^./usr/lib/sysimage$' >"$work/after"
  check "nothing is left" diff "$work/before" "$work/after"
}

arch() {
  have bsdtar || { skip "Arch packages (no bsdtar)"; return; }
  for arch in amd64 arm64; do
    as=x86_64
    [ $arch = amd64 ] || as=aarch64
    file=$dist/reeve-$version-1-$as.pkg.tar.zst
    bsdtar -xOf "$file" .PKGINFO >"$work/pkginfo"
    check "$as: name" grep -x 'pkgname = reeve' "$work/pkginfo"
    check "$as: version" grep -x "pkgver = $version-1" "$work/pkginfo"
    check "$as: architecture" grep -x "arch = $as" "$work/pkginfo"
    check "$as: it has a file of sums" sh -c "bsdtar -xOf '$file' .MTREE | gzip -dc | grep -q 'usr/bin/reeve .*sha256digest='"
    check "$as: it says what to do" sh -c "bsdtar -xOf '$file' .INSTALL >'$work/install.sh' && bash -c '. \"$work/install.sh\"; post_install $version-1; post_upgrade $next-1 $version-1; post_remove $version-1' | tee /dev/stderr | grep -c 'Reeve is' | grep -x 3"
    check "$as: it holds what the .deb holds" same "$(files arch "$file")" "$(files deb "$dist/reeve_$version-1_$arch.deb")"
  done
  file=$dist/reeve-desktop-$version-1-$(uname -m).pkg.tar.zst
  check "reeve-desktop: it holds what the .deb holds" same "$(files arch "$file")" "$(files deb "$dist/reeve-desktop_$version-1_$host.deb")"
  check "reeve-desktop: the autostart entry is configuration" sh -c "bsdtar -xOf '$file' .PKGINFO | grep -x 'backup = etc/xdg/autostart/$id.desktop'"
  have pacman || { skip "pacman"; return; }
  mkdir -p "$work/arch/var/lib/pacman"
  printf '[options]\nArchitecture = auto\nSigLevel = Never\n' >"$work/pacman.conf"
  pac() { pacman --config "$work/pacman.conf" --root "$work/arch" --dbpath "$work/arch/var/lib/pacman" --cachedir "$work/arch/cache" --logfile "$work/pacman.log" "$@"; }
  check "pacman installs both" pac --noconfirm --noscriptlet -U -dd "$dist/reeve-$version-1-$(uname -m).pkg.tar.zst" "$file"
  check "pacman finds its files well" pac -Qkk reeve reeve-desktop
  check "reeve says its version" same "$("$work/arch/usr/bin/reeve" version --json | field version)" "$version"
  check "pacman removes both" pac --noconfirm --noscriptlet -R -dd reeve reeve-desktop
  check "nothing is left" empty "$(find "$work/arch" -path '*/var' -prune -o -path '*/cache' -prune -o -type f -print)"
}

linux() {
  files=$work/unpacked
  mkdir "$files"
  for name in reeve reeve-desktop; do dpkg-deb -x "$dist/${name}_$version-1_$host.deb" "$files"; done
  for entry in "$files/usr/share/applications/$id.desktop" "$files/etc/xdg/autostart/$id.desktop"; do
    if have desktop-file-validate; then check "$entry" desktop-file-validate --no-hints "$entry"; else skip "desktop-file-validate"; fi
    check "what it starts is packed" test -x "$files/usr/bin/$(sed -n 's/^Exec=\([^ ]*\).*/\1/p' "$entry")"
  done
  if have appstreamcli; then check "AppStream metadata" appstreamcli validate --no-net --explain "$files/usr/share/metainfo/$id.metainfo.xml"; else skip "appstreamcli"; fi
  check "the metadata has this version" grep "release version=\"$version\"" "$files/usr/share/metainfo/$id.metainfo.xml"
  check "the desktop's id is the same in the program" grep "appID = \"$id\"" cmd/reeve-desktop/main.go
  for size in 16 22 24 32 48 64 128 256 512; do
    check "icon of $size pixels" sh -c "file -b '$files/usr/share/icons/hicolor/${size}x$size/apps/$id.png' | grep '$size x $size'"
  done
  if have man; then
    for page in "$files"/usr/share/man/man1/*.gz; do
      check "$(basename "$page")" sh -c "man --warnings -E UTF-8 -l -Tutf8 -Z '$page' 2>&1 >/dev/null | { ! grep .; }"
    done
  else
    skip "manual pages (no man)"
  fi
  check "every program is static but the desktop" sh -c "! readelf -d '$files/usr/bin/reeve' | grep NEEDED"
  for arch in amd64 arm64; do
    mkdir "$work/tar-$arch"
    tar -xzf "$dist/reeve-$version-linux-$arch.tar.gz" -C "$work/tar-$arch"
    check "tar.gz for $arch holds the program" test -x "$work/tar-$arch/reeve-$version-linux-$arch/bin/reeve"
  done
  check "the program runs from the tar.gz" same "$("$work/tar-$host/reeve-$version-linux-$host/bin/reeve" version --json | field version)" "$version"
  for sbom in "$dist"/*.cdx.json; do
    check "$(basename "$sbom") names this version" grep -q "\"version\": \"v$version\"" "$sbom"
    check "$(basename "$sbom") names cobra or Fyne" grep -q -e 'pkg:golang/github.com/spf13/cobra@' -e 'pkg:golang/fyne.io/fyne/v2@' "$sbom"
  done
  check "the licences are listed" sh -c "gzip -dc '$files/usr/share/doc/reeve/third-party-licences.gz' | grep '^github.com/spf13/cobra .*Apache-2.0'"
  if have lintian; then
    for deb in "$dist"/*.deb; do check "lintian: $(basename "$deb")" empty "$(lintian --allow-root --fail-on none --suppress-tags-from-file packaging/linux/lintian-tags "$deb" 2>&1 | grep -v '^N:' || true)"; done
  else
    skip "lintian"
  fi
  if have rpmlint; then
    # nfpm names files from the root, where rpmlint would unpack them.
    mkdir "$work/bin"
    printf '#!/bin/sh\nexec %s --no-absolute-filenames "$@"\n' "$(command -v cpio)" >"$work/bin/cpio"
    chmod +x "$work/bin/cpio"
    for file in "$dist"/*.rpm; do check "rpmlint: $(basename "$file")" empty "$(PATH="$work/bin:$PATH" rpmlint -c packaging/linux/rpmlint.toml "$file" 2>&1 | grep -E ': [EW]: ' || true)"; done
  else
    skip "rpmlint"
  fi
}

. packaging/linux/session.sh
. packaging/windows/test.sh
. packaging/macos/test.sh

for target; do
  began=$(date +%s)
  case $target in
  twice | debian | bare | arch | linux | windows | macos) $target ;;
  rpm) rpm_ ;;
  *) echo "test-packages: there is no test $target" >&2; exit 2 ;;
  esac
  echo "test-packages: $(($(date +%s) - began)) s: $target"
done
echo "test-packages: $passed passed, $failed failed, $skipped could not be tried here"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
