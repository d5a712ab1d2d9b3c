package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
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

// handed are the secrets that came with a recovery that a person is asked about.
// They are the mission's only once it is allowed.
type handed struct {
	ask     string
	secrets map[string]string
}

// of is what came with that question.
func (h handed) of(ask string) map[string]string {
	if h.ask != ask {
		return nil
	}
	return h.secrets
}

// refill picks from a client's variables the secrets that came with the proposal
// and are no longer in memory; without one of them the mission can't go on. One
// that is still there stays the one that was allowed, and a secret that the
// mission was not allowed is left out: a recovery has the same terms.
func (s *Supervisor) refill(r Record, env map[string]string) (map[string]string, error) {
	s.mu.Lock()
	have := s.secrets[r.ID]
	s.mu.Unlock()
	found := map[string]string{}
	var lacks []string
	for _, name := range r.Secrets {
		value := env[name]
		switch {
		case have[name] != "":
		case value == "" || strings.ContainsRune(value, 0):
			lacks = append(lacks, name)
		default:
			found[name] = value
		}
	}
	if names := strings.Join(lacks, ", "); names != "" {
		return nil, wire.Errorf(wire.CodeConflict, "The service was restarted and no longer has %s, which it keeps in memory alone. Run `reeve recover %s` in a terminal with %s in its environment.", names, r.ID, names)
	}
	return found, nil
}

// keep adds secrets to those of a mission. What was handed out before stays as
// it is.
func (s *Supervisor) keep(id string, more map[string]string) {
	if len(more) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[id] = merged(s.secrets[id], more)
}

// merged is a new map of both; what b says counts.
func merged(a, b map[string]string) map[string]string {
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// secrets names what the agent gets that nobody else should have.
func (r *Record) secrets() []string {
	out := slices.Clone(r.Secrets)
	for _, x := range r.Stored {
		out = append(out, x.Name)
	}
	return out
}

// CouldRead says to who allows a mission what giving secrets to its agent means.
func CouldRead(secrets []string) string {
	return "What the agent runs could read its secrets: " + strings.Join(secrets, ", ") + "."
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
