package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/runlog"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// Check is the service's part of doctor: it looks and repairs nothing.
func (s *Service) Check(ctx context.Context) (wire.CheckResult, error) {
	var out []wire.Check
	add := func(name string, err error, fine, fix string) {
		c := wire.Check{Name: name, OK: err == nil, Message: fine}
		if err != nil {
			c.Message, c.Fix = err.Error(), fix
		}
		out = append(out, c)
	}
	for _, dir := range []string{"", "attempts", "blobs", "logs", "run"} {
		path := s.path(dir)
		if err := private.CheckDir(path); err != nil {
			add("private state", err, "", "")
		}
	}
	for _, file := range []string{"reeve.db"} {
		if err := private.Check(s.path(file)); err != nil {
			add("private state", err, "", "")
		}
	}
	if len(out) == 0 {
		add("private state", nil, s.o.StateDir+" belongs to you alone.", "")
	}
	add("journal", s.db.Check(), "The database is sound.", "Stop the service, keep a copy of reeve.db, and restore the newest backup beside it.")
	rep, err := s.db.VerifyAudit(ctx)
	if err == nil && rep.BrokenAt != 0 {
		err = fmt.Errorf("the audit chain is broken at entry %d: %s", rep.BrokenAt, rep.Detail)
	}
	add("audit", err, fmt.Sprintf("%d entries, unbroken.", rep.Entries), "Somebody edited the database. Compare with an exported audit log.")
	add("session logs", s.checkLogs(), "Every session log can be read.", "The named log keeps what is readable; its other records are lost.")
	_, err = exec.LookPath("git")
	add("git", err, "Git was found.", "Install git.")
	for _, p := range s.o.Providers {
		c := wire.Check{Name: "provider " + p.Name(), OK: true}
		found := p.Probe(ctx, s.o.GuardEnv)
		switch {
		case found.Found && found.Problem == "":
			c.Message = p.Title() + " " + found.Version + " at " + found.Path + "."
		case found.Found:
			c.Message, c.Fix = found.Problem, found.Fix
		default:
			// A provider that nobody installed is no fault of this machine.
			c.Message, c.Fix = found.Problem, found.Fix
		}
		out = append(out, c)
	}
	return wire.CheckResult{Checks: out}, nil
}

// checkLogs reads the logs of the missions that are not terminal.
func (s *Service) checkLogs() error {
	var recs []supervisor.Record
	if err := s.db.View(func(tx *store.Tx) (err error) { recs, err = supervisor.LoadLive(tx); return }); err != nil {
		return err
	}
	for _, r := range recs {
		if r.Attempt == "" {
			continue
		}
		path := s.sup.LogPath(r.Attempt)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		rep, err := runlog.Check(path)
		if err != nil {
			return err
		}
		if len(rep.Corrupt) > 0 {
			return fmt.Errorf("%s has %d damaged records", path, len(rep.Corrupt))
		}
	}
	return nil
}
