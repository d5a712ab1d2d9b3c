package e2e

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// BenchmarkStart is from the start of the program to its first answer, beside
// the start of a program that does nothing, which this machine can't undercut.
func BenchmarkStart(b *testing.B) {
	report := func(b *testing.B, all, bare []time.Duration) {
		slices.Sort(all)
		slices.Sort(bare)
		b.ReportMetric(ms(all[len(all)/2]), "ms-p50")
		b.ReportMetric(ms(all[0]), "ms-best")
		b.ReportMetric(ms(bare[0]), "ms-best-of-an-empty-program")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("empty", func(b *testing.B) {
		var all, bare []time.Duration
		for range b.N * 11 { // one alone says little
			s := newShipped(b)
			all = append(all, s.start())
			bare = append(bare, s.nothing())
			s.end()
		}
		report(b, all, bare)
	})
	b.Run("10000-missions", func(b *testing.B) {
		s := newShipped(b)
		s.start()
		c := s.dial()
		id := s.begin(c, "repo", "demo:burst 10").ID
		s.until(c, id, func(m wire.Mission) bool { return m.Phase == "completed" })
		c.Close()
		s.end()
		s.multiply(id, 10_000)
		var all, bare []time.Duration
		for range b.N * 11 {
			all = append(all, s.start())
			bare = append(bare, s.nothing())
			c := s.dial()
			if got := ask[wire.MissionListResult](b, c, wire.MethodMissionList, wire.MissionListParams{Limit: 100}); len(got.Missions) != 100 || !got.More {
				b.Fatalf("%d missions are listed", len(got.Missions))
			}
			c.Close()
			s.end()
		}
		report(b, all, bare)
	})
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// multiply copies a finished mission in the journal of a service that does not
// run: its record, its approvals and its part of the audit, under new ids. The
// chain of the audit does not hold afterwards, which no start looks at.
func (s *shipped) multiply(id string, n int) {
	s.b.Helper()
	db, err := bbolt.Open(filepath.Join(s.dir, "state", "reeve.db"), 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true})
	if err != nil {
		s.b.Fatal(err)
	}
	old := strings.TrimPrefix(id, "m-")
	err = db.Update(func(tx *bbolt.Tx) error {
		type pair struct{ bucket, key, value string }
		var all []pair
		last := uint64(0)
		for _, name := range []string{"missions", "approvals", "store.audit"} {
			b := tx.Bucket([]byte(name))
			err := b.ForEach(func(k, v []byte) error {
				if name == "store.audit" {
					last = binary.BigEndian.Uint64(k)
				}
				if strings.Contains(string(v), old) {
					all = append(all, pair{name, string(k), string(v)})
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		for i := range n {
			fresh := fmt.Sprintf("%s%010d", old[:len(old)-10], i)
			for _, p := range all {
				key := strings.ReplaceAll(p.key, old, fresh)
				switch p.bucket {
				case "approvals":
					key = fmt.Sprintf("%s%010d", p.key[:len(p.key)-10], i)
				case "store.audit":
					last++
					key = string(binary.BigEndian.AppendUint64(nil, last))
				}
				value := strings.ReplaceAll(strings.ReplaceAll(p.value, old, fresh), p.key, key)
				if err := tx.Bucket([]byte(p.bucket)).Put([]byte(key), []byte(value)); err != nil {
					return err
				}
			}
		}
		s.b.Logf("%d records for each of %d missions", len(all), n)
		return nil
	})
	if err != nil {
		s.b.Fatal(err)
	}
	if err := db.Sync(); err != nil {
		s.b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		s.b.Fatal(err)
	}
}

// BenchmarkReadopt is from the start of a service, whose predecessor was
// killed, to its first answer, with 64 live guards to adopt.
func BenchmarkReadopt(b *testing.B) {
	const live = 64
	s := newShipped(b)
	s.start()
	c := s.dial()
	var ids []string
	for i := range live {
		scope := "demo:wait\ndemo:burst 200"
		if i%4 == 0 {
			scope = "demo:slow 36000" // in a turn all the while
		}
		ids = append(ids, s.begin(c, fmt.Sprint("repo", i), scope).ID)
	}
	for i, id := range ids {
		s.until(c, id, func(m wire.Mission) bool {
			return m.Turn > 0 && (m.Phase == "waiting" || i%4 == 0 && m.Phase == "working")
		})
	}
	c.Close()
	var all, bare []time.Duration
	for range b.N * 5 {
		if err := s.cmd.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		_ = s.cmd.Wait()
		bare = append(bare, s.nothing())
		all = append(all, s.start())
		c := s.dial()
		for _, id := range ids {
			m := ask[wire.MissionResult](b, c, wire.MethodMissionGet, wire.IDParams{ID: id}).Mission
			if m.Recovery != "supervisor_present" {
				b.Fatalf("a mission is not adopted: %s %s", m.Phase, m.BlockedBy)
			}
			s.gapless(c, m)
		}
		c.Close()
	}
	slices.Sort(all)
	b.ReportMetric(ms(all[len(all)/2]), "ms-p50")
	b.ReportMetric(ms(all[0]), "ms-best")
	b.ReportMetric(ms(slices.Min(bare)), "ms-best-of-an-empty-program")
	b.ReportMetric(0, "ns/op")
}

// gapless fails unless a transcript counts from 1 without gaps or repeats.
func (s *shipped) gapless(c *client.Client, m wire.Mission) {
	s.b.Helper()
	next := uint64(1)
	p := wire.MessagesParams{Session: m.ID, Limit: 1000}
	for more := true; more; {
		page := ask[wire.MessagesResult](s.b, c, wire.MethodSessionMessages, p)
		for _, e := range page.Entries {
			if e.Seq != next {
				s.b.Fatalf("entry %d comes where %d should", e.Seq, next)
			}
			next++
		}
		p.After, more = page.Next, page.More
	}
}

// empty builds a program that does nothing, once.
var empty = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(bin, "empty")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return "", err
	}
	return filepath.Join(dir, "empty"), goBuild("-o", filepath.Join(dir, "empty"), file)
})

// nothing runs a program that does nothing, and returns how long that took.
func (s *shipped) nothing() time.Duration {
	s.b.Helper()
	path, err := empty()
	if err != nil {
		s.b.Fatal(err)
	}
	at := time.Now()
	if out, err := exec.Command(path).CombinedOutput(); err != nil {
		s.b.Fatalf("%v\n%s", err, out)
	}
	return time.Since(at)
}
