package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/room"
	"github.com/reevehq/reeve/service/internal/store"
)

// What one prompt tells at most. The rest of the messages can be read with a
// tool, and that of the effects comes with the next turn.
const (
	maxNews      = 50       // messages
	maxNewsBytes = 32 << 10 // of them together; the first is told whatever its length
	maxTold      = 50       // effects
	maxToldInput = 400      // bytes of an effect's input
)

func ownRoom(mission string) string { return "r-" + strings.TrimPrefix(mission, "m-") }

func (w *worker) openRoom(tx *store.Tx) error {
	_, err := room.Open(tx, room.Record{
		ID: ownRoom(w.rec.ID), Title: w.rec.Title, Mission: w.rec.ID, Project: w.rec.project(), CreatedAt: w.s.now(),
	})
	return err
}

// Wake has the missions whose workers are in a room look for news there.
func (s *Supervisor) Wake(room string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for _, w := range s.workers {
		s.wg.Go(func() {
			if w.snapshot().Bridge.Room == room {
				w.post(func() {}) // the schedule is asked after everything
			}
		})
	}
}

// Show has a mission announced again, in its order, because of what its view has
// from elsewhere.
func (s *Supervisor) Show(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workers[id]; w != nil && !s.closed {
		s.wg.Go(func() { w.post(w.show) })
	}
}

// InRooms lists the live missions whose workers are in each room.
func (s *Supervisor) InRooms() map[string][]string {
	s.mu.Lock()
	workers := make([]*worker, 0, len(s.workers))
	for _, w := range s.workers {
		workers = append(workers, w)
	}
	s.mu.Unlock()
	in := map[string][]string{}
	for _, w := range workers {
		if r := w.snapshot(); r.Bridge.Room != "" && r.Phase.Live() {
			in[r.Bridge.Room] = append(in[r.Bridge.Room], r.ID)
		}
	}
	for _, missions := range in {
		slices.Sort(missions)
	}
	return in
}

// unread counts what persons wrote in the worker's room since it read it.
func (w *worker) unread() (n int) {
	at := w.rec.Bridge.Room
	if at == "" {
		return 0
	}
	err := w.s.DB.View(func(tx *store.Tx) (err error) { n, _, err = room.News(tx, at, w.rec.ID); return })
	if err != nil {
		w.s.Log.Error("what is new in a room can't be read", "mission", w.rec.ID, "room", at, "err", err)
	}
	return n
}

// news puts into a turn and its prompt what others wrote in the room since the
// agent read it, and what became of effects that were uncertain.
func (w *worker) news(t *Turn, p *mission.PromptInput) error {
	r := &w.rec
	if r.Bridge.Room == "" {
		return nil
	}
	return w.s.DB.View(func(tx *store.Tx) error {
		unread, err := room.Unread(tx, r.Bridge.Room, r.ID, maxNews+1)
		if err != nil {
			return err
		}
		t.Room = r.Bridge.Room
		size := 0
		for i, m := range unread {
			if size += len(m.Text); i == maxNews || i > 0 && size > maxNewsBytes {
				p.MoreMessages = true
				break
			}
			from := "Reeve"
			switch m.From {
			case room.Person:
				from, t.Source = "the person", m.Number
			case room.Agent:
				from = fmt.Sprintf("the agent of %q", m.Name)
			}
			p.Messages = append(p.Messages, mission.RoomMessage{ID: room.Cursor(m.Number), From: from, Text: m.Text})
			t.Read = m.Number
		}
		p.Answers = room.Cursor(t.Source)
		untold, err := effects.Untold(tx, r.ID, maxTold)
		for _, e := range untold {
			t.Told = append(t.Told, Told{e.ID, e.Revision})
			input := string(e.Input)
			if len(input) > maxToldInput {
				input = strings.ToValidUTF8(input[:maxToldInput], "") + "…"
			}
			line := fmt.Sprintf("%s %s: %s", e.Tool, input, e.Known())
			if e.State == effects.Uncertain {
				p.Uncertain = append(p.Uncertain, line)
			} else {
				p.Settled = append(p.Settled, line)
			}
		}
		return err
	})
}

// aftermath is what a change of a mission brought about in rooms, effects and
// approvals, to be announced once it is journaled.
type aftermath struct {
	messages  []room.Message
	effects   []effects.Record
	approvals []approvals.Record
}

// announce tells what was journaled, nothing of what was not.
func (w *worker) announce(a aftermath, err error) {
	if err != nil {
		return
	}
	for _, m := range a.messages {
		w.s.Announce.Message(m)
	}
	for _, e := range a.effects {
		w.s.Announce.Effect(e)
	}
	for _, x := range a.approvals {
		w.s.Announce.Approval(x)
	}
}

