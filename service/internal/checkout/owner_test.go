package checkout_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

func change(db *store.DB, fn func(tx *store.Tx) error) error {
	return db.Update(context.Background(), fn)
}

func take(db *store.DB, path, mission string) error {
	seen, err := checkout.Look(context.Background(), db, path)
	if err != nil {
		return err
	}
	return change(db, func(tx *store.Tx) error { return checkout.Take(tx, seen, mission, "a-1", time.Unix(0, 0)) })
}

// TestOnlyTheOwnerOfAClaim: a mission can neither mark nor release what another
// one owns.
func TestOnlyTheOwnerOfAClaim(t *testing.T) {
	db, dir := open(t), t.TempDir()
	if err := take(db, dir, "m-1"); err != nil {
		t.Fatal(err)
	}
	var r *checkout.Refusal
	err := change(db, func(tx *store.Tx) error { return checkout.Mark(tx, dir, "m-2", proc.ID{PID: 2}, "t-2") })
	if !errors.As(err, &r) {
		t.Errorf("marked by another: %v, want a refusal", err)
	}
	if err := change(db, func(tx *store.Tx) error { return checkout.Release(tx, dir, "m-2") }); err != nil {
		t.Error(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		c, ok, err := checkout.Owned(tx, "m-1")
		if !ok || c.Turn != "" || c.Owner.PID != 0 {
			t.Errorf("%+v, %v", c, ok)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestAnotherNameOfAFolder: names are compared by what they lead to. A link
// stands for a bind mount, which only root can make.
func TestAnotherNameOfAFolder(t *testing.T) {
	db, dir := open(t), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skipf("no link can be made here: %v", err)
	}
	if err := take(db, dir, "m-1"); err != nil {
		t.Fatal(err)
	}
	var r *checkout.Refusal
	if err := take(db, link, "m-2"); !errors.As(err, &r) || r.Owner != "m-1" {
		t.Errorf("got %v, want a refusal that names m-1", err)
	}
}
