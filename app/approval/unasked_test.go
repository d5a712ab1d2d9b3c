package approval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"pgregory.net/rapid"
)

// root is an absolute path on any platform; nothing needs to be there.
var root = filepath.Join(filepath.Clean(os.TempDir()), "a")

func under(parts ...string) approval.Path {
	return approval.Path{Asked: strings.Join(parts, "/"), Resolved: filepath.Join(append([]string{root}, parts...)...)}
}

func TestUnasked(t *testing.T) {
	all := []string{"reads", "edits", "plan", "room"}
	in := under("b", "x.go")
	out := approval.Path{Asked: "/etc/passwd", Resolved: filepath.Join(root, "..", "etc", "passwd")}
	for _, row := range []struct {
		name    string
		allowed []string
		call    approval.Call
		rule    string
	}{
		{"read inside", all, approval.Call{Kind: "read", Paths: []approval.Path{in}}, "reads"},
		{"search of the folder itself", all, approval.Call{Kind: "search", Paths: []approval.Path{under("b")}}, "reads"},
		{"edit inside", all, approval.Call{Kind: "edit", Paths: []approval.Path{in}}, "edits"},
		{"plan", all, approval.Call{Kind: "plan"}, "plan"},
		{"plan with a path", all, approval.Call{Kind: "plan", Paths: []approval.Path{in}}, ""},
		{"read, rule not chosen", []string{"edits"}, approval.Call{Kind: "read", Paths: []approval.Path{in}}, ""},
		{"edit, rule not chosen", []string{"reads"}, approval.Call{Kind: "edit", Paths: []approval.Path{in}}, ""},
		{"nothing chosen", nil, approval.Call{Kind: "read", Paths: []approval.Path{in}}, ""},
		{"read outside", all, approval.Call{Kind: "read", Paths: []approval.Path{out}}, ""},
		{"one of two outside", all, approval.Call{Kind: "read", Paths: []approval.Path{in, out}}, ""},
		{"no path", all, approval.Call{Kind: "read"}, ""},
		{"path that could not be resolved", all, approval.Call{Kind: "read", Paths: []approval.Path{{Asked: "x", Resolved: in.Resolved, Err: "loop"}}}, ""},
		{"path that was not resolved", all, approval.Call{Kind: "read", Paths: []approval.Path{{Asked: "x"}}}, ""},
		{"same beginning", all, approval.Call{Kind: "read", Paths: []approval.Path{{Resolved: filepath.Join(root, "bc")}}}, ""},
		{"dots", all, approval.Call{Kind: "read", Paths: []approval.Path{{Resolved: filepath.Join(root, "b") + "/../c"}}}, ""},
		{"relative", all, approval.Call{Kind: "read", Paths: []approval.Path{{Resolved: "b/x"}}}, ""},
		{"NUL", all, approval.Call{Kind: "read", Paths: []approval.Path{{Resolved: in.Resolved + "\x00"}}}, ""},
		{"read of .git", all, approval.Call{Kind: "read", Paths: []approval.Path{under("b", ".git", "config")}}, "reads"},
		{"edit of .git", all, approval.Call{Kind: "edit", Paths: []approval.Path{under("b", ".git", "hooks", "post-commit")}}, ""},
		{"edit of .GIT", all, approval.Call{Kind: "edit", Paths: []approval.Path{under("b", ".GIT", "config")}}, ""},
		{"edit of agent settings", all, approval.Call{Kind: "edit", Paths: []approval.Path{under("b", "sub", ".claude", "settings.json")}}, ""},
		{"edit of .gitignore", all, approval.Call{Kind: "edit", Paths: []approval.Path{under("b", ".gitignore")}}, "edits"},
		{"execute", all, approval.Call{Kind: "execute", Paths: []approval.Path{in}}, ""},
		{"fetch", all, approval.Call{Kind: "fetch"}, ""},
		{"mcp", all, approval.Call{Kind: "mcp", Paths: []approval.Path{in}}, ""},
		{"mcp without a path", all, approval.Call{Kind: "mcp"}, ""},
		{"our own server", all, approval.Call{Kind: "mcp", Own: true}, "room"},
		{"our own server, rule not chosen", []string{"reads", "edits", "plan"}, approval.Call{Kind: "mcp", Own: true}, ""},
		{"our own server with a path", all, approval.Call{Kind: "mcp", Own: true, Paths: []approval.Path{in}}, ""},
		{"execute that claims to be ours", all, approval.Call{Kind: "execute", Own: true}, ""},
		{"other that claims to be ours", all, approval.Call{Kind: "other", Own: true}, ""},
		{"other", all, approval.Call{Kind: "other", Paths: []approval.Path{in}}, ""},
		{"no kind", append([]string{""}, all...), approval.Call{Paths: []approval.Path{in}}, ""},
	} {
		rule, ok := approval.Unasked(row.allowed, filepath.Join(root, "b"), row.call)
		if rule != row.rule || ok != (row.rule != "") {
			t.Errorf("%s: %q %v, want %q", row.name, rule, ok, row.rule)
		}
	}
	if _, ok := approval.Unasked(all, "", approval.Call{Kind: "read", Paths: []approval.Path{in}}); ok {
		t.Error("a read passes without a folder")
	}
}

func TestNothingOutsidePasses(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "bc", "..", ".", "", ".git", "B"})
	rapid.Check(t, func(t *rapid.T) {
		folder := filepath.Join(root, "b")
		raw := root + string(filepath.Separator) + strings.Join(rapid.SliceOfN(part, 0, 6).Draw(t, "parts"), string(filepath.Separator))
		call := approval.Call{Kind: rapid.SampledFrom([]string{"read", "search", "edit", "execute", "plan"}).Draw(t, "kind"),
			Paths: []approval.Path{{Asked: raw, Resolved: raw}}}
		_, ok := approval.Unasked([]string{"reads", "edits", "plan"}, folder, call)
		rel, err := filepath.Rel(folder, raw)
		if outside := err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)); ok && outside {
			t.Fatalf("%s passes, and is outside %s", raw, folder)
		}
		if ok && call.Kind == "execute" {
			t.Fatal("execution passes")
		}
	})
}
