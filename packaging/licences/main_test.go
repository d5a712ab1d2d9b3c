package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This test's own program stands for any other.
func TestList(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := list(&b, []string{self}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"github.com/google/licensecheck v0.3.1", "BSD-3-Clause\n", "\nGo and its standard library", "Redistribution and use in source and binary forms", "github.com/google/licensecheck (LICENSE)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%.600s", want, b.String())
		}
	}
}

func TestOnlyAcceptedLicences(t *testing.T) {
	gpl := "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by " +
		"the Free Software Foundation, either version 3 of the License, or (at your option) any later version."
	for name, c := range map[string]struct{ file, body, want string }{
		"not accepted": {"LICENSE", gpl, "nobody has accepted"},
		"unknown":      {"LICENSE", "You may look at it on Sundays.", "no licence that is known"},
		"notice":       {"NOTICE.txt", "Portions by somebody.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.body), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := find(dir)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if _, err := find(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no licence") {
		t.Errorf("a module without a licence: %v", err)
	}
}
