package supervisor

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/store"
)

// Bridge is what the bridge of a mission's worker goes by in one attempt. An
// attempt has an execution and a session of its own, so that a worker which
// outlived its guard speaks for nobody.
type Bridge struct {
	Execution string `json:"execution"`
	Session   string `json:"session"`
	Room      string `json:"room"` // where the worker is
}

// newBridge is that of a new attempt. The worker stays in its room.
func newBridge(r Record) Bridge {
	return Bridge{Execution: NewID("x"), Session: NewID("s"), Room: cmp.Or(r.Bridge.Room, ownRoom(r.ID))}
}

// bridge is what the guard hands over to the worker's bridge, nil without one.
func (s *Supervisor) bridge(r Record) *wire.Bridge {
	if s.Socket == "" || r.Bridge.Execution == "" {
		return nil
	}
	name, _ := strings.CutPrefix(r.Terms.Provider, "acp:")
	if name == "claude" {
		name = "claude-code" // as bridges know it
	}
	return &wire.Bridge{
		Socket: s.Socket, Execution: r.Bridge.Execution, Room: r.Bridge.Room, Session: r.Bridge.Session,
		Name: r.Title, APIURL: wire.LocalOrigin, Provider: name,
	}
}

// errOver refuses what comes from a run that is over. A client that reads it
// doesn't try again, so it names none of the parts of Reeve.
func errOver() *wire.Error {
	return wire.Errorf(wire.CodeStaleGeneration, "Stale execution: this worker's run is over.")
}

// Holds says whether c names the run of the mission that is under way, and,
// where it names a turn, the one in flight. The error has code stale_generation.
func (r *Record) Holds(c wire.Coordinates) error {
	t := r.turn()
	switch {
	case !r.Phase.Live() || r.Bridge.Execution == "" || c.Entry != r.ID || c.Attempt != r.Attempt || c.Execution != r.Bridge.Execution:
		return errOver()
	case c.Turn != "" && (t == nil || t.Outcome != nil || t.ID != c.Turn):
		return wire.Errorf(wire.CodeStaleGeneration, "Stale execution: this turn is over.")
	}
	return nil
}

// Authority is Holds for something that only a turn in flight may do, and
// returns that turn.
func (r *Record) Authority(c wire.Coordinates, now mission.Instant) (Turn, error) {
	if err := r.Holds(c); err != nil {
		return Turn{}, err
	}
	t := r.turn()
	switch {
	case r.Phase != mission.Working || t == nil || t.Outcome != nil:
		return Turn{}, wire.Errorf(wire.CodeStaleGeneration, "Stale execution: no turn of this worker is under way.")
	case r.Deadline.Passed(now):
		return Turn{}, wire.Errorf(wire.CodeStaleGeneration, "Stale execution: the mission's time is over.")
	}
	return *t, nil
}

// Current returns a live mission's record from memory alone: it never waits for
// the journal.
func (s *Supervisor) Current(id string) (Record, bool) {
	w := s.lookup(id)
	if w == nil {
		return Record{}, false
	}
	return w.snapshot(), true
}

// LoadFor returns the mission that c names as the journal has it, and the turn
// in flight of which c speaks.
func (s *Supervisor) LoadFor(tx *store.Tx, c wire.Coordinates) (Record, Turn, error) {
	r, ok, err := Load(tx, c.Entry)
	if err == nil && !ok {
		err = fmt.Errorf("the mission %s of a worker is not in the journal", c.Entry)
	}
	if err != nil {
		return r, Turn{}, err
	}
	t, err := r.Authority(c, s.Now())
	return r, t, err
}
