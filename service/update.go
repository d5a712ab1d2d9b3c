package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// An update of the service is stop, start, adopt. While one is open nothing
// begins any more; what could not be adopted is ended; then a manifest tells the
// next service what goes on by itself. The connection that prepared the update
// owns it: when that ends, or after mission.UpdateLimit, all of it is undone.

// maxManifest bounds the manifest when it is read, in bytes.
const maxManifest = 1 << 20

// update is an update that is open. Service.mu guards what is below began.
type update struct {
	by     string
	owner  <-chan struct{} // closed with the owner's connection, and its name
	began  mission.Instant
	worked chan struct{} // closed when the preparation has returned
	over   chan struct{} // closed when it was committed or undone

	report   supervisor.UpdateReport // once worked is closed
	prepared bool
	ending   bool // it is being committed or undone
}

// enter begins a change that an update has to wait for, and that none begins
// beside. leave ends it.
func (s *Service) enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return nil, wire.Errorf(wire.CodeShuttingDown, "The service is shutting down; try again when it runs.")
	case s.update != nil:
		return nil, wire.Errorf(wire.CodeUpdateInProgress, "Reeve is being updated (by %s). Try again in a moment; pausing, stopping and denying work meanwhile.", s.update.by)
	}
	s.changing++
	return s.leave, nil
}

func (s *Service) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changing--; s.changing == 0 && s.calm != nil {
		close(s.calm)
		s.calm = nil
	}
}

// PrepareUpdate begins an update for the connection that owner names, and
// answers when the service can be ended.
func (s *Service) PrepareUpdate(_ context.Context, a server.Actor, p wire.PrepareUpdateParams, owner <-chan struct{}) (wire.PrepareUpdateResult, error) {
	if p.OldestGuard < 0 {
		return wire.PrepareUpdateResult{}, wire.InvalidField("oldest_guard_protocol", "must be 1 or more, or left out")
	}
	if p.OldestGuard == 0 {
		p.OldestGuard = wire.OldestGuardProtocol
	}
	u := &update{by: fmt.Sprintf("%s, pid %d", a.Program, a.PID), owner: owner, began: s.o.Now(), worked: make(chan struct{}), over: make(chan struct{})}
	s.mu.Lock()
	switch {
	case s.stopping:
		s.mu.Unlock()
		return wire.PrepareUpdateResult{}, wire.Errorf(wire.CodeShuttingDown, "The service is shutting down; try again when it runs.")
	case s.update != nil:
		by := s.update.by
		s.mu.Unlock()
		return wire.PrepareUpdateResult{}, wire.Errorf(wire.CodeUpdateInProgress, "Another update is under way (by %s). Try again when it is over.", by)
	}
	s.update = u
	calm := make(chan struct{})
	if s.calm = calm; s.changing == 0 {
		close(calm)
		s.calm = nil
	}
	s.mu.Unlock()
	undo, cancel := context.WithCancel(s.life)
	s.watching.Go(func() { s.watchUpdate(u, cancel) })
	s.log.Info("an update was begun", "program", a.Program, "pid", a.PID, "oldest_guard", p.OldestGuard)
	s.topics.service.Publish(wire.EvService, s.status())

	// A change may wait for a disk that never answers; an update that is undone
	// leaves it to itself.
	var report supervisor.UpdateReport
	select {
	case <-calm:
		report = s.sup.PrepareUpdate(s.life, undo, p.OldestGuard, mission.UpdatePatience)
	case <-undo.Done():
	}
	err := undo.Err()
	if err == nil {
		err = s.writeManifest(report)
	}
	s.mu.Lock()
	u.report, u.prepared = report, err == nil && !u.ending
	prepared := u.prepared
	s.mu.Unlock()
	close(u.worked)
	if err != nil && undo.Err() == nil {
		s.undo(u, cancel, "it could not be prepared: "+err.Error())
		return wire.PrepareUpdateResult{}, err
	}
	if !prepared {
		return wire.PrepareUpdateResult{}, wire.Errorf(wire.CodeUnavailable, "The update was undone before it was prepared.")
	}
	s.topics.service.Publish(wire.EvService, s.status())
	return wire.PrepareUpdateResult{
		State: "prepared", GoOn: report.GoOn, Finished: report.Finished, Interrupted: report.Interrupted, Idle: report.Idle,
		Left: report.Left, Until: u.began.Wall.Add(mission.UpdateLimit).UTC().Round(0),
	}, nil
}

// watchUpdate undoes an update whose owner is gone or whose time is over. The
// clocks are looked at each second, since timers stand still in a machine that
// sleeps.
func (s *Service) watchUpdate(u *update, cancel context.CancelFunc) {
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-u.owner:
			s.undo(u, cancel, "the connection of its owner ended")
			return
		case <-tick.C:
			if mission.UpdateOver(u.began, s.o.Now()) {
				s.undo(u, cancel, "it was not committed in time")
				return
			}
		case <-u.over:
			return
		case <-s.life.Done():
			return // the next service reads the manifest, if there is one
		}
	}
}

