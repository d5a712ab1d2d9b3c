package main

import (
	"bytes"
	"debug/macho"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Programs for both processors, of the real compiler, are found in the joined
// file as they were.
func TestJoin(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "p.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(1) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	parts := make([][]byte, 0, 2)
	for _, arch := range []string{"amd64", "arm64"} {
		exe := filepath.Join(dir, arch)
		build := exec.Command("go", "build", "-o", exe, source)
		build.Env = append(os.Environ(), "GOOS=darwin", "GOARCH="+arch, "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		b, err := os.ReadFile(exe)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, b)
	}
	both, err := join(parts)
	if err != nil {
		t.Fatal(err)
	}
	fat, err := macho.NewFatFile(bytes.NewReader(both))
	if err != nil {
		t.Fatal(err)
	}
	for i, cpu := range []macho.Cpu{macho.CpuAmd64, macho.CpuArm64} {
		a := fat.Arches[i]
		got, err := io.ReadAll(io.NewSectionReader(bytes.NewReader(both), int64(a.Offset), int64(a.Size)))
		if err != nil || a.Cpu != cpu || a.Offset%(1<<page) != 0 || !bytes.Equal(got, parts[i]) {
			t.Errorf("%d: %v at %d, %d bytes of %d, %v", i, a.Cpu, a.Offset, len(got), len(parts[i]), err)
		}
	}
	if _, err := join([][]byte{parts[0], parts[0]}); err == nil {
		t.Error("two programs for one processor are joined")
	}
	if _, err := join([][]byte{[]byte("#!/bin/sh\n")}); err == nil {
		t.Error("a script is joined")
	}
}
