package checkout_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/service/internal/checkout"
)

// TestDiffTrees: what a mission left is shown from any checkout of its
// repository, whatever was changed since.
func TestDiffTrees(t *testing.T) {
	ctx, run := context.Background(), directExec(t)
	dir := repo(t, filepath.Join(t.TempDir(), "r"))
	write(t, filepath.Join(dir, "kept"), "the person's own\n")
	write(t, filepath.Join(dir, "moved"), strings.Repeat("a line of its own\n", 20))
	base, err := checkout.TakeBase(ctx, run, dir, "m-1")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "new"), "by the agent\n")
	write(t, filepath.Join(dir, "elsewhere"), strings.Repeat("a line of its own\n", 20))
	gitIn(t, dir, "clean", "-qf", "moved")
	end, err := checkout.Snapshot(ctx, run, dir, "m-1", "end")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "new"), "by somebody later\n")
	write(t, filepath.Join(dir, "later"), "by somebody later\n")

	got, err := checkout.DiffTrees(ctx, run, dir, base.Tree, end, "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range got.Files {
		names = append(names, f.Status+" "+f.From+" "+f.Path)
	}
	if strings.Join(names, ", ") != "renamed moved elsewhere, added  new" {
		t.Errorf("changed: %v", names)
	}
	if text := string(got.Patch); !strings.Contains(text, "+by the agent") || strings.Contains(text, "later") || strings.Contains(text, "person") {
		t.Errorf("the patch is\n%s", text)
	}
	one, err := checkout.DiffTrees(ctx, run, dir, base.Tree, end, "new")
	if err != nil || !strings.Contains(string(one.Patch), "b/new") || strings.Contains(string(one.Patch), "elsewhere") {
		t.Errorf("of one file: %v\n%s", err, one.Patch)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".git", "reeve-index-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	if _, err := checkout.DiffTrees(ctx, run, dir, base.Tree, "HEAD", ""); err == nil {
		t.Error("a name was taken for a tree")
	}
}
