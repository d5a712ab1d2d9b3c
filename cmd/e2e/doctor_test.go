package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/reevehq/reeve/ipc/wire"
)

// lived makes a state with everything in it: a mission that ran and ended, its
// session log, records, a blob and an audit chain; no service runs any more.
func lived(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t).start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), "demo:slow 1"))
	v.phase(mi.ID, "completed") // waiting, it may not have begun
	m.stop()
	m.gone(func(string) bool { return false }) // a guard clears up at its end
	return m
}

// doctor returns what doctor finds wrong, and how it ended.
func (m *machine) doctor() (wrong []wire.Check, code int) {
	m.t.Helper()
	r := m.run("doctor", "--json")
	var res wire.CheckResult
	if err := json.Unmarshal([]byte(r.out), &res); err != nil {
		m.t.Fatalf("doctor printed %q %q: %v", r.out, r.err, err)
	}
	for _, c := range res.Checks {
		if !c.OK {
			wrong = append(wrong, c)
		}
	}
	return wrong, r.code
}

// fingerprint is different for every change of the state: names, kinds, modes,
// owners, times and contents.
func (m *machine) fingerprint() string {
	m.t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(m.state, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %o %d %d %d %d\n", path, st.Mode, st.Uid, st.Nlink, st.Size, st.Mtim)
		if e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			_, _ = h.Write(b)
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestDoctorFindsDamage damages the state of a service that has ended in every
// way, one at a time. Doctor names each with what to do, and changes nothing;
// where the database is not to be trusted the service does not start either.
func TestDoctorFindsDamage(t *testing.T) {
	t.Parallel()
	m := lived(t)
	db, log := filepath.Join(m.state, "reeve.db"), m.glob("attempts/*/log")[0]
	record := filepath.Join(filepath.Dir(log), "guard.json")
	page := os.Getpagesize()
	edit := func(path string, fn func(b []byte) []byte) func(*testing.T) {
		return func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, fn(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	bolt := func(fn func(tx *bbolt.Tx) error) func(*testing.T) {
		return func(t *testing.T) {
			b, err := bbolt.Open(db, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Update(fn); err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	do := func(fn func() error) func(*testing.T) {
		return func(t *testing.T) {
			if err := fn(); err != nil {
				t.Fatal(err)
			}
		}
	}
	blob := filepath.Join(m.state, "blobs", strings.Repeat("ab", 32))
	for name, c := range map[string]struct {
		damage     func(*testing.T)
		check      string // its name
		says, mend string
		refuses    bool // the service does not start
	}{
		"database cut off":    {edit(db, func(b []byte) []byte { return b[:len(b)/2] }), "journal", "damaged", "backup", true},
		"database empty":      {edit(db, func([]byte) []byte { return nil }), "journal", "damaged", "backup", true},
		"database page zero":  {edit(db, func(b []byte) []byte { clear(b[2*page : len(b)-page]); return b }), "journal", "damaged", "backup", true},
		"database magic":      {edit(db, func(b []byte) []byte { b[16] ^= 1; b[page+16] ^= 1; return b }), "journal", "root pages", "backup", true},
		"database is text":    {edit(db, func(b []byte) []byte { return bytes.Repeat([]byte("text\n"), len(b)/5) }), "journal", "damaged", "backup", true},
		"database is newer":   {bolt(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("store.meta")).Put([]byte("schema"), []byte("99")) }), "journal", "schema 99", "nstall", true},
		"database is missing": {do(func() error { return os.Remove(db) }), "journal", "is missing", "backup", false},
		"audit edited": {bolt(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("store.audit"))
			k, v := b.Cursor().First()
			return b.Put(bytes.Clone(k), bytes.Replace(v, []byte("generation"), []byte("generatiom"), 1))
		}), "journal", "audit log breaks at entry 1", "backup", false},
		"database readable by others": {do(func() error { return os.Chmod(db, 0o644) }), "private state", "0644", "chmod 600", true},
		"database with two names":     {do(func() error { return os.Link(db, db+".2") }), "private state", "hard links", "samefile", true},
		"database behind a link": {do(func() error {
			if err := os.Rename(db, db+".real"); err != nil {
				return err
			}
			return os.Symlink(db+".real", db)
		}), "private state", "symbolic link", "eplace it by", true},

		"log bad in the middle": {edit(log, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), "session logs", "is damaged in 1 place", "backup", false},
		"log header":            {edit(log, func(b []byte) []byte { b[14] ^= 1; return b }), "session logs", "header is damaged", "backup", false},
		"log is text":           {edit(log, func([]byte) []byte { return []byte("a text that is no log at all") }), "session logs", "not a session log", "backup", false},
		"log of another":        {edit(log, func(b []byte) []byte { return otherLog() }), "session logs", "of another attempt", "back where it belongs", false},
		"log for others":        {do(func() error { return os.Chmod(log, 0o604) }), "private state", "0604", "chmod 600", false},
		"record damaged":        {edit(record, func(b []byte) []byte { return b[:len(b)/2] }), "private state", "guard.json is damaged", "backup", false},
		"blob damaged":          {do(func() error { return os.WriteFile(blob, []byte("x"), 0o600) }), "blobs", "does not have the digest", "backup", false},

		"state for the group":  {do(func() error { return os.Chmod(m.state, 0o750) }), "private state", "0750", "chmod 700", true},
		"directory for others": {do(func() error { return os.Chmod(filepath.Join(m.state, "run"), 0o701) }), "private state", "0701", "chmod 700", true},
		"directory missing":    {do(func() error { return os.RemoveAll(filepath.Join(m.state, "blobs")) }), "private state", "is missing", "service makes", false},
		"a link inside":        {do(func() error { return os.Symlink("/etc/passwd", filepath.Join(m.state, "logs", "x")) }), "private state", "symbolic link", "eplace it", false},
		"a pipe inside":        {do(func() error { return syscall.Mkfifo(filepath.Join(m.state, "run", "x"), 0o600) }), "private state", "not a regular file", "ove it away", false},
		"of another user": {func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("not root: no file can be given away")
			}
			if err := os.Chown(record, 65534, -1); err != nil {
				t.Fatal(err)
			}
		}, "private state", "belongs to user 65534", "chown", false},
	} {
		t.Run(name, func(t *testing.T) {
			copied := t.TempDir() + "/state"
			copyState(t, m.state, copied)
			defer func() {
				if err := os.RemoveAll(m.state); err != nil {
					t.Fatal(err)
				}
				copyState(t, copied, m.state)
			}()
			c.damage(t)
			before := m.fingerprint()
			wrong, code := m.doctor()
			if code != 1 {
				t.Errorf("exit %d", code)
			}
			found := false
			for _, w := range wrong {
				if w.Fix == "" {
					t.Errorf("%s: %q comes without what to do", w.Name, w.Message)
				}
				found = found || w.Name == c.check && strings.Contains(w.Message, c.says) && strings.Contains(w.Fix, c.mend)
			}
			if !found {
				t.Errorf("not found: %+v", wrong)
			}
			if m.fingerprint() != before {
				t.Error("doctor changed the state")
			}
			if !c.refuses {
				return
			}
			kept, _ := os.ReadFile(db)
			r, code := m.run("service", "run"), 1
			if c.says == "schema 99" {
				code = 4 // whole, but not for this program
			}
			if r.code != code || !strings.Contains(r.err, m.state) && !strings.Contains(r.err, "schema") {
				t.Errorf("the service: exit %d: %s", r.code, r.err)
			}
			if now, _ := os.ReadFile(db); !bytes.Equal(now, kept) {
				t.Error("the service changed the database")
			}
		})
	}
	// All was put back, so only the service is missing.
	if wrong, _ := m.doctor(); len(wrong) != 1 || wrong[0].Name != "service" {
		t.Errorf("after all: %+v", wrong)
	}
}

// otherLog is a whole log without entries of an attempt that there is not.
func otherLog() []byte {
	return []byte("reevelog\x01\x00\x00\x00\x03a-1\x80\x8a\x85\x87")
}

func copyState(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", "--", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy the state: %v: %s", err, out)
	}
}

