package store_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/reevehq/reeve/service/internal/store"
)

func auditKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func TestAuditChain(t *testing.T) {
	path := newPath(t)
	clock := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 3600))
	db := open(t, path, store.Options{Now: func() time.Time { return clock }})
	const n = 2500 // more than two verification steps
	must(t, db.Update(ctx, func(tx *store.Tx) error {
		for i := range n {
			err := tx.Audit(store.AuditEntry{Kind: store.AuditAnswer, Actor: "desktop", Mission: "m-1", Text: fmt.Sprint("answer <", i, ">"), Data: json.RawMessage(`{ "b": "<&>", "a": 1.0 }`)})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	failed := db.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(tx.Audit(store.AuditEntry{Kind: store.AuditAnswer}), errors.New("rolled back"))
	})
	if failed == nil {
		t.Fatal("no error")
	}
	for _, bad := range []store.AuditEntry{{}, {Kind: "other"}, {Kind: store.AuditRule, Data: json.RawMessage("{")}} {
		if err := db.Update(ctx, func(tx *store.Tx) error { return tx.Audit(bad) }); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	entries, err := db.Audit(0, 3)
	if err != nil || len(entries) != 3 || entries[0].Seq != 1 || entries[0].Prev != "" || entries[2].Prev != entries[1].Hash {
		t.Fatalf("%+v %v", entries, err)
	}
	if e := entries[0]; !e.Time.Equal(clock) || string(e.Data) != `{"b":"<&>","a":1.0}` || e.Text != "answer <0>" {
		t.Errorf("%+v", e)
	}
	last, err := db.Audit(n, 10)
	must(t, err)
	report, err := db.VerifyAudit(ctx)
	if err != nil || report.Entries != n || report.BrokenAt != 0 || report.Head != last[0].Hash {
		t.Errorf("%+v %v", report, err)
	}
}

func TestAuditTamperingIsFound(t *testing.T) {
	edit := func(n uint64, old, new string) func(*bbolt.Bucket) error {
		return func(b *bbolt.Bucket) error {
			return b.Put(auditKey(n), bytes.Replace(b.Get(auditKey(n)), []byte(old), []byte(new), 1))
		}
	}
	cases := map[string]struct {
		change func(b *bbolt.Bucket) error
		at     uint64
	}{
		"text":     {edit(3, "denied", "allowed"), 3},
		"data":     {edit(4, `"n":4`, `"n":5`), 4},
		"actor":    {edit(1, "worker", "person"), 1},
		"number":   {edit(5, `"seq":5`, `"seq":6`), 5},
		"not json": {edit(2, "{", ""), 2},
		"middle":   {func(b *bbolt.Bucket) error { return b.Delete(auditKey(6)) }, 6},
		"first":    {func(b *bbolt.Bucket) error { return b.Delete(auditKey(1)) }, 1},
		"last":     {func(b *bbolt.Bucket) error { return b.Delete(auditKey(10)) }, 10},
		"appended": {func(b *bbolt.Bucket) error { return b.Put(auditKey(11), b.Get(auditKey(10))) }, 11},
		"swapped": {func(b *bbolt.Bucket) error {
			five, six := bytes.Clone(b.Get(auditKey(5))), bytes.Clone(b.Get(auditKey(6)))
			return errors.Join(b.Put(auditKey(5), six), b.Put(auditKey(6), five))
		}, 5},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/reeve.db"
			db := open(t, path, store.Options{})
			for i := 1; i <= 10; i++ {
				must(t, db.Update(ctx, func(tx *store.Tx) error {
					return tx.Audit(store.AuditEntry{Kind: store.AuditRefusal, Actor: "worker", Text: "denied", Data: fmt.Appendf(nil, `{"n":%d}`, i)})
				}))
			}
			must(t, db.Close())
			must(t, store.CheckFile(path, anySchema))
			raw(t, path, func(tx *bbolt.Tx) error { return c.change(tx.Bucket([]byte("store.audit"))) })
			var damage *store.DamagedError
			if err := store.CheckFile(path, anySchema); !errors.As(err, &damage) {
				t.Errorf("check: %v", err)
			}
			db = open(t, path, store.Options{})
			report, err := db.VerifyAudit(ctx)
			if err != nil || report.BrokenAt != c.at || report.Detail == "" {
				t.Errorf("%+v %v, want broken at %d", report, err, c.at)
			}
			if err := db.Check(); !errors.As(err, &damage) {
				t.Errorf("check while open: %v", err)
			}
		})
	}
}

