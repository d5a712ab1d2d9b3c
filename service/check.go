package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/runlog"
	"github.com/reevehq/reeve/service/internal/store"
)

// Check is the service's part of doctor: it looks and repairs nothing.
func (s *Service) Check(ctx context.Context) (wire.CheckResult, error) {
	c := checker{ctx: ctx, dir: s.o.StateDir, serving: true}
	c.files()
	c.journal(s.db.Check(), fmt.Sprintf("The database is sound; this is generation %d.", s.id.Generation))
	c.audit(s.db.VerifyAudit(ctx))
	c.contents()
	_, err := exec.LookPath("git")
	c.add("git", err, "Git was found.", "Install git.")
	list, err := s.providers()
	c.add("agents", err, "Agents of your own are in "+s.agents.Path()+".", "Mend the file, or move it away.")
	c.out = append(c.out, s.credentialCheck(ctx))
	for _, p := range list {
		ch := wire.Check{Name: "provider " + p.Name(), OK: true}
		found := p.Probe(ctx, s.o.GuardEnv)
		if found.Found && found.Problem == "" {
			ch.Message = p.Title() + " " + found.Version + " at " + found.Path + "."
		} else {
			// A provider that nobody installed is no fault of this machine.
			ch.Message, ch.Fix = found.Problem, found.Fix
		}
		c.out = append(c.out, ch)
	}
	return wire.CheckResult{Checks: c.out}, ctx.Err()
}

// CheckState is doctor's look at the state of a service that does not run: it
// reads, and changes nothing.
func CheckState(ctx context.Context, dir string) []wire.Check {
	c := checker{ctx: ctx, dir: dir}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		c.fine("private state", dir+" does not exist yet; the service makes it.")
		return c.out
	}
	c.files()
	err := store.CheckFile(c.path("reeve.db"), store.Options{})
	switch attempts, _ := filepath.Glob(filepath.Join(escape(c.path("attempts")), "*", "log")); {
	case errors.Is(err, fs.ErrNotExist) && len(attempts) > 0:
		c.wrong("journal", c.path("reeve.db")+" is missing, and there are session logs of missions that it knew.",
			"Put a backup of it in its place; without one the service begins with an empty journal.")
	case errors.Is(err, fs.ErrNotExist):
		c.fine("journal", "There is no database yet; the service makes it.")
	default:
		c.journal(err, "The database is sound, its audit chain is unbroken.")
	}
	c.contents()
	return c.out
}

// checker looks through a state directory.
type checker struct {
	ctx     context.Context
	dir     string
	serving bool // by a service that uses it right now
	out     []wire.Check
	more    map[string]int // findings by name, to list only some of each
}

// mostFindings is how many findings of one kind are listed one by one.
const mostFindings = 20

