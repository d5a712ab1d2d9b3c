#!/bin/sh
# Every safety rule has a patch in testdata/mutants that breaks it. Each is
# applied to a copy of the index (what is committed or staged), and the test that
# it names must fail there. A patch begins with these lines, then follows a diff:
#   # test: <package> <regexp of go test -run>
#   # why: <what would go wrong>
# A test that this machine can't run (it says so and skips) proves nothing either
# way: its mutants are named and counted apart.
# A mutant that doesn't compile is not caught; a test that fails without any
# patch, or that is not there, proves nothing and ends the run.
# Arguments are names of patches to try alone. MUTANTS_SECONDS bounds the time: no
# other package's mutants are begun after it, nor a mutant; how many were left out
# is said. Each commit begins at another place, so that it isn't always the same.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export GIT_CEILING_DIRECTORIES="$work" # git apply works without a repository
began=$(date +%s)

if [ $# -eq 0 ]; then
  set -- "$root"/testdata/mutants/*.patch
else
  for name; do
    set -- "$@" "$root/testdata/mutants/$name.patch"
    shift
  done
fi

late() { [ -n "${MUTANTS_SECONDS:-}" ] && [ $(($(date +%s) - began)) -ge "$MUTANTS_SECONDS" ]; }

# Each of the halves below works in a tree of its own, $here, and leaves there
# what it found: half of the time goes by while one processor links a test.
build() { go test -c -vet=off -ldflags='-s -w' -o "$here/tests" "$1" >"$here/out" 2>&1; }
run() {
  status=0
  (cd "$1" && "$here/tests" -test.v -test.run "$2" -test.count=1 -test.timeout "$3") </dev/null >"$here/out" 2>&1 || status=$?
  sweep
  return $status
}

# sweep ends what a broken test left behind, where the system tells of it: guards
# outlive those who started them, and would slow down all that comes after.
sweep() {
  for exe in $(find /proc/[0-9]*/exe -maxdepth 0 -lname "$here/tests*" 2>/dev/null); do
    exe=${exe#/proc/}
    kill -9 "${exe%/exe}" 2>/dev/null || :
  done
}

# whole runs the tests that a package's mutants name without any patch, and notes
# how long each took. One that fails gets a second try, which is said.
whole() {
  build "$pkg" || { cat "$here/out"; echo "mutants: the tests of $pkg don't compile without any patch"; return 1; }
  grep "^$pkg|" "$here/list" | cut -d'|' -f2 | sort -u >"$here/proofs"
  while read -r proof; do
    from=$(date +%s)
    if ! run "$pkg" "$proof" 5m; then
      cat "$here/out"
      echo "mutants: $pkg $proof failed once without any patch"
      from=$(date +%s)
      run "$pkg" "$proof" 5m || { cat "$here/out"; echo "mutants: $pkg $proof doesn't pass without any patch"; return 1; }
    fi
    ! grep -q 'no tests to run' "$here/out" || { echo "mutants: $pkg has no test $proof"; return 1; }
    echo "$(($(date +%s) - from)) $pkg $proof" >>"$here/took"
    if ! grep -q '^--- PASS' "$here/out"; then
      sed -n 's/^ *[a-z_]*\.go:[0-9]*: /mutants: not here: /p' "$here/out" | head -1
      echo "$pkg $proof" >>"$here/skipped"
    fi
  done <"$here/proofs"
}

# survives says whether the test passes with the patch. Hanging is red, too, and
# tests are patient: so the limit is a multiple of what the test took. A property
# is tried with random cases, so it gets three tries; how many it took is said.
survives() {
  limit=$((15 + 3 * $(grep -F " $pkg $re" "$here/took" | head -1 | cut -d' ' -f1)))s
  for try in 1 2 3; do
    run "$pkg" "$re" "$limit" 2>/dev/null || return 1 # else the shell tells of tests that a signal ended
  done
}

# broken runs the test of a patch with it.
broken() {
  name=$(basename "$patch" .patch) bad= try=1
  if grep -qxF "$pkg $re" "$here/skipped"; then
    echo "$name: $pkg $re can't run here"
    return
  fi
  if ! git apply "$patch"; then
    echo "$name: the patch no longer applies"
    return
  fi
  if ! build "$pkg"; then
    cat "$here/out"
    bad="it does not compile"
  elif survives; then
    bad="SURVIVED $pkg $re"
  fi
  git apply -R "$patch"
  [ -n "$bad" ] || [ "$try" = 1 ] || echo "$name: not before try $try"
  echo "$name: ${bad:-caught}"
}

# half tries what $work/list.$1 names, package by package.
half() {
  here=$work/$1
  git checkout-index -a --prefix="$here/tree/"
  cp "$work/list.$1" "$here/list"
  : >"$here/skipped"
  cd "$here/tree"
  last=
  while IFS='|' read -r pkg re patch; do
    if late; then
      basename "$patch" >>"$work/left"
      continue
    fi
    if [ "$pkg" != "$last" ]; then
      whole || return 1
      last=$pkg
    fi
    broken
  done <"$here/list"
}

# A package's patches stay together, as its tests are built for each of them.
for patch; do
  read -r _ _ pkg re <"$patch" || { echo "mutants: there is no $patch"; exit 1; }
  echo "$pkg|$re|$patch"
done | sort >"$work/all"
first=$((0x$(git rev-parse --short=7 HEAD) % $# + 1))
{ tail -n +"$first" "$work/all"; head -n $((first - 1)) "$work/all"; } | awk -F'|' -v work="$work" -v all=$# '
  $1 != last && NR > all / 2 { half = 1 }
  { last = $1; print > work "/list." half + 0 }'
touch "$work/list.0" "$work/list.1" "$work/left"
for n in 0 1; do
  { half $n 2>&1 || : >"$work/bad"; } | tee "$work/said.$n" &
done
wait

# What survived beside the other half is tried once more with nothing beside it.
sed -n 's/: SURVIVED .*//p' "$work/said.0" "$work/said.1" | while read -r name; do
  echo "mutants: $name is tried once more, alone" >&2
  grep "/$name\.patch$" "$work/all"
done >"$work/list.2"
unset MUTANTS_SECONDS
if [ -s "$work/list.2" ]; then
  half 2 2>&1 || : >"$work/bad"
fi >"$work/said.2"
cat "$work/said.2"

cat "$work/said.0" "$work/said.1" "$work/said.2" >"$work/said"
caught=$(grep -c ': caught$' "$work/said" || true)
unproven=$(grep -c ": .* can't run here$" "$work/said" || true)
left=$(wc -l <"$work/left")
failed=$(($# - caught - unproven - left))
echo "mutants: $caught passed, $failed failed, $unproven could not be tried here, $left were left out for time"
[ ! -e "$work/bad" ] && [ "$failed" = 0 ] && [ $((caught + left)) -gt 0 ]