// Pages hold every entry once and as it is stored, whatever comes meanwhile.
func TestAuditPages(t *testing.T) {
	path := t.TempDir() + "/reeve.db"
	db := open(t, path, store.Options{})
	add := func(n, size int) {
		must(t, db.Update(ctx, func(tx *store.Tx) error {
			for range n {
				if err := tx.Audit(store.AuditEntry{Kind: store.AuditAnswer, Text: strings.Repeat("<", size)}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	add(5, 100)
	add(1, 5000) // more than a page may have
	add(3, 100)
	var lines []json.RawMessage
	var sizes []int
	for after, more := uint64(0), true; more && len(sizes) < 9; {
		page, err := db.AuditPage(after, 4, 1000)
		must(t, err)
		lines, sizes = append(lines, page.Entries...), append(sizes, len(page.Entries))
		if len(sizes) == 2 {
			add(1, 100)
		}
		after, more = page.Last, page.More
	}
	// At 1,000 bytes a page ends after three; the large one has one of its own.
	if !slices.Equal(sizes, []int{3, 2, 1, 3, 1}) {
		t.Errorf("pages of %v entries", sizes)
	}
	if page, err := db.AuditPage(0, 4, 1<<20); err != nil || len(page.Entries) != 4 || page.Last != 4 || !page.More {
		t.Errorf("%d entries, the last %d, more %v, %v", len(page.Entries), page.Last, page.More, err)
	}
	for _, beyond := range []uint64{10, 11, math.MaxUint64} {
		if page, err := db.AuditPage(beyond, 4, 1000); err != nil || page.Entries == nil || len(page.Entries) > 0 || page.Last != beyond || page.More {
			t.Errorf("after %d: %+v %v", beyond, page, err)
		}
	}
	must(t, db.Close())
	raw(t, path, func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("store.audit"))
		for i, line := range lines {
			if !bytes.Equal(line, b.Get(auditKey(uint64(i+1)))) {
				t.Errorf("entry %d is %s", i+1, line)
			}
		}
		// What somebody edited neither hides nor repeats an entry.
		return errors.Join(b.Put(auditKey(3), bytes.Replace(lines[2], []byte(`"seq":3`), []byte(`"seq":1`), 1)), b.Put(auditKey(9), []byte("{")))
	})
	if len(lines) != 10 {
		t.Errorf("%d entries", len(lines))
	}
	db = open(t, path, store.Options{})
	if page, err := db.AuditPage(0, 8, 1<<20); err != nil || len(page.Entries) != 8 || page.Last != 8 {
		t.Errorf("%d entries, the last %d, %v", len(page.Entries), page.Last, err)
	}
	var damage *store.DamagedError
	if _, err := db.AuditPage(0, 9, 1<<20); !errors.As(err, &damage) || !strings.Contains(damage.Detail, "after number 8") {
		t.Errorf("%v", err)
	}
}

// Whatever text a worker sends, the record that is read back has the hash that
// was written.
func TestAuditHoldsForAnyText(t *testing.T) {
	db := open(t, newPath(t), store.Options{})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte())
		data, _ := json.Marshal(string(text.Draw(t, "data")))
		e := store.AuditEntry{
			Kind: store.AuditEffect, Actor: string(text.Draw(t, "actor")), Text: string(text.Draw(t, "text")),
			Time: time.Unix(rapid.Int64Range(0, 1<<34).Draw(t, "time"), 0), Data: data,
		}
		if err := db.Update(ctx, func(tx *store.Tx) error { return tx.Audit(e) }); err != nil {
			t.Fatal(err)
		}
		if report, err := db.VerifyAudit(ctx); err != nil || report.BrokenAt != 0 {
			t.Fatalf("%+v %v", report, err)
		}
	})
}
