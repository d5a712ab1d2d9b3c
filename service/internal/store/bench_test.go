package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/internal/store"
)

const writers = 16

// BenchmarkJournal16Writers measures durable transitions of 16 writers, and in
// the same run the same writers over a bare group commit that appends to one
// file and syncs it once a group: x-raw is the journal's share of that.
func BenchmarkJournal16Writers(b *testing.B) {
	record := make([]byte, 300)
	// The two take turns, so that a disk whose speed drifts does not favour one.
	db, err := store.Open(filepath.Join(b.TempDir(), "reeve.db"), store.Options{})
	must(b, err)
	defer db.Close()
	raw := newRawLog(b)
	defer raw.close()
	var journal, bare time.Duration
	var n int
	for b.Loop() {
		const per = 40
		bare += timed(func() {
			each(per, func(w, i int) { raw.append(record) })
		})
		journal += timed(func() {
			each(per, func(w, i int) {
				key := fmt.Appendf(nil, "m-%d-%d", w, i)
				if err := db.Update(ctx, func(tx *store.Tx) error { return tx.Put("missions", key, record) }); err != nil {
					panic(err)
				}
			})
		})
		n += per * writers
	}
	b.ReportMetric(float64(n)/journal.Seconds(), "journal/s")
	b.ReportMetric(float64(n)/bare.Seconds(), "raw/s")
	b.ReportMetric(bare.Seconds()/journal.Seconds(), "x-raw")
}

func timed(fn func()) time.Duration {
	start := time.Now()
	fn()
	return time.Since(start)
}

func each(per int, fn func(w, i int)) {
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range per {
				fn(w, i)
			}
		})
	}
	wg.Wait()
}

// rawLog is the least a group commit can do: one goroutine writes what waits
// and syncs once.
type rawLog struct {
	f     *os.File
	queue chan rawEntry
	done  chan struct{}
}

type rawEntry struct {
	data []byte
	done chan struct{}
}

func newRawLog(b *testing.B) *rawLog {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	must(b, err)
	l := &rawLog{f: f, queue: make(chan rawEntry, writers), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for first := range l.queue {
			group := []rawEntry{first}
			for more := true; more; {
				select {
				case e, ok := <-l.queue:
					if more = ok; ok {
						group = append(group, e)
					}
				default:
					more = false
				}
			}
			var data []byte
			for _, e := range group {
				data = append(data, e.data...)
			}
			if _, err := f.Write(data); err != nil {
				panic(err)
			}
			if err := dataSync(f); err != nil {
				panic(err)
			}
			for _, e := range group {
				close(e.done)
			}
		}
	}()
	return l
}

func (l *rawLog) append(data []byte) {
	e := rawEntry{data, make(chan struct{})}
	l.queue <- e
	<-e.done
}

func (l *rawLog) close() { close(l.queue); <-l.done; l.f.Close() }

// BenchmarkOpen10000 opens a journal of 10,000 records of 2 KiB, with the check
// of every page.
func BenchmarkOpen10000(b *testing.B) {
	path := filepath.Join(b.TempDir(), "reeve.db")
	db, err := store.Open(path, store.Options{})
	must(b, err)
	must(b, db.Update(ctx, func(tx *store.Tx) error {
		for i := range 10_000 {
			if err := tx.Put("missions", fmt.Appendf(nil, "m-%08d", i), make([]byte, 2048)); err != nil {
				return err
			}
		}
		return nil
	}))
	must(b, db.Close())
	for b.Loop() {
		db, err := store.Open(path, store.Options{})
		must(b, err)
		must(b, db.Close())
	}
}

func BenchmarkCreate(b *testing.B) {
	dir := b.TempDir()
	n := 0
	for b.Loop() {
		n++
		db, err := store.Open(filepath.Join(dir, fmt.Sprint(n)), store.Options{})
		must(b, err)
		must(b, db.Close())
	}
}
