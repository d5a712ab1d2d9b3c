package model

import (
	"slices"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// notifyEvery is the shortest time between two notifications.
const notifyEvery = time.Second

// Note is one desktop notification. A click opens what Do and ID name.
type Note struct {
	Kind   ChangeKind
	Title  string
	Body   string
	Do     Do
	ID     string
	Urgent bool // stays until it is dismissed, where the platform can
}

// Notifier turns changes into notifications, at most one a second; what came
// in between is told together.
type Notifier struct {
	last  time.Time
	queue []Change
}

// Add takes changes as State returns them. An approval that was settled before
// its notification was due is dropped.
func (n *Notifier) Add(changes ...Change) {
	for _, c := range changes {
		if c.Kind == Answered || c.Kind == Vanished {
			n.Settled(c.Approval.ID)
		}
		n.queue = append(n.queue, c)
	}
}

// Settled drops the notification of an approval that no longer waits.
func (n *Notifier) Settled(id string) {
	kept := n.queue[:0]
	for _, c := range n.queue {
		if c.Kind != Asked || c.Approval.ID != id {
			kept = append(kept, c)
		}
	}
	n.queue = kept
}

// Keep drops the questions that waits says are none any more.
func (n *Notifier) Keep(waits func(Change) bool) {
	n.queue = slices.DeleteFunc(n.queue, func(c Change) bool { return !waits(c) })
}

// Waits reports whether a change still asks for a person. What only tells of
// something always does.
func (s *State) Waits(c Change) bool {
	switch c.Kind {
	case Asked:
		_, ok := s.waiting[c.Approval.ID]
		return ok
	case Doubted:
		return s.doubts[c.Effect.Mission][c.Effect.ID]
	}
	return true
}

// Next returns the notification that is due. When none is, wait says when to
// ask again, 0 meaning not before the next Add.
func (n *Notifier) Next(now time.Time) (note Note, ok bool, wait time.Duration) {
	if len(n.queue) == 0 {
		return Note{}, false, 0
	}
	if left := n.last.Add(notifyEvery).Sub(now); left > 0 && !n.last.IsZero() {
		return Note{}, false, min(left, notifyEvery)
	}
	n.last = now
	note = group(n.queue)
	n.queue = nil
	return note, true, 0
}

// group tells of one change in full, of several by their number.
func group(list []Change) Note {
	if len(list) == 1 {
		return noteOf(list[0])
	}
	counts := map[ChangeKind]int{}
	for _, c := range list {
		counts[c.Kind]++
	}
	// What a person must look at comes first and gives the title.
	note := Note{Do: DoOpen}
	var body string
	for _, k := range []struct {
		kind ChangeKind
		line func(n int) string
	}{
		{Refused, func(n int) string {
			return say.N(n, "%d worker was refused what only you may do", "%d times workers were refused what only you may do")
		}},
		{Answered, func(n int) string {
			return say.N(n, "%d approval was answered by another program", "%d approvals were answered by another program")
		}},
		{Vanished, func(n int) string {
			return say.N(n, "%d approval waits no longer, and its answer is not known", "%d approvals wait no longer, and their answers are not known")
		}},
		{Asked, func(n int) string { return say.N(n, "%d approval waits for you", "%d approvals wait for you") }},
		{Doubted, func(n int) string { return say.N(n, "%d effect is uncertain", "%d effects are uncertain") }},
		{Halted, func(n int) string { return say.N(n, "%d mission is blocked", "%d missions are blocked") }},
		{Finished, func(n int) string { return say.N(n, "%d mission has ended", "%d missions have ended") }},
	} {
		c := counts[k.kind]
		if c == 0 {
			continue
		}
		line := k.line(c)
		if note.Title == "" {
			note.Kind, note.Title = k.kind, line
			if c == len(list) {
				// All of one kind: name the newest.
				body = noteOf(list[len(list)-1]).Body
			}
			continue
		}
		if body != "" {
			body += ", "
		}
		body += line
	}
	note.Body = body
	note.Urgent = note.Kind == Asked || note.Kind == Doubted || note.Kind == Refused || note.Kind == Answered || note.Kind == Vanished
	return note
}

func noteOf(c Change) Note {
	n := Note{Kind: c.Kind}
	switch c.Kind {
	case Asked:
		a := c.Approval
		n.Title, n.Do, n.ID, n.Urgent = say.T("%s asks", ProviderTitle(a.Provider)), DoReview, a.ID, true
		if approval.Kind(a.Kind) == approval.MissionStart {
			n.Title = say.T("A mission waits for your approval")
			n.Body = oneLine(a.Title)
			return n
		}
		n.Body = cut(wantsIn(c.Mission, a).String(), 160) + "\n" + oneLine(a.Title)
	case Answered:
		a := c.Approval
		n.Title, n.Do, n.ID, n.Urgent = say.T("An approval was answered elsewhere"), DoOpenMission, a.Mission, true
		n.Body = oneLine(a.Title) + ": " + answeredBy(a)
	case Vanished:
		a := c.Approval
		n.Title, n.Do, n.ID, n.Urgent = say.T("An approval waits no longer"), DoOpenMission, a.Mission, true
		n.Body = VanishedText(a)
	case Finished:
		n.Title, n.Do, n.ID = oneLine(c.Mission.Title), DoOpenMission, c.Mission.ID
		_, word := standing(c.Mission, 0)
		n.Body = word + ": " + detail(c.Mission, nil, time.Time{}).String()
	case Halted:
		n.Title, n.Do, n.ID, n.Urgent = say.T("%s is blocked", oneLine(c.Mission.Title)), DoOpenMission, c.Mission.ID, true
		n.Body = detail(c.Mission, nil, time.Time{}).String()
		if recoverable(c.Mission) {
			n.Title, n.Do = say.T("%s can be recovered", oneLine(c.Mission.Title)), DoRecover
		}
	case Doubted:
		e := c.Effect
		n.Title, n.Do, n.ID, n.Urgent = say.T("It is not known what became of %s", cut(exact(e.Tool), 60)), DoSettle, e.Mission, true
		n.Body = cut(oneLine(e.Known), 200)
	case Refused:
		n.Title, n.Do, n.ID, n.Urgent = say.T("A worker was refused"), DoOpenMission, c.Refusal.Mission, true
		n.Body = RefusalText(c.Refusal)
	}
	return n
}

func answeredBy(a wire.Approval) string {
	by := a.Answer
	if by.TTY != "" {
		return say.T("%s by %s, pid %d, terminal %s", stateWord(a.State), oneLine(by.Program), by.PID, oneLine(by.TTY))
	}
	return say.T("%s by %s, pid %d, no terminal", stateWord(a.State), oneLine(by.Program), by.PID)
}

// VanishedText says of an approval that waited that it is gone.
func VanishedText(a wire.Approval) string {
	return say.T("%s: it was settled while there was no connection to the service, so how is not known here. The audit says it.", oneLine(a.Title))
}

// RefusalText says what a worker tried.
func RefusalText(r wire.Refusal) string {
	text := say.T("%s (pid %d) tried %s", oneLine(r.Program), r.PID, oneLine(r.Method))
	if r.Why != "" {
		text = say.T("%s; it counts as a worker because %s", text, oneLine(r.Why))
	}
	return text
}