// conclude does what the end of the turn in flight means beyond the record, in
// the transaction that journals it: after a success what the prompt told is
// read, the final answer is published once, and a prepared move is made; in any
// case nothing of the turn goes on.
func (w *worker) conclude(tx *store.Tx, out mission.Outcome, final string) (aftermath, error) {
	var a aftermath
	t, at := w.rec.turn(), w.s.now()
	if t == nil {
		return a, nil
	}
	if out == mission.Succeeded {
		if err := w.heard(tx, t); err != nil {
			return a, err
		}
		open, err := effects.List(tx, w.rec.ID, effects.MaxExecuting, effects.Executing)
		if err != nil {
			return a, err
		}
		if err := w.publish(tx, t, final, open, &a); err != nil {
			return a, err
		}
		if err := w.move(tx, t, open, &a); err != nil {
			return a, err
		}
	}
	state, via := approval.Withdrawn, "turn"
	if out == mission.TimedOut {
		state, via = approval.Expired, "deadline"
	}
	waiting, err := approvals.Pending(tx, w.rec.ID)
	if err != nil {
		return a, err
	}
	for _, x := range waiting {
		if x.Effect == "" || x.Turn != t.ID {
			continue // the guard tells of it
		}
		closed, _, err := approvals.Close(tx, x.ID, state, via, at)
		if err != nil {
			return a, err
		}
		a.approvals = append(a.approvals, closed)
	}
	lost, err := effects.Lose(tx, effects.Coordinates{Mission: w.rec.ID, Turn: t.ID}, "its turn ended", at)
	a.effects = append(a.effects, lost...)
	return a, err
}

// loseAll ends every effect of the mission that nobody is left to complete.
func (w *worker) loseAll(tx *store.Tx, why string) (a aftermath, err error) {
	a.effects, err = effects.Lose(tx, effects.Coordinates{Mission: w.rec.ID}, why, w.s.now())
	return a, err
}

// heard notes that the agent has read what the prompt of a turn told it.
func (w *worker) heard(tx *store.Tx, t *Turn) error {
	if t.Read > 0 {
		if _, err := room.Acknowledge(tx, t.Room, w.rec.ID, t.Read); err != nil {
			return err
		}
	}
	told := make([]effects.Record, 0, len(t.Told))
	for _, e := range t.Told {
		r := effects.Record{ID: e.ID, Revision: e.Revision}
		r.Mission = w.rec.ID
		told = append(told, r)
	}
	return effects.Told(tx, told)
}

// publish answers the message that woke a turn. What the agent gave with
// complete_room_turn counts before its last words, and these before what it
// would have sent as a message.
func (w *worker) publish(tx *store.Tx, t *Turn, final string, open []effects.Record, a *aftermath) error {
	text := mission.WithoutWorkNext(final)
	var given []effects.Record
	completed := false
	for _, e := range open { // newest first
		if e.Turn != t.ID || e.Action != wire.ActionFinalAnswer {
			continue
		}
		given = append(given, e)
		var in struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(e.Input, &in) != nil || strings.TrimSpace(in.Text) == "" {
			continue
		}
		if whole := e.Tool == wire.MCPCompleteTurn; whole && !completed || text == "" {
			text, completed = in.Text, completed || whole
		}
	}
	end := effects.End{By: effects.Process(w.s.Self), At: w.s.now(), Error: "The turn had no final answer to publish."}
	if t.Source > 0 && text != "" {
		m, added, err := room.Append(tx, room.Message{
			Room: t.Room, Kind: room.Answer, From: room.Agent, Name: w.rec.Title, Mission: w.rec.ID, Turn: t.ID,
			Answers: t.Source, Text: cutText(text, room.MaxText), At: end.At, Key: "answer-" + t.ID,
		})
		switch {
		case errors.Is(err, room.ErrFull), errors.Is(err, room.ErrText):
			w.s.Log.Warn("a final answer could not be published", "mission", w.rec.ID, "turn", t.ID, "err", err)
			end.Error = "The final answer could not be published: " + err.Error() + "."
		case err != nil:
			return err
		default:
			end.Error, end.Result = "", result(map[string]string{"message_id": room.Cursor(m.Number)})
			if added {
				a.messages = append(a.messages, m)
			}
		}
	}
	for _, e := range given {
		if err := w.complete(tx, e, end, a); err != nil {
			return err
		}
	}
	return nil
}