// TestDoctorTellsWhatACrashLeft: what a crash or a loss of power leaves is told,
// and is nothing to mend.
func TestDoctorTellsWhatACrashLeft(t *testing.T) {
	t.Parallel()
	m := lived(t)
	log := m.glob("attempts/*/log")[0]
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	socket, short := filepath.Join(m.state, "run", "a-x.sock"), shortPath(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	if err := os.Rename(short, socket); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(filepath.Dir(log), ".guard.json.123")
	for _, err := range []error{os.WriteFile(log, b[:len(b)-3], 0o600), os.WriteFile(temp, []byte("{"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := m.fingerprint()
	r := m.run("doctor")
	for _, want := range []string{"is cut off", filepath.Base(filepath.Dir(log)) + "/log", temp, "a-x.sock", "left over from a crash", "1 thing needs"} {
		if !strings.Contains(r.out+r.err, want) {
			t.Errorf("doctor lacks %q:\n%s%s", want, r.out, r.err)
		}
	}
	if m.fingerprint() != before {
		t.Error("doctor changed the state")
	}
}

// shortPath is one on the same disk: sockets can't be bound to long ones.
func shortPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// TestDoctorThroughTheService: with a service it is the service that looks, and
// a damaged log does not keep it from anything else.
func TestDoctorThroughTheService(t *testing.T) {
	t.Parallel()
	m := lived(t)
	log := m.glob("attempts/*/log")[0]
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	m.start()
	if err := os.Chmod(filepath.Join(m.state, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	wrong, code := m.doctor()
	if code != 1 || len(wrong) != 2 || wrong[0].Name != "private state" || !strings.Contains(wrong[0].Fix, "chmod 700") ||
		wrong[1].Name != "session logs" || !strings.Contains(wrong[1].Message, log) {
		t.Errorf("exit %d, %+v", code, wrong)
	}
	if now, _ := os.ReadFile(log); !bytes.Equal(now, b) {
		t.Error("the log was changed")
	}
	if err := os.Chmod(filepath.Join(m.state, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestUmask is case 30: whatever the umask, what the real programs make is for
// the person alone.
func TestUmask(t *testing.T) {
	t.Parallel()
	for _, mask := range []int{0, 0o077} {
		t.Run(fmt.Sprintf("%03o", mask), func(t *testing.T) {
			m := newMachine(t)
			if err := os.Remove(m.state); err != nil {
				t.Fatal(err)
			}
			// The umask of this program would be that of the tests beside this one.
			masked, wrapper := filepath.Join(m.dir, "masked"), filepath.Join(m.dir, "wrapper")
			if err := os.WriteFile(wrapper, fmt.Appendf(nil, "#!/bin/sh\numask %03o\nexec %s \"$@\"\n", mask, shellQuote(m.reeve)), 0o755); err != nil {
				t.Fatal(err)
			}
			m.install(wrapper, masked)
			m.reeve = masked
			m.start()
			v := m.watch()
			mi := v.begin(m.demoTerms(m.repo("repo"), "demo:slow 1"))
			v.phase(mi.ID, "completed")
			files := 0
			err := filepath.WalkDir(m.state, func(path string, e fs.DirEntry, err error) error {
				var info fs.FileInfo
				if err == nil {
					info, err = e.Info()
				}
				if errors.Is(err, fs.ErrNotExist) && path != m.state {
					return nil // what is replaced has another name for a moment
				}
				if err != nil {
					return err
				}
				want := fs.FileMode(0o600)
				if e.IsDir() {
					want = 0o700
				}
				if files++; info.Mode().Perm() != want {
					t.Errorf("%s has the mode %v", path, info.Mode())
				}
				return nil
			})
			if err != nil || files < 15 {
				t.Errorf("%d files, %v", files, err)
			}
			if wrong, _ := m.doctor(); len(wrong) != 0 {
				t.Errorf("doctor: %+v", wrong)
			}
		})
	}
}
