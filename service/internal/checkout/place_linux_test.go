package checkout

import (
	"slices"
	"testing"
)

// TestMountPoints: bind mounts count, a folder whose name only begins alike
// does not, and names are read as they are.
func TestMountPoints(t *testing.T) {
	const table = `22 1 0:20 / / rw - ext4 /dev/x rw
23 22 0:21 /home/p /srv/tree rw,relatime shared:1 - ext4 /dev/x rw
24 22 0:22 / /srv/tree/a\040b\134c rw - tmpfs tmpfs rw
25 22 0:22 / /srv/tree-2 rw - tmpfs tmpfs rw
`
	if got, want := mountPoints(table, "/srv/tree"), []string{"/srv/tree", `/srv/tree/a b\c`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
