package provider

import (
	"bytes"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// UnifiedDiff returns the change of a file from old to new in the unified
// format with three lines of context, or "" when nothing changes. A missing end
// of line is marked. exists says whether there was a file before.
func UnifiedDiff(path string, exists bool, old, new string) string {
	path = strings.NewReplacer("\n", "\\n", "\r", "\\r").Replace(path)
	from := "a/" + strings.TrimPrefix(path, "/")
	if !exists {
		from = "/dev/null"
	}
	out := diff.Diff(from, []byte(old), "b/"+strings.TrimPrefix(path, "/"), []byte(new))
	// The first line repeats the names in a form that patch tools don't know.
	if i := bytes.IndexByte(out, '\n'); i >= 0 {
		out = out[i+1:]
	}
	return string(out)
}
