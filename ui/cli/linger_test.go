package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLingering is a part of case 5: whoever would lose workers by logging out
// is told before.
func TestLingering(t *testing.T) {
	run, linger := t.TempDir(), t.TempDir()
	if _, ok := lingering("", linger, "ann"); ok {
		t.Error("without a runtime directory there is no manager to end")
	}
	if _, ok := lingering(run, linger, "ann"); ok {
		t.Error("there is no manager of this user")
	}
	if err := os.MkdirAll(filepath.Join(run, "systemd", "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, ok := lingering(run, linger, "ann")
	if !ok || !strings.Contains(c.Message, "lingering is off for ann") || !strings.Contains(c.Fix, "loginctl enable-linger") {
		t.Errorf("%v %+v", ok, c)
	}
	if err := os.WriteFile(filepath.Join(linger, "ann"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, ok := lingering(run, linger, "ann"); !ok || c.Fix != "" || !strings.Contains(c.Message, "go on") {
		t.Errorf("%v %+v", ok, c)
	}
}
