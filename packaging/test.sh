#!/bin/sh
# Runs the tests with the race detector and prints one line of totals.
set -eu
cd "$(dirname "$0")/.."
mode="${1:-all}"
agents="$PWD/.cache/agents/node_modules"
export REEVE_TEST_CLAUDE="${REEVE_TEST_CLAUDE:-$agents/@anthropic-ai/claude-code-linux-x64/claude}"
export REEVE_TEST_CODEX="${REEVE_TEST_CODEX:-$agents/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex}"
# Where its program was not to be had, the tests that want it say so.
opencode="${REEVE_TEST_OPENCODE:-$agents/opencode-linux-x64/bin/opencode}"
[ ! -x "$opencode" ] || export REEVE_TEST_OPENCODE="$opencode"
mkdir -p .cache
all=$(go list ./... | grep -v -e '/cmd/reeve-desktop$')
e2e=$(printf '%s\n' "$all" | grep '/cmd/e2e$' || true)
unit=$(printf '%s\n' "$all" | grep -v '/cmd/e2e$')
case "$mode" in
all) # the longest first, beside the others
	view=$(printf '%s\n' "$unit" | grep '/ui/view$')
	pkgs="$e2e $view $(printf '%s\n' "$unit" | grep -v '/ui/view$')"
	;;
unit) pkgs="$unit" ;;
e2e) pkgs="$e2e" ;;
providers)
	# The real agent programs, scenario by scenario, and the table of what was seen.
	export REEVE_TEST_TABLE="$PWD/.cache/providers.txt"
	rm -f "$REEVE_TEST_TABLE"
	export REEVE_TEST_SCENARIOS=all
	# The ACP agents, by their ready entries.
	more="$PWD/.cache/agents/providers/node_modules"
	export REEVE_TEST_GEMINI="${REEVE_TEST_GEMINI:-$more/.bin/gemini}"
	export REEVE_TEST_CLAUDE_ACP="${REEVE_TEST_CLAUDE_ACP:-$more/.bin/claude-agent-acp}"
	export REEVE_TEST_CODEX_ACP="${REEVE_TEST_CODEX_ACP:-$more/@zed-industries/codex-acp-linux-x64/bin/codex-acp}"
	code=0
	go test -race -count=1 -timeout 40m -parallel 3 ./service/provider/conform || code=$?
	go test -race -count=1 -timeout 20m -v -run 'TestOpenCode|TestGemini' ./service/provider/acp || code=$?
	go test -race -count=1 -timeout 20m -v -run 'TestQuestionOfRealAgents' ./cmd/e2e || code=$?
	[ ! -f "$REEVE_TEST_TABLE" ] || cat "$REEVE_TEST_TABLE"
	exit $code
	;;
*) echo "usage: test.sh all|unit|e2e|providers" >&2; exit 2 ;;
esac
# The race detector watches all that shares anything. What draws glyphs and pixels
# for the pictures shares nothing, and takes more than half of their time with it.
plain=
for loops in github.com/go-text/typesetting golang.org/x/image github.com/srwiley image; do
	plain="$plain -gcflags=$loops/...=-race=false"
done
# The real parts (a session bus, X11, agent programs) can be late once in thousands
# of tests. A few that failed (six, a parent of subtests counts) are run once more and
# named; a data race, a panic and more failures are final.
again=.cache/test-again.txt
rm -f "$again"
code=0
go run gotest.tools/gotestsum@v1.13.0 --format pkgname --jsonfile .cache/test.json \
	--rerun-fails=1 --rerun-fails-max-failures=6 --rerun-fails-abort-on-data-race --rerun-fails-report "$again" \
	--packages "$(echo $pkgs)" -- -race $plain -timeout 45m || code=$?
if [ -s "$again" ]; then
	echo "test: failed once, and run a second time:"
	sed 's/^/test:   /' "$again"
	[ $code = 0 ] && result=passed || result=failed
	echo "test: $result, with $(wc -l <"$again") tests run a second time"
fi
exit $code