func (c *checker) path(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

func (c *checker) fine(name, message string) {
	c.out = append(c.out, wire.Check{Name: name, OK: true, Message: message})
}

func (c *checker) wrong(name, message, fix string) {
	if c.more == nil {
		c.more = map[string]int{}
	}
	if c.more[name]++; c.more[name] <= mostFindings {
		c.out = append(c.out, wire.Check{Name: name, Message: message, Fix: fix})
	}
}

// summary ends a kind of checks: with the fine message if nothing was found.
func (c *checker) summary(name, fine string) {
	switch n := c.more[name]; {
	case n == 0:
		c.fine(name, fine)
	case n > mostFindings:
		c.out = append(c.out, wire.Check{Name: name, Message: fmt.Sprintf("There are %d more such findings.", n-mostFindings), Fix: "Mend these first, then run reeve doctor again."})
	}
}

// add says what an error means, and what to do about it.
func (c *checker) add(name string, err error, fine, fix string) {
	var bad *private.Violation
	var damage *store.DamagedError
	switch {
	case err == nil:
		c.fine(name, fine)
	case errors.As(err, &bad):
		c.wrong(name, bad.Path+" "+bad.What+".", strings.ToUpper(bad.Mend[:1])+bad.Mend[1:])
	case errors.As(err, &damage):
		c.wrong(name, damage.Path+" is damaged: "+damage.Detail+".", damage.Mend+".")
	default:
		c.wrong(name, err.Error(), fix)
	}
}

func (c *checker) journal(err error, fine string) {
	fix := "Stop the service, keep a copy of reeve.db, and restore the newest backup beside it."
	var newer *store.NewerError
	switch {
	case errors.Is(err, store.ErrInUse):
		fix = "Run reeve service status; a service that does not answer can be ended with SIGTERM, its workers go on."
	case errors.As(err, &newer):
		fix = "Install that version; this one changes nothing in it."
	}
	c.add("journal", err, fine, fix)
}

func (c *checker) audit(rep store.AuditReport, err error) {
	if err == nil && rep.BrokenAt != 0 {
		err = fmt.Errorf("the audit chain is broken at entry %d: %s", rep.BrokenAt, rep.Detail)
	}
	c.add("audit", err, count(int(rep.Entries), "entry", "entries")+", unbroken.", "Somebody edited the database. Compare it with a head or an audit log that you kept elsewhere.")
}

// files checks who may use what: every file and directory is the person's
// alone, and none is missing.
func (c *checker) files() {
	const name = "private state"
	_, noDatabase := os.Lstat(c.path("reeve.db")) // no service ran here
	for _, sub := range []string{"attempts", "blobs", "logs", "run"} {
		if _, err := os.Lstat(c.path(sub)); noDatabase == nil && errors.Is(err, fs.ErrNotExist) {
			c.wrong(name, c.path(sub)+" is missing.", "Put it back from a backup if it held anything; the service makes an empty one when it starts.")
		}
	}
	var left []string
	err := filepath.WalkDir(c.dir, func(path string, e fs.DirEntry, err error) error {
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		rel, _ := filepath.Rel(c.dir, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed while this looked
		case err != nil:
			c.add(name, err, "", "Make it readable for yourself.")
			return fs.SkipDir
		case e.IsDir():
			err = private.CheckDir(path)
		case e.Type() == fs.ModeSocket && filepath.Dir(rel) == "run":
			if c.unserved(path) {
				left = append(left, path)
			}
		default:
			err = private.Check(path)
			if err == nil && !c.serving && temporary(rel) {
				left = append(left, path)
			}
			if err == nil && filepath.Ext(rel) == ".json" {
				err = c.record(path)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.add(name, err, "", "Move it away if you know what it is.")
		}
		if ok, _ := filepath.Match(filepath.Join("attempts", "*", "provider"), rel); ok && e.IsDir() {
			return fs.SkipDir // the agent's own files, which it may make as it likes
		}
		return nil
	})
	if err != nil {
		c.add(name, err, "", "")
	}
	c.summary(name, c.dir+" belongs to you alone.")
	if len(left) > 0 {
		// Nothing is wrong: a crash leaves such, and they are in nobody's way.
		c.out = append(c.out, wire.Check{Name: "leftovers", OK: true,
			Message: count(len(left), "file is", "files are") + " left over from a crash: " + list(left) + ".",
			Fix:     "They do no harm, and you may remove them."})
	}
}

// unserved says that a socket has no owner any more: it refuses connections.
func (c *checker) unserved(path string) bool {
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	conn, err := sock.Dial(ctx, path)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// temporary says whether a file has the name that one has until it is whole.
func temporary(rel string) bool {
	base := filepath.Base(rel)
	return strings.HasPrefix(base, ".") || strings.HasPrefix(base, "reeve.db") && strings.Contains(base, ".new-")
}

// record checks that a small record can be read.
func (c *checker) record(path string) error {
	b, err := private.ReadFile(path, 1<<20)
	if err == nil && !json.Valid(b) {
		err = &private.Violation{Path: path, What: "is damaged: it is no JSON", Mend: "put it back from a backup; without it the guard of that attempt can't be adopted"}
	}
	return err
}

// contents reads what has a checksum: session logs and blobs.
func (c *checker) contents() {
	logs, _ := filepath.Glob(filepath.Join(escape(c.path("attempts")), "*", "log"))
	var torn []string
	read := 0
	for _, path := range logs {
		rep, err := runlog.Check(c.ctx, path)
		var bad *private.Violation
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.As(err, &bad): // said above
		case errors.Is(err, runlog.ErrTorn):
			torn = append(torn, path)
		case err != nil:
			c.wrong("session logs", err.Error(), "Put it back from a backup. Without it the transcript of that attempt is lost; nothing else needs it.")
		case rep.LogID != filepath.Base(filepath.Dir(path)):
			c.wrong("session logs", fmt.Sprintf("%s is the log of another attempt, %q.", path, rep.LogID), "Put it back where it belongs.")
		case len(rep.Corrupt) > 0:
			first := rep.Corrupt[0]
			c.wrong("session logs", fmt.Sprintf("%s is damaged in %s, first from byte %d to %d; %s lost, %d can be read.",
				path, count(len(rep.Corrupt), "place", "places"), first.Offset, first.Next, count(int(rep.Lost), "entry is", "entries are"), rep.Records),
				"Nothing changes the file, and all else in it is shown. Put it back from a backup if you have one, and check the disk.")
		default:
			read++
			if rep.Torn != nil {
				torn = append(torn, path)
			}
		}
	}
	fine := fmt.Sprintf("%s can be read.", count(read, "log", "logs"))
	if len(torn) > 0 {
		fine += " The last entry of some is cut off: it is being written, or was when its worker died: " + list(torn) + "."
	}
	c.summary("session logs", fine)

	n, err := store.OpenBlobs(c.path("blobs")).Check(c.ctx, func(err error) { c.add("blobs", err, "", "") })
	if err != nil {
		c.add("blobs", err, "", "")
	}
	c.summary("blobs", count(n, "long value is", "long values are")+" sound.")
}

func count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// list names the first few of many paths.
func list(paths []string) string {
	const most = 5
	if len(paths) > most {
		return strings.Join(paths[:most], ", ") + " and others"
	}
	return strings.Join(paths, ", ")
}

// escape makes a path a pattern that only it matches.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
