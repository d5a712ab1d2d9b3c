package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/internal/credential"
)

// Stored is a secret variable that comes from the stored credentials each time
// that the provider is started. Its value is in no record.
type Stored struct {
	Name string           `json:"name"`
	In   credential.Place `json:"in"` // where it was when the mission was proposed
}

// stored names the secret variables of a provider that the proposer does not
// have and that are kept for it.
func (s *Supervisor) stored(vars []mission.Variable, have map[string]string) []Stored {
	if s.Credentials == nil {
		return nil
	}
	var out []Stored
	for _, v := range vars {
		if in, ok := s.Credentials.Where(v.Name); ok && v.Secret && have[v.Name] == "" {
			out = append(out, Stored{v.Name, in})
		}
	}
	return out
}

// haveSecrets says whether every secret variable that came with the proposal
// still is in memory.
func (s *Supervisor) haveSecrets(r Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.secrets[r.ID]) == len(r.Secrets)
}

var (
	errEnding   = errors.New("the mission is to end")
	errUpdating = errors.New("reeve is being updated")
)

// fetchAgain is how soon a fetch is tried again that the service itself kept
// from its end.
const fetchAgain = 5 * time.Second

// fetch finds the stored secrets of a mission that is about to start a guard.
// While one can't be had the mission is blocked and says why; it goes on by
// itself as soon as it can, or ends at its deadline. Nothing has been started
// by then.
func (w *worker) fetch(ctx context.Context, r Record) (map[string]string, error) {
	if len(r.Stored) == 0 {
		return nil, nil
	}
	for {
		got, err := w.s.secretsOf(ctx, r, func(why error) error {
			return w.do(ctx, func(w *worker) error { return w.awaits(why) })
		})
		if err == nil {
			err = w.do(ctx, func(w *worker) error { return w.fetched() })
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, errEnding) {
			return got, err
		}
		if !errors.Is(err, errUpdating) {
			w.s.Log.Warn("the start of a mission waits", "mission", r.ID, "err", err)
		}
		timer := time.NewTimer(fetchAgain)
		select {
		case <-timer.C:
		case <-w.done:
		case <-ctx.Done():
		}
		timer.Stop()
		select {
		case <-w.done:
			return nil, err
		default:
		}
	}
}

// secretsOf finds the stored secrets of a mission. told hears why it can't, and
// ends the wait if it fails.
func (s *Supervisor) secretsOf(ctx context.Context, r Record, told func(error) error) (map[string]string, error) {
	if len(r.Stored) == 0 {
		return nil, nil
	}
	if s.Credentials == nil {
		return nil, told(errors.New("This service has no credentials.")) //nolint:staticcheck // a sentence for a person
	}
	var names []string
	for _, x := range r.Stored {
		names = append(names, x.Name)
	}
	return s.Credentials.Await(ctx, names, told)
}

// awaits journals that the mission can't start for want of a secret.
func (w *worker) awaits(why error) error {
	change := func(r *Record) {
		r.Awaits = true
		r.BlockedBy = "It waits for a credential and goes on by itself once it has it. " + why.Error()
	}
	switch {
	case w.rec.Phase == mission.Starting:
		return w.step(mission.EvBlock, change)
	case w.rec.Phase == mission.Blocked && w.rec.Awaits:
		return w.commit(change)
	}
	return errEnding
}

// fetched journals that it has all of them.
func (w *worker) fetched() error {
	switch {
	case w.rec.Phase == mission.Starting:
		return nil
	case w.rec.Phase != mission.Blocked || !w.rec.Awaits:
		return errEnding
	case w.s.updating.Load():
		return errUpdating // no guard is started now
	}
	return w.step(mission.EvRecover, func(r *Record) { r.Awaits, r.BlockedBy = false, "" })
}
