package approval

import (
	"path/filepath"
	"slices"
	"strings"
)

// Call is a tool call as the unasked rules look at it.
type Call struct {
	Kind  string // read, search, edit, execute, fetch, plan, mcp or other
	Paths []Path // every path that the call touches
	// Own says that Reeve's own MCP server is called, proven by the adapter: no
	// other can stand in its place, whatever it is called.
	Own bool
}

// Path is one path of a call. The caller resolves it physically, links
// followed; for a file that does not exist yet it resolves the nearest
// directory that does.
type Path struct {
	Asked    string // as the agent wrote it
	Resolved string // absolute and physical
	Err      string // why it could not be resolved
}

// guarded are names inside a folder whose contents run programs or widen what
// an agent may do, so that editing them is never just an edit. What one agent
// does not read, the next that the person runs there may.
var guarded = []string{".git", ".claude", ".codex", ".gemini", ".qwen", ".opencode", ".mcp.json", "opencode.json", "opencode.jsonc", ".env"}

func isGuarded(name string) bool {
	return slices.ContainsFunc(guarded, func(g string) bool { return strings.EqualFold(g, name) })
}

// Unasked reports whether c may run without an approval under the allowed
// rules, and by which one. folder is the physically resolved root of the
// mission's checkout.
//
// Reads and edits pass only if they name at least one path and every path was
// resolved and lies inside folder. Edits of git's and the agents' own settings
// always ask. Of MCP tools only Reeve's own pass, which stay inside the mission;
// execution and network never do.
func Unasked(allowed []string, folder string, c Call) (rule string, ok bool) {
	switch c.Kind {
	case "read", "search":
		rule, ok = "reads", allInside(folder, c.Paths, nil)
	case "edit":
		rule, ok = "edits", allInside(folder, c.Paths, guarded)
	case "plan":
		rule, ok = "plan", len(c.Paths) == 0
	case "mcp":
		rule, ok = "room", c.Own && len(c.Paths) == 0
	}
	if !ok || !slices.Contains(allowed, rule) {
		return "", false
	}
	return rule, true
}

func allInside(folder string, paths []Path, except []string) bool {
	for _, p := range paths {
		if p.Err != "" || !inside(folder, p.Resolved, except) {
			return false
		}
	}
	return len(paths) > 0
}

// inside compares by components, so that /a/bc is not inside /a/b. A path that
// is not in its shortest form was not resolved and does not count.
func inside(folder, path string, except []string) bool {
	if !filepath.IsAbs(folder) || !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return false
	}
	folder = filepath.Clean(folder)
	if path == folder {
		return true
	}
	separator := string(filepath.Separator)
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(folder, separator)+separator)
	if !ok {
		return false
	}
	for part := range strings.SplitSeq(rest, separator) {
		if slices.ContainsFunc(except, func(name string) bool { return strings.EqualFold(name, part) }) {
			return false
		}
	}
	return true
}
