package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/service/internal/store"
)

// Random transactions do what a map does, across failures and reopening.
func TestAgainstModel(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		path := filepath.Join(dir, fmt.Sprintf("%d.db", run))
		db, err := store.Open(path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := errors.Join(db.Close(), store.CheckFile(path, anySchema)); err != nil {
				t.Fatal(err)
			}
		}()
		model, next := map[string]string{}, uint64(0)
		key := rapid.StringMatching(`[a-d]{1,3}`)
		value := rapid.OneOf(rapid.StringMatching(`[a-z]{0,3}`), rapid.Just(strings.Repeat("long", 700)))
		write := func(tx *store.Tx, m map[string]string, n *uint64) {
			for range rapid.IntRange(1, 6).Draw(t, "ops") {
				k := key.Draw(t, "key")
				switch rapid.IntRange(0, 3).Draw(t, "op") {
				case 0, 1:
					v := value.Draw(t, "value")
					if err := tx.Put("b", []byte(k), []byte(v)); err != nil {
						t.Fatal(err)
					}
					m[k] = v
				case 2:
					if err := tx.Delete("b", []byte(k)); err != nil {
						t.Fatal(err)
					}
					delete(m, k)
				case 3:
					got, err := tx.Next("b")
					*n++
					if err != nil || got != *n {
						t.Fatalf("next %d %v, want %d", got, err, *n)
					}
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				from := key.Draw(t, "from")
				err := db.View(func(tx *store.Tx) error {
					compare(t, tx, model, nil)
					compare(t, tx, model, []byte(from))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			},
			"commit": func(*rapid.T) {
				m, n := maps.Clone(model), next
				if err := db.Update(ctx, func(tx *store.Tx) error { write(tx, m, &n); compare(t, tx, m, nil); return nil }); err != nil {
					t.Fatal(err)
				}
				model, next = m, n
			},
			"fail": func(*rapid.T) {
				no := errors.New("no")
				m, n := maps.Clone(model), next
				if err := db.Update(ctx, func(tx *store.Tx) error { write(tx, m, &n); return no }); !errors.Is(err, no) {
					t.Fatal(err)
				}
			},
			"delete while scanning": func(t *rapid.T) {
				reverse := rapid.Bool().Draw(t, "reverse")
				doomed := func(k []byte) bool { return k[0] == 'a' || k[len(k)-1] == 'b' }
				want, seen := len(model), 0
				err := db.Update(ctx, func(tx *store.Tx) error {
					scan := tx.Scan
					if reverse {
						scan = tx.ScanReverse
					}
					return scan("b", nil, func(k, v []byte) (bool, error) {
						seen++
						if doomed(k) {
							return true, tx.Delete("b", k)
						}
						return true, tx.Put("b", k, []byte("kept"))
					})
				})
				if err != nil || seen != want {
					t.Fatalf("saw %d of %d, %v", seen, want, err)
				}
				for k := range model {
					if model[k] = "kept"; doomed([]byte(k)) {
						delete(model, k)
					}
				}
			},
			"delete all": func(t *rapid.T) {
				err := db.Update(ctx, func(tx *store.Tx) error {
					for k := range model {
						if err := tx.Delete("b", []byte(k)); err != nil {
							return err
						}
					}
					compare(t, tx, nil, nil)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				clear(model)
			},
			"reopen": func(t *rapid.T) {
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				if db, err = store.Open(path, store.Options{}); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// compare reads the bucket in both directions and wants what the model has.
func compare(t *rapid.T, tx *store.Tx, model map[string]string, from []byte) {
	keys := slices.Sorted(maps.Keys(model))
	up := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return from != nil && k < string(from) })
	down := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return from != nil && k > string(from) })
	slices.Reverse(down)
	for _, c := range []struct {
		scan func(string, []byte, func(k, v []byte) (bool, error)) error
		want []string
	}{{tx.Scan, up}, {tx.ScanReverse, down}} {
		var got []string
		err := c.scan("b", from, func(k, v []byte) (bool, error) {
			got = append(got, string(k))
			if string(v) != model[string(k)] || !bytes.Equal(v, tx.Get("b", k)) {
				t.Fatalf("%s holds %q", k, v)
			}
			return true, nil
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Fatalf("from %q: got %q, want %q, %v", from, got, c.want, err)
		}
	}
}
