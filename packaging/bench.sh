#!/bin/sh
# Measures what the project promises, each as a ratio or difference within one
# run, and prints a table of figures and bars. Nothing fails on a figure, since
# it depends on what else the machine does: the last lines tell what was met.
set -eu
cd "$(dirname "$0")/.."
agents="$PWD/.cache/agents/node_modules"
export REEVE_TEST_CLAUDE="${REEVE_TEST_CLAUDE:-$agents/@anthropic-ai/claude-code-linux-x64/claude}"
export REEVE_TEST_CODEX="${REEVE_TEST_CODEX:-$agents/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex}"
export REEVE_TEST_OPENCODE="${REEVE_TEST_OPENCODE:-$agents/opencode-linux-x64/bin/opencode}"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
{
	go test -run '^$' -bench . -benchtime "${BENCHTIME:-1s}" ./ipc/server ./service/internal/store
	go test -run '^$' -bench . -benchtime 1x -timeout 30m ./cmd/e2e
} | tee "$out"
awk '
# A row: benchmark, unit, <= or >=, bar, words.
BEGIN {
	FS = "|"
	while ((getline < "packaging/bars.txt") > 0)
		if ($0 !~ /^#/ && NF == 5) {
			n++
			name[n] = $1; unit[n] = $2; op[n] = $3; bar[n] = $4; words[n] = $5
		}
	FS = "[ \t]+"
}
/^Benchmark/ {
	sub(/-[0-9]+$/, "", $1)
	for (i = 3; i < NF; i += 2) got[$1, $(i + 1)] = $i
}
END {
	print ""
	for (i = 1; i <= n; i++) {
		if (!((name[i], unit[i]) in got)) { v = "-"; said = "not measured" }
		else {
			v = got[name[i], unit[i]]
			said = (op[i] == "<=" ? v <= bar[i] + 0 : v >= bar[i] + 0) ? "met" : "NOT MET"
		}
		printf "%-66s %10s  %s %-6s %s\n", words[i], v, op[i], bar[i], said
	}
}' "$out"
