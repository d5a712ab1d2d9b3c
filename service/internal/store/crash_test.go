package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/reevehq/reeve/service/internal/store"
)

// child does a test's work in a process of its own; it says whether there was
// any.
func child(task string) bool {
	what, path, _ := strings.Cut(task, ":")
	run, ok := children[what]
	if ok {
		if err := run(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	return ok
}

var children = map[string]func(path string) error{"write": writeForever}

func runChild(t *testing.T, task string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "REEVE_STORE_TEST_CHILD="+task)
	cmd.Stderr = os.Stderr
	return cmd
}

// writeForever prints a key as soon as its write was acknowledged.
func writeForever(path string) error {
	db, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	generation, err := db.BeginGeneration(ctx)
	if err != nil {
		return err
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d-%d-%d", generation, w, i)
				err := db.Update(ctx, func(tx *store.Tx) error {
					err := tx.Audit(store.AuditEntry{Kind: store.AuditService, Text: key})
					return errors.Join(err, tx.Put("b", []byte(key), []byte(strings.Repeat(key, 40))))
				})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				out.Lock()
				fmt.Println(key)
				out.Unlock()
			}
		})
	}
	wg.Wait()
	return nil
}

func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	path := newPath(t)
	acked := map[string]bool{}
	for round := range 12 {
		cmd := runChild(t, "write:"+path)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			acked[lines.Text()] = true
			if n == round*17 {
				must(t, cmd.Process.Kill())
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer ended by itself")
		}
		must(t, store.CheckFile(path, anySchema))
		db := open(t, path, store.Options{})
		for key := range acked {
			if get(t, db, key) != strings.Repeat(key, 40) {
				t.Fatalf("round %d: %s was acknowledged and is lost", round, key)
			}
		}
		must(t, db.Close())
	}
	if len(acked) < 12 {
		t.Errorf("only %d writes", len(acked))
	}
}

// Creation that is cut short at any point leaves no file under the name, or a
// whole one.
func TestLeftoverOfACutCreationIsIgnored(t *testing.T) {
	path := newPath(t)
	must(t, os.WriteFile(path+".new-123", []byte("half"), 0o600))
	db := open(t, path, store.Options{})
	must(t, db.Update(ctx, put("k", "v")))
	must(t, db.Close())
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
}
