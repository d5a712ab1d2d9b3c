package checkout_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reevehq/reeve/service/internal/checkout"
)

// TestRemoveStopsAtMounts is case 34: a folder from elsewhere that is mounted
// in a worktree, or as the worktree, is not emptied.
func TestRemoveStopsAtMounts(t *testing.T) {
	for name, at := range map[string]string{"inside": "build/m", "instead": "."} {
		t.Run(name, func(t *testing.T) {
			run, w := worktree(t)
			out := t.TempDir()
			write(t, filepath.Join(out, "precious"), "1\n")
			to := filepath.Join(w.Path, at)
			if err := os.MkdirAll(to, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount(out, to, "", unix.MS_BIND, ""); err != nil {
				t.Skipf("nothing can be mounted here: %v", err)
			}
			defer func() {
				if err := unix.Unmount(to, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			}()
			_, err := checkout.RemoveWorktree(t.Context(), run, w, "")
			refused(t, err, "is a mount")
			if !there(filepath.Join(out, "precious")) {
				t.Error("it was emptied")
			}
		})
	}
}
