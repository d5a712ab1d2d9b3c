package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ui/cli"
)

func page(t *testing.T, dir, name string) string {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join(dir, "man", name+".1.gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEveryCommandHasAPage(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	for _, c := range cli.Tree().Commands() {
		name := "reeve-" + c.Name()
		if !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			if _, err := os.Stat(filepath.Join(dir, "man", name+".1.gz")); err == nil {
				t.Errorf("%s is not for people and has a page", name)
			}
			continue
		}
		text := strings.NewReplacer(`\-`, "-", "\n", " ").Replace(page(t, dir, name))
		for _, want := range []string{c.Short, "Reeve " + assets.Version, "Nov 2026"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s doesn't say %q", name, want)
			}
		}
	}
	if first := page(t, dir, "reeve"); !strings.Contains(first, "another service owns the state") {
		t.Error("the first page doesn't list the exit codes")
	}
	for name, want := range map[string]string{"reeve": "complete -o default", "_reeve": "#compdef reeve", "reeve.fish": "complete -c reeve", "reeve.ps1": "Register-ArgumentCompleter"} {
		b, err := os.ReadFile(filepath.Join(dir, "completions", name))
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("completion %s: %v, no %q", name, err, want)
		}
	}
}

// The same day gives the same bytes.
func TestPagesAreReproducible(t *testing.T) {
	day := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		if err := write(dir, day); err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(a, "*", "*"))
	if err != nil || len(names) < 30 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		one, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(a, name)
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile(filepath.Join(b, rel))
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s differs (%v)", rel, err)
		}
	}
}
