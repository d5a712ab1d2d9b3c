#!/bin/sh
# Applies each testdata/mutants/*.patch to a copy of the tree and demands that
# the test it names fails. A patch begins with lines
#   # test: <package> <test regexp>
set -eu
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files -z | xargs -0 tar -cf - | tar -xf - -C "$work"
killed=0
survived=0
for patch in testdata/mutants/*.patch; do
  name=$(basename "$patch" .patch)
  spec=$(sed -n 's/^# test: //p' "$patch" | head -1)
  pkg=${spec% *}
  run=${spec##* }
  (cd "$work" && git apply --unsafe-paths --directory="" "$root/$patch" 2>/dev/null || patch -s -p1 <"$root/$patch") || { echo "$name: the patch does not apply"; survived=$((survived + 1)); continue; }
  if (cd "$work" && go build "$pkg" && ! go test -count=1 -timeout 5m -run "$run" "$pkg" >"$work/out" 2>&1 && grep -q -e '--- FAIL' -e 'panic:' "$work/out"); then
    echo "$name: caught"
    killed=$((killed + 1))
  else
    echo "$name: SURVIVED ($pkg $run)"
    survived=$((survived + 1))
  fi
  (cd "$work" && patch -s -R -p1 <"$root/$patch")
done
echo "mutants: $killed passed, $survived failed"
[ "$survived" = 0 ] && [ "$killed" -gt 0 ]
