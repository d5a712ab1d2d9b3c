package runlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(appendVar); path != "" {
		if err := writeSynced(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// odd is a folder with a name that breaks careless code.
func odd(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "-a \"b\" 'c' 日本 🦉 "+strings.Repeat("x", 180))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t testing.TB, path string, recs []Record) {
	t.Helper()
	w, err := Create(path, "a-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if _, err := w.Append(r.Time, r.Kind, r.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func sample(n int) []Record {
	recs := make([]Record, n)
	for i := range recs {
		data, _ := json.Marshal(map[string]any{"n": i, "text": strings.Repeat("a", i%50)})
		recs[i] = Record{uint64(i + 1), time.Unix(100, int64(i)), "text", data}
	}
	return recs
}

// all reads to the end and returns what is not a record too.
func all(t testing.TB, path string) (recs []Record, bad []*CorruptError, torn *TornError) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		if errors.As(err, &torn) {
			return nil, nil, torn
		}
		t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		var c *CorruptError
		switch {
		case err == nil:
			recs = append(recs, rec)
		case err == io.EOF:
			return recs, bad, nil
		case errors.As(err, &torn):
			return recs, bad, torn
		case errors.As(err, &c):
			bad = append(bad, c)
		default:
			t.Fatal(err)
		}
	}
}

func same(a, b Record) bool {
	return a.Seq == b.Seq && a.Time.Equal(b.Time) && a.Kind == b.Kind && bytes.Equal(a.Data, b.Data)
}

