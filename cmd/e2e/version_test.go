package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestVersionIsOne: every program tells the version of the one place that has
// it. What packages tell is looked at by `make test-packages`, and the About
// section by TestAboutTellsTheVersion in ui/view.
func TestVersionIsOne(t *testing.T) {
	t.Parallel()
	if err := desktop(); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t).start()
	v := m.watch()
	if got := do[wire.Service](v, wire.MethodServiceStatus, nil); got.Version != assets.Version {
		t.Errorf("the service: %+v", got)
	}
	told := must[struct {
		Version string `json:"version"`
	}](m, "version")
	if told.Version != assets.Version {
		t.Errorf("reeve version: %q", told.Version)
	}
	out, err := exec.Command(filepath.Join(bin, "reeve-desktop"), "-version").Output()
	if err != nil || strings.TrimSpace(string(out)) != "reeve-desktop "+assets.Version {
		t.Errorf("reeve-desktop -version: %q, %v", out, err)
	}
}
