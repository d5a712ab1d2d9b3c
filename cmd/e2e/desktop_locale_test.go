package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/reevehq/reeve/assets"
)

// TestDesktopTellsItsVersion: and nothing else, in whatever locale.
func TestDesktopTellsItsVersion(t *testing.T) {
	t.Parallel()
	if err := desktop(); err != nil {
		t.Fatal(err)
	}
	for _, locale := range []string{"", "C", "POSIX", "C.UTF-8", "C.utf8", "POSIX.UTF-8", "en_GB.UTF-8", "ja_JP.eucJP"} {
		for _, name := range []string{"LANG", "LC_ALL"} {
			cmd := exec.Command(filepath.Join(bin, "reeve-desktop"), "-version")
			cmd.Env = []string{name + "=" + locale}
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != "reeve-desktop "+assets.Version+"\n" {
				t.Errorf("%s=%s: %v\n%s", name, locale, err, out)
			}
		}
	}
}
