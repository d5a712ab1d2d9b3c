package checkout_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// TestClaimsModel: claims are what a model of them says after any takes, retakes
// (by a recovery), marks and releases, right and wrong ones, over every name of
// a folder; a change that is refused changes nothing.
func TestClaimsModel(t *testing.T) {
	db := open(t)
	base := t.TempDir()
	for _, dir := range []string{"a/in", "b"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(base, "a"), filepath.Join(base, "other")); err != nil {
		t.Fatal(err)
	}
	// What a path is, whatever its name: claims of one tree exclude each other.
	tree := map[string]string{"a": "a", "a/in": "a", "other": "a", "b": "b"}
	names := []string{"a", "a/in", "other", "b"}
	missions := []string{"m-1", "m-2", "m-3"}
	type claim struct{ attempt, turn string }
	rapid.Check(t, func(rt *rapid.T) {
		model := map[string]map[string]claim{} // mission → name → claim
		for _, m := range missions {
			model[m] = map[string]claim{}
		}
		if err := db.Update(context.Background(), func(tx *store.Tx) error {
			for _, m := range missions {
				for _, n := range names {
					if err := checkout.Release(tx, filepath.Join(base, n), m); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			rt.Fatal(err)
		}
		for step := range rapid.IntRange(1, 20).Draw(rt, "steps") {
			m := rapid.SampledFrom(missions).Draw(rt, "mission")
			name := rapid.SampledFrom(names).Draw(rt, "folder")
			path := filepath.Join(base, name)
			mine, owned := model[m][name]
			what := rapid.SampledFrom([]string{"take", "take", "mark", "unmark", "release"}).Draw(rt, "what")
			may := true
			var change func(tx *store.Tx) error
			switch what {
			case "take":
				for x, claims := range model {
					for n := range claims {
						may = may && (x == m || tree[n] != tree[name])
					}
				}
				mine = claim{attempt: fmt.Sprint("a-", step)}
				seen, err := checkout.Look(context.Background(), db, path)
				if err != nil {
					rt.Fatal(err)
				}
				change = func(tx *store.Tx) error { return checkout.Take(tx, seen, m, mine.attempt, time.Unix(0, 0)) }
			case "mark", "unmark":
				may = owned
				if mine.turn = ""; what == "mark" {
					mine.turn = fmt.Sprint("t-", step)
				}
				change = func(tx *store.Tx) error { return checkout.Mark(tx, path, m, proc.ID{PID: step + 1}, mine.turn) }
			case "release": // of what is not owned, it is no error and no change
				change = func(tx *store.Tx) error { return checkout.Release(tx, path, m) }
			}
			if err := db.Update(context.Background(), change); (err == nil) != may {
				rt.Fatalf("%s of %s by %s, while %v: %v", what, name, m, model, err)
			}
			switch {
			case what == "release":
				delete(model[m], name)
			case may:
				model[m][name] = mine
			}
			n := 0
			if err := db.View(func(tx *store.Tx) error {
				for m, claims := range model {
					n += len(claims)
					c, ok, err := checkout.Owned(tx, m)
					if err != nil {
						return err
					}
					if ok != (len(claims) > 0) {
						rt.Fatalf("%s owns something %v, want %v", m, ok, claims)
					}
					rel, _ := filepath.Rel(base, c.Path)
					if want := claims[filepath.ToSlash(rel)]; ok && (want != claim{c.Attempt, c.Turn}) {
						rt.Fatalf("%s owns %s as %+v, want %+v", m, rel, c, want)
					}
				}
				if got, err := checkout.Count(tx); err != nil || got != n {
					rt.Fatalf("%d claims, want %d, %v", got, n, err)
				}
				return nil
			}); err != nil {
				rt.Fatal(err)
			}
		}
	})
}
