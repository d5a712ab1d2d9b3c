#!/bin/sh
# Every safety rule has a patch in testdata/mutants that breaks it. Each is
# applied to a copy of the index (what is committed or staged), and the test that
# it names must fail there. A patch begins with these lines, then follows a diff:
#   # test: <package> <regexp of go test -run>
#   # why: <what would go wrong>
# A mutant that doesn't compile is not caught; a test that fails without any
# patch, or that is not there, proves nothing and ends the run.
# Arguments are names of patches to try alone.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
git checkout-index -a --prefix="$work/tree/"
cd "$work/tree"
export GIT_CEILING_DIRECTORIES="$work" # git apply works without a repository

build() { go test -c -vet=off -o "$work/tests" "$1" >"$work/out" 2>&1; }
run() { (cd "$1" && "$work/tests" -test.run "$2" -test.count=1 -test.timeout 3m) >"$work/out" 2>&1; }

if [ $# -eq 0 ]; then
  set -- "$root"/testdata/mutants/*.patch
else
  for name; do
    set -- "$@" "$root/testdata/mutants/$name.patch"
    shift
  done
fi

last=
sed -n 's/^# test: //p' "$@" | sort -u >"$work/proofs"
while read -r pkg re; do
  if { [ "$pkg" = "$last" ] || build "$pkg"; } && run "$pkg" "$re" && ! grep -q 'no tests to run' "$work/out"; then
    last=$pkg
    continue
  fi
  cat "$work/out"
  echo "mutants: $pkg $re doesn't pass without any patch"
  exit 1
done <"$work/proofs"

caught=0
failed=0
for patch; do
  name=$(basename "$patch" .patch)
  read -r _ _ pkg re <"$patch"
  bad=
  if ! git apply "$patch"; then
    bad="the patch no longer applies"
  else
    if ! build "$pkg"; then
      cat "$work/out"
      bad="it does not compile"
    elif run "$pkg" "$re" 2>/dev/null; then # else the shell tells of tests that a signal ended
      bad="SURVIVED $pkg $re"
    fi
    git apply -R "$patch"
  fi
  if [ -z "$bad" ]; then
    echo "$name: caught"
    caught=$((caught + 1))
  else
    echo "$name: $bad"
    failed=$((failed + 1))
  fi
done
echo "mutants: $caught passed, $failed failed"
[ "$failed" = 0 ] && [ "$caught" -gt 0 ]
