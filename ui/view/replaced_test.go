package view

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "old")
	replaced := Replaced(path)
	if replaced() {
		t.Error("nothing was replaced")
	}
	// As installers do: the program that runs gives its name up first.
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if replaced() {
		t.Error("nothing is there yet")
	}
	write(path, "")
	if replaced() {
		t.Error("what is there is not written yet")
	}
	write(path, "new")
	if !replaced() {
		t.Error("another program is there")
	}
	if Replaced(filepath.Join(dir, "none"))() {
		t.Error("nothing was there to be replaced")
	}
}
