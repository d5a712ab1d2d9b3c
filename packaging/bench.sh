#!/bin/sh
# Measures what the project promises, each as a ratio or difference within one
# run. Nothing here fails on a figure: it prints what it saw.
set -eu
cd "$(dirname "$0")/.."
go test -run '^$' -bench . -benchtime "${BENCHTIME:-1s}" ./ipc/server ./service/internal/store
mkdir -p bin
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o bin/reeve ./cmd/reeve
go test -run '^$' -bench . -benchtime 1x ./cmd/e2e