// move takes the worker to the room that it prepared to join, if that still is
// one to go to.
func (w *worker) move(tx *store.Tx, t *Turn, open []effects.Record, a *aftermath) error {
	for _, e := range open {
		if e.Turn != t.ID || e.Action != wire.ActionRoomMove {
			continue
		}
		end := effects.End{By: effects.Process(w.s.Self), At: w.s.now()}
		to, err := Destination(tx, w.rec, e.Destination)
		var no *wire.Error
		switch {
		case errors.As(err, &no):
			end.Error = no.Message
		case err != nil:
			return err
		default:
			w.next.Bridge.Room = to.ID
			end.Result = result(map[string]string{"room_id": to.ID})
		}
		if err := w.complete(tx, e, end, a); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) complete(tx *store.Tx, e effects.Record, end effects.End, a *aftermath) error {
	e, changed, err := effects.Complete(tx, e.Coordinates, e.ID, end)
	if changed {
		a.effects = append(a.effects, e)
	}
	return err
}

// Destination finds the room that a mission's worker may move to: another of
// the same project, whose mission has not ended. The refusal is a *wire.Error.
func Destination(tx *store.Tx, r Record, id string) (room.Record, error) {
	to, ok, err := room.Get(tx, id)
	if err != nil {
		return to, err
	}
	if !ok || to.Project != r.project() {
		return to, wire.Errorf(wire.CodeNotFound, "There is no room %s in this project, so you stay where you are.", id)
	}
	if to.ID == r.Bridge.Room {
		return to, wire.Errorf(wire.CodeConflict, "You are in this room already.")
	}
	of, ok, err := Load(tx, to.Mission)
	if err == nil && (!ok || of.Phase.Terminal()) {
		err = wire.Errorf(wire.CodeConflict, "The mission of that room has ended, so you stay where you are.")
	}
	return to, err
}

// answerEffect gives a person's answer to the tool that asked for it: the
// decision and its being told are one.
func (w *worker) answerEffect(tx *store.Tx, a approvals.Record) (effects.Record, error) {
	e, ok, err := effects.Get(tx, a.Effect)
	if err == nil && !ok {
		err = fmt.Errorf("the effect %s of the approval %s is not in the journal", a.Effect, a.ID)
	}
	if err != nil {
		return e, err
	}
	said := map[string]any{"allowed": a.Answer.Allow, "reason": a.Answer.Reason, "text": a.Answer.Text}
	if a.Kind == approval.QuestionAsked {
		said = map[string]any{"answered": a.Answer.Allow, "answer": a.Answer.Text, "reason": a.Answer.Reason}
	}
	e, _, err = effects.Complete(tx, e.Coordinates, e.ID, effects.End{
		Result: result(said),
		By:     effects.Process(w.s.Self), At: a.Answer.At,
	})
	if errors.Is(err, effects.ErrContrary) || errors.Is(err, effects.ErrSettled) {
		err = wire.Errorf(wire.CodeApprovalStale, "The agent does not wait for this any more, so nothing was decided.")
	}
	return e, err
}

func result(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only maps of strings and booleans come here
	}
	return b
}

func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}

// approvalOf is the id of the approval that belongs to an effect, if one does.
func approvalOf(e effects.Record) string { return "p-" + strings.TrimPrefix(e.ID, "e-") }

// AskFor puts what an agent asks before a person: a question, or whether it may
// do something. It is part of the effect e, and asked once for it.
func AskFor(tx *store.Tx, r Record, e effects.Record, subject approval.Subject) (a approvals.Record, added bool, err error) {
	id := approvalOf(e)
	if a, ok, err := approvals.Get(tx, id); ok || err != nil {
		return a, false, err
	}
	subject.Tool, subject.Server, subject.Cwd, subject.Input = e.Tool, "reeve", r.Folder(), e.Input
	kind := approval.ToolCall
	if subject.Question != nil {
		kind = approval.QuestionAsked
	}
	a = approvals.Record{
		ID: id, Kind: kind, Mission: r.ID, Attempt: e.Attempt, Turn: e.Turn, TurnNo: e.TurnNo, Tool: e.Tool, CreatedAt: e.CreatedAt,
		Effect: e.ID,
	}
	if a.Digest, err = approval.Digest(approval.Envelope{ID: a.ID, Kind: a.Kind, Mission: r.ID, Attempt: a.Attempt, Turn: a.TurnNo, Subject: subject}); err != nil {
		return a, false, wire.Errorf(wire.CodeInvalidParams, "The question can't be put before a person: %v.", err)
	}
	if a.Subject, err = json.Marshal(subject); err != nil {
		return a, false, err
	}
	if err := approvals.Ask(tx, a); err != nil {
		return a, false, err
	}
	a.State = approval.Pending
	return a, true, nil
}

// Unask withdraws what was asked as part of an effect that has failed, if it
// still waits.
func Unask(tx *store.Tx, e effects.Record, at time.Time) (approvals.Record, bool, error) {
	return approvals.Close(tx, approvalOf(e), approval.Withdrawn, "agent", at)
}