func isPrefix(t testing.TB, got, want []Record) {
	t.Helper()
	if len(got) > len(want) {
		t.Fatalf("%d records from %d", len(got), len(want))
	}
	for i := range got {
		if !same(got[i], want[i]) {
			t.Fatalf("record %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

var genRecords = rapid.Custom(func(t *rapid.T) []Record {
	n := rapid.IntRange(1, 12).Draw(t, "n")
	recs := make([]Record, n)
	for i := range recs {
		data, err := json.Marshal(rapid.String().Draw(t, "data"))
		if err != nil {
			t.Fatal(err)
		}
		kind := rapid.StringN(1, 20, 60).Draw(t, "kind")
		recs[i] = Record{uint64(i + 1), time.Unix(0, rapid.Int64().Draw(t, "time")), kind, data}
	}
	return recs
})

func TestRoundTrip(t *testing.T) {
	dir, i := odd(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		i++
		path := filepath.Join(dir, fmt.Sprint(i))
		recs := genRecords.Draw(rt, "recs")
		write(t, path, recs)
		got, bad, torn := all(t, path)
		if len(got) != len(recs) || bad != nil || torn != nil {
			rt.Fatalf("%d of %d, %v, %v", len(got), len(recs), bad, torn)
		}
		isPrefix(t, got, recs)
	})
}

func TestEveryCutGivesAPrefix(t *testing.T) {
	dir := t.TempDir()
	recs := sample(8)
	path := filepath.Join(dir, "log")
	write(t, path, recs)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[int]bool{}
	r, _ := Open(path)
	ends[int(r.off)] = true
	for range recs {
		_, end, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		ends[int(end)] = true
	}
	_ = r.Close()
	for n := range len(whole) {
		cut := filepath.Join(dir, "cut")
		if err := os.WriteFile(cut, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		got, bad, torn := all(t, cut)
		isPrefix(t, got, recs)
		if bad != nil || (torn == nil) != ends[n] {
			t.Fatalf("cut at %d: %v, %v", n, bad, torn)
		}
		if torn == nil || torn.Offset == 0 {
			continue
		}
		rep, err := Check(t.Context(), cut)
		if err != nil || rep.Torn == nil || *rep.Torn != *torn || rep.Corrupt != nil || rep.Records != uint64(len(got)) {
			t.Fatalf("cut at %d: the report says %+v, %v", n, rep, err)
		}
	}
}

func TestEveryBitFlipIsFound(t *testing.T) {
	dir := t.TempDir()
	recs := sample(5)
	path := filepath.Join(dir, "log")
	write(t, path, recs)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := Open(path)
	header := int(r.off)
	starts := []int{header}
	for range recs {
		_, end, _ := r.next()
		starts = append(starts, int(end))
	}
	_ = r.Close()
	for bit := header * 8; bit < len(whole)*8; bit++ {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		hit := 0
		for starts[hit+1] <= bit/8 {
			hit++
		}
		bent := filepath.Join(dir, "bent")
		if err := os.WriteFile(bent, b, 0o600); err != nil {
			t.Fatal(err)
		}
		got, bad, torn := all(t, bent)
		if hit == len(recs)-1 {
			if torn == nil || len(got) != hit {
				t.Fatalf("bit %d in the last record: %d records, %v, %v", bit, len(got), bad, torn)
			}
			continue
		}
		if torn != nil || len(bad) != 1 || len(got) != len(recs)-1 || bad[0].First != uint64(hit+1) || bad[0].Last != uint64(hit+1) {
			t.Fatalf("bit %d in record %d: %d records, %v, %v", bit, hit+1, len(got), bad, torn)
		}
		rep, err := Check(t.Context(), bent)
		if err != nil || len(rep.Corrupt) != 1 || *rep.Corrupt[0] != *bad[0] || rep.Lost != 1 || rep.Records != uint64(len(got)) || rep.Last != uint64(len(recs)) {
			t.Fatalf("bit %d: the report says %+v, %v", bit, rep, err)
		}
		if kept, _ := os.ReadFile(bent); !bytes.Equal(kept, b) {
			t.Fatal("the log was changed")
		}
	}
	for bit := range header * 8 {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		bent := filepath.Join(dir, "bent")
		if err := os.WriteFile(bent, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Open(bent); err == nil {
			_ = r.Close()
			t.Fatalf("bit %d of the header was not missed", bit)
		}
	}
}

func TestZeroTailIsTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, sample(3))
	appendTo(t, path, make([]byte, 5000))
	got, bad, torn := all(t, path)
	if len(got) != 3 || bad != nil || torn == nil || torn.Bytes != 5000 {
		t.Fatal(len(got), bad, torn)
	}
}

func TestFollowWhileItGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Create(path, "a-1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.LogID() != "a-1" {
		t.Error(r.LogID())
	}
	for i := range 300 {
		if _, err := r.Next(); err != io.EOF {
			t.Fatal(err)
		}
		seq, err := w.Append(time.Unix(5, 0), "text", []byte(`"x"`))
		if err != nil || seq != uint64(i+1) {
			t.Fatal(seq, err)
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("seen before the flush: %v", err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if rec, err := r.Next(); err != nil || rec.Seq != seq {
			t.Fatal(rec, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// Half a record now, the other half later.
	b := appendRecord(nil, Record{301, time.Unix(6, 0), "text", []byte(`"late"`)})
	appendTo(t, path, b[:20])
	if _, err := r.Next(); !errors.Is(err, ErrTorn) {
		t.Fatal(err)
	}
	appendTo(t, path, b[20:])
	if rec, err := r.Next(); err != nil || rec.Seq != 301 {
		t.Fatal(rec, err)
	}
}

func TestSeek(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Create(path, "a-1")
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	data, _ := json.Marshal(strings.Repeat("z", 1000))
	for range n {
		if _, err := w.Append(time.Unix(1, 0), "text", data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.Uint64Range(1, n+1).Draw(rt, "seq")
		if err := r.Seek(want); err != nil {
			rt.Fatal(err)
		}
		rec, err := r.Next()
		if want == n+1 {
			if err != io.EOF {
				rt.Fatal(err)
			}
			return
		}
		if err != nil || rec.Seq != want {
			rt.Fatal(rec.Seq, err)
		}
	})
	if err := r.Seek(n + 2); err != io.EOF {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	w, err := Create(path, "a-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, "a-2"); !errors.Is(err, fs.ErrExist) {
		t.Error("a second log:", err)
	}
	for _, kind := range []string{"", strings.Repeat("k", 256)} {
		if _, err := w.Append(time.Now(), kind, []byte("1")); err == nil {
			t.Error("kind taken:", kind)
		}
	}
	if _, err := w.Append(time.Now(), "k", nil); err == nil {
		t.Error("no data taken")
	}
	if _, err := w.Append(time.Now(), "k", make([]byte, MaxRecord)); err == nil {
		t.Error("too large a record taken")
	}
	if seq, err := w.Append(time.Now(), "k", []byte("1")); err != nil || seq != 1 {
		t.Error("refusals cost a sequence:", seq, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(time.Now(), "k", []byte("1")); !errors.Is(err, os.ErrClosed) {
		t.Error("after the close:", err)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Error(st.Mode())
	}
	text := filepath.Join(dir, "text")
	_ = os.WriteFile(text, []byte("hello, this is not a log at all"), 0o600)
	if _, err := Open(text); err == nil || errors.Is(err, ErrTorn) {
		t.Error("text:", err)
	}
}

// A log of 100 MiB takes no more memory than a small one, to write and read.
func TestLargeLogInLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Create(path, "a-1")
	if err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(strings.Repeat("0123456789abcdef", 512))
	const n = 100 << 20 / 8192
	for range n {
		if _, err := w.Append(time.Unix(1, 0), "text", data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most uint64
	for i := range n {
		if _, err := r.Next(); err != nil {
			t.Fatal(i, err)
		}
		if i%1000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc)
		}
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > 2<<20 {
		t.Errorf("reading keeps %d KiB", grown>>10)
	}
}

func FuzzReader(f *testing.F) {
	h := appendHeader(nil, "a-1")
	good := appendRecord(h, Record{1, time.Unix(1, 0), "text", []byte(`"x"`)})
	good = appendRecord(good, Record{2, time.Unix(1, 0), "text", []byte(`"y"`)})
	f.Add(h)
	f.Add(good)
	f.Add(good[:len(good)-3])
	bent := bytes.Clone(good)
	bent[len(h)+9] ^= 4
	f.Add(bent)
	f.Add(append(bytes.Clone(good), 0xff, 0xff, 0xff, 0x03, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			return
		}
		var last uint64
		for {
			rec, err := r.Next()
			var bad *CorruptError
			if errors.As(err, &bad) {
				continue
			}
			if err != nil {
				break
			}
			if rec.Seq <= last {
				t.Fatalf("sequence %d after %d", rec.Seq, last)
			}
			last = rec.Seq
		}
		_ = r.Close()
		rep, err := Check(t.Context(), path)
		if err != nil || rep.Last != last {
			t.Fatalf("the report says %+v, %v, last was %d", rep, err, last)
		}
	})
}

func appendTo(t *testing.T, path string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
