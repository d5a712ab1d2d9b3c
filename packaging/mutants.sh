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
# Arguments are names of patches to try alone.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export GIT_CEILING_DIRECTORIES="$work" # git apply works without a repository

if [ $# -eq 0 ]; then
  set -- "$root"/testdata/mutants/*.patch
else
  for name; do
    set -- "$@" "$root/testdata/mutants/$name.patch"
    shift
  done
fi

# Each of the halves below works in a tree of its own, $here, and leaves there
# what it found: half of the time goes by while one processor links a test.
build() { go test -c -vet=off -ldflags='-s -w' -o "$here/tests" "$1" >"$here/out" 2>&1; }
run() { (cd "$1" && "$here/tests" -test.v -test.run "$2" -test.count=1 -test.timeout "$3") >"$here/out" 2>&1; }

# whole runs each test without any patch, and notes how long it took.
whole() {
  last=
  : >"$here/skipped"
  while read -r pkg re; do
    if { [ "$pkg" = "$last" ] || build "$pkg"; } && began=$(date +%s) && run "$pkg" "$re" 5m && ! grep -q 'no tests to run' "$here/out"; then
      last=$pkg
      echo "$(($(date +%s) - began)) $pkg $re" >>"$here/took"
      if ! grep -q '^--- PASS' "$here/out"; then
        sed -n 's/^ *[a-z_]*\.go:[0-9]*: /mutants: not here: /p' "$here/out" | head -1
        echo "$pkg $re" >>"$here/skipped"
      fi
      continue
    fi
    cat "$here/out"
    echo "mutants: $pkg $re doesn't pass without any patch"
    return 1
  done
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

# broken runs the test of each patch with it.
broken() {
  while read -r patch; do
    name=$(basename "$patch" .patch)
    read -r _ _ pkg re <"$patch"
    bad= try=1
    if grep -qxF "$pkg $re" "$here/skipped"; then
      echo "$name: $pkg $re can't run here"
      continue
    fi
    if ! git apply "$patch"; then
      bad="the patch no longer applies"
    else
      if ! build "$pkg"; then
        cat "$here/out"
        bad="it does not compile"
      elif survives; then
        bad="SURVIVED $pkg $re"
      fi
      git apply -R "$patch"
    fi
    [ -n "$bad" ] || [ "$try" = 1 ] || echo "$name: not before try $try"
    echo "$name: ${bad:-caught}"
  done
}

half() {
  here=$work/$1
  git checkout-index -a --prefix="$here/tree/"
  cd "$here/tree"
  whole <"$work/proofs.$1" || return 1
  broken <"$work/patches.$1"
}

# A package's patches stay together, as its tests are built for each of them.
for patch; do
  read -r _ _ pkg re <"$patch" || { echo "mutants: there is no $patch"; exit 1; }
  echo "$pkg|$re|$patch"
done | sort | awk -F'|' -v work="$work" -v all=$# '
  $1 != last && NR > all / 2 { half = 1 }
  { last = $1; print $3 > work "/patches." half + 0; if (!seen[$1 " " $2]++) print $1, $2 > work "/proofs." half + 0 }'
touch "$work/patches.0" "$work/proofs.0" "$work/patches.1" "$work/proofs.1"
both() {
  for n in 0 1; do
    { half $n 2>&1 || : >"$work/bad"; } | tee "$work/said.$n" &
  done
  wait
}
both
cat "$work/said.0" "$work/said.1" >"$work/said"
caught=$(grep -c ': caught$' "$work/said" || true)
unproven=$(grep -c ": .* can't run here$" "$work/said" || true)
failed=$(($# - caught - unproven))
echo "mutants: $caught passed, $failed failed, $unproven could not be tried here"
[ ! -e "$work/bad" ] && [ "$failed" = 0 ] && [ "$caught" -gt 0 ]