// undo takes an update back whole: workers that were ended go on in new ones.
func (s *Service) undo(u *update, cancel context.CancelFunc, why string) []string {
	if !s.endUpdate(u) {
		return nil
	}
	cancel()
	<-u.worked
	if s.life.Err() != nil {
		return nil
	}
	if err := os.Remove(s.path(manifestFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		// It is of attempts that are over, so that it resumes nothing.
		s.log.Error("the manifest of an update could not be removed", "err", err)
	}
	notes := s.sup.GoOn(s.life, u.report.Missions)
	s.sup.Thaw()
	s.mu.Lock()
	s.update = nil
	s.mu.Unlock()
	close(u.over)
	s.log.Warn("an update was undone", "why", why, "missions", notes)
	if err := s.audit(s.life, "an update by "+u.by+" was undone: "+why); err != nil {
		s.log.Error("the end of an update could not be journaled", "err", err)
	}
	s.topics.service.Publish(wire.EvService, s.status())
	return notes
}

// endUpdate says whether the caller is the one that ends the update.
func (s *Service) endUpdate(u *update) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.update != u || u.ending {
		return false
	}
	u.ending = true
	return true
}

// ownedLocked returns the open update if the connection owns it. s.mu must be held.
func (s *Service) ownedLocked(owner <-chan struct{}) (*update, error) {
	u := s.update
	switch {
	case u == nil:
		return nil, wire.Errorf(wire.CodeConflict, "No update is under way; it may have been undone. Prepare it again.")
	case u.owner != owner:
		return nil, wire.Errorf(wire.CodeUpdateInProgress, "The update was begun by %s over another connection, and only that one commits or cancels it.", u.by)
	case u.ending:
		return nil, wire.Errorf(wire.CodeConflict, "The update is ending already.")
	}
	return u, nil
}

// CommitUpdate ends the service for its successor.
func (s *Service) CommitUpdate(ctx context.Context, _ server.Actor, owner <-chan struct{}) (wire.UpdateResult, error) {
	s.mu.Lock()
	u, err := s.ownedLocked(owner)
	if err == nil && !u.prepared {
		err = wire.Errorf(wire.CodeConflict, "The update is not prepared yet.")
	}
	if err != nil {
		s.mu.Unlock()
		return wire.UpdateResult{}, err
	}
	u.ending, s.stopping, s.closing = true, true, wire.ClosingUpdate
	s.mu.Unlock()
	close(u.over)
	s.topics.service.Publish(wire.EvService, s.status())
	s.log.Info("ending for an update", "by", u.by)
	if err := s.audit(ctx, "ends for an update by "+u.by); err != nil {
		s.log.Error("the end could not be journaled", "err", err)
	}
	s.stop()
	return wire.UpdateResult{State: "committed"}, nil
}

// CancelUpdate undoes the update of a connection.
func (s *Service) CancelUpdate(_ context.Context, _ server.Actor, owner <-chan struct{}) (wire.UpdateResult, error) {
	s.mu.Lock()
	u, err := s.ownedLocked(owner)
	s.mu.Unlock()
	if err != nil {
		return wire.UpdateResult{}, err
	}
	notes := s.undo(u, func() {}, "its owner cancelled it")
	return wire.UpdateResult{State: "cancelled", Resumed: notes}, nil
}

const manifestFile = "update.json"

func (s *Service) writeManifest(r supervisor.UpdateReport) error {
	raw, err := json.MarshalIndent(mission.NewManifest(s.o.Now(), s.id.Generation, r.Missions), "", "  ")
	if err != nil {
		return err
	}
	if err := private.WriteFile(s.path(manifestFile), raw); err != nil {
		return fmt.Errorf("write the manifest of the update: %w", err)
	}
	return nil
}

// takeManifest lets missions go on that the update interrupted which ended the
// last service. The manifest is used up before that, so that it works once. One
// that resumes nothing is put aside, and its sentence says why.
func (s *Service) takeManifest(ctx context.Context) []string {
	path := s.path(manifestFile)
	raw, err := private.ReadFile(path, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var m mission.UpdateManifest
	why := ""
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		why = "it is damaged (" + err.Error() + ")"
	} else {
		why = m.Refuse(s.o.Now(), s.id.Generation)
	}
	text := "took over after an update"
	if why != "" {
		text = "the manifest of an update resumes nothing: " + why
	}
	if err := s.audit(ctx, text); err != nil {
		return []string{"The manifest of an update could not be journaled, so it resumes nothing: " + err.Error()}
	}
	if why != "" {
		note := "The manifest of an update resumes nothing, because " + why + ". What the update interrupted has to be recovered; the manifest is kept as " + manifestFile + ".refused."
		if err := os.Rename(path, path+".refused"); err != nil {
			s.log.Error("the manifest of an update could not be put aside", "err", err)
		}
		return []string{note}
	}
	if err := os.Remove(path); err != nil {
		s.log.Error("the manifest of an update could not be removed", "err", err)
	}
	return s.sup.GoOn(ctx, m.Missions)
}
