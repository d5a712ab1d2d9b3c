package guard

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/provider"
)

// Outcomes of a permission.
const (
	outcomeAllowed   = string(approval.Allowed)
	outcomeDenied    = string(approval.Denied)
	outcomeWithdrawn = string(approval.Withdrawn)
	outcomeExpired   = string(approval.Expired)
)

// States of a ResolveResult.
const (
	stateDelivered = "delivered"
	stateGone      = "gone"
)

// maxSubject is the most bytes of a subject. It is kept whole or the request is
// refused: nobody can decide about a part.
const maxSubject = 900 << 10

// maxSettled is how many settled permissions are remembered for a repeated
// answer.
const maxSettled = 1024

// question is a permission that waits.
type question struct {
	id      string // of the approval
	request string // the provider's own id
	turn    string
	digest  string
	talk    *conversation
}

// settlement is how a question was closed.
type settlement struct {
	outcome, by, reason string
	digest              string
	told                chan struct{} // an answer's: closed when state is known
	state               *string
}

// ask records a permission and lets it wait.
func (g *guard) ask(talk *conversation, ev provider.PermissionRequested) {
	g.mu.Lock()
	t, l := g.turn, g.launch
	g.mu.Unlock()
	q := &question{id: newID("p-"), request: ev.Request, talk: talk}
	if t == nil {
		g.refuse(q, "There is no turn in which this could be asked.")
		return
	}
	q.turn = t.p.Turn
	tool := ev.Tool
	entry := wire.Permission{
		Turn: q.turn, Request: q.id, Call: tool.Call, Kind: string(kindOf(ev)),
		Tool: tool.Name, Class: tool.Kind, Own: tool.Own && tool.Server == bridgeServer,
	}
	for _, p := range tool.Paths {
		entry.Paths = append(entry.Paths, resolve(l.Folder, p))
	}
	subject, err := subjectOf(ev, entry.Paths)
	if err == nil {
		entry.Subject, err = encode(subject)
	}
	if err == nil && len(entry.Subject) > maxSubject {
		err = fmt.Errorf("the request has %d bytes; a person can be asked about %d at most", len(entry.Subject), maxSubject)
	}
	if err == nil {
		q.digest, err = approval.Digest(approval.Envelope{
			ID: q.id, Kind: kindOf(ev), Mission: g.boot.Mission, Attempt: g.boot.Attempt,
			Turn: t.p.Number, Subject: subject,
		})
	}
	entry.Digest = q.digest

	refusal := ""
	g.mu.Lock()
	switch {
	case g.expiredLocked() || g.ending != "" || g.turn != t || t.cause != "" || t.final != nil:
		refusal = "The turn has ended; nothing can be asked any more."
	case err != nil:
		refusal = "This can't be shown to the person whole, so it can't be allowed. Ask for something smaller."
		g.logger.Warn("a permission was refused", "error", g.clean(err))
		g.noticeLocked("warning", "A request of the agent was refused unasked, because it could not be shown whole: "+short(tool.Name, 200))
	default:
		if g.appendLocked(wire.KindPermissionAsked, entry) != nil || g.syncLocked() != nil {
			refusal = "The request could not be recorded, so it can't be allowed."
		} else {
			g.asked[q.id] = q
			fault.Point("guard.request-logged")
		}
	}
	g.mu.Unlock()
	if refusal != "" {
		g.refuse(q, refusal)
	}
}

func kindOf(ev provider.PermissionRequested) approval.Kind {
	switch {
	case ev.Question != nil:
		return approval.QuestionAsked
	case ev.Tool.Kind == wire.ToolEdit:
		return approval.FileChange
	case ev.Tool.Kind == wire.ToolFetch:
		return approval.NetworkOrEndpoint
	}
	return approval.ToolCall
}

// subjectOf is what a person is asked about. Its input is brought into the form
// that encoding/json writes, so that passing it on never changes its bytes and
// thereby its digest.
func subjectOf(ev provider.PermissionRequested, paths []wire.ResolvedPath) (approval.Subject, error) {
	tool := ev.Tool
	s := approval.Subject{
		Title: tool.Title, Tool: tool.Name, Server: tool.Server, Command: tool.Command,
		Cwd: tool.Cwd, Reason: tool.Reason, Diff: tool.Diff,
	}
	if len(bytes.TrimSpace(tool.Input)) > 0 {
		input, err := json.Marshal(tool.Input)
		if err != nil {
			return s, fmt.Errorf("the tool's input is not JSON: %w", err)
		}
		s.Input = input
	}
	// A person sees the path as asked and, where it differs, where it leads.
	for _, p := range paths {
		s.Paths = append(s.Paths, p.Asked)
		if p.Resolved != "" && p.Resolved != p.Asked && !slices.Contains(s.Paths, p.Resolved) {
			s.Paths = append(s.Paths, p.Resolved)
		}
	}
	if q := ev.Question; q != nil {
		s.Question = &approval.Question{Text: q.Text, Options: q.Options, Multi: q.Multi}
	}
	return s, nil
}

// resolve finds where a path physically leads. Programs disagree about what
// ".." means behind a link, so a path that has two readings has none.
func resolve(folder, asked string) wire.ResolvedPath {
	r := wire.ResolvedPath{Asked: asked}
	p := asked
	switch {
	case asked == "" || strings.ContainsRune(asked, 0):
		r.Err = "it is no path"
		return r
	case asked == "~" || strings.HasPrefix(asked, "~/"):
		r.Err = "it begins with ~, which programs read differently"
		return r
	case !filepath.IsAbs(p):
		p = folder + string(filepath.Separator) + p
	}
	walked, err := physical(p)
	if err == nil {
		var clean string
		if clean, err = physical(filepath.Clean(p)); err == nil && clean != walked {
			err = errors.New("it leads to different places, depending on how .. is read")
		}
	}
	if err != nil {
		r.Err = err.Error()
		return r
	}
	r.Resolved = walked
	return r
}

// physical follows all links of p. Of a file that does not exist the nearest
// directory that does is followed.
func physical(p string) (string, error) {
	real, err := filepath.EvalSymlinks(p)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	// A separator at the end would make the look follow the link.
	p = strings.TrimRight(p, string(filepath.Separator))
	if _, err := os.Lstat(p); err == nil {
		return "", errors.New("it is a link that leads nowhere")
	}
	parent, base := filepath.Split(p)
	if base == "" || base == "." || base == ".." || parent == "" || parent == p {
		return "", errors.New("it leads through a directory that does not exist")
	}
	dir, err := physical(parent)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, base), nil
}

func (g *guard) askedByLocked(request string) *question {
	for _, q := range g.asked {
		if q.request == request {
			return q
		}
	}
	return nil
}

// settleLocked closes a question in the log. Telling the provider is the
// caller's.
func (g *guard) settleLocked(q *question, s settlement) error {
	err := g.appendLocked(wire.KindPermissionResolved, wire.PermissionResolved{
		Turn: q.turn, Request: q.id, Outcome: s.outcome, By: s.by, Reason: s.reason,
	})
	if err == nil {
		err = g.syncLocked()
	}
	fault.Point("guard.answer-logged")
	delete(g.asked, q.id)
	s.digest = q.digest
	g.settled[q.id] = s
	g.settleds = append(g.settleds, q.id)
	if len(g.settleds) > maxSettled {
		delete(g.settled, g.settleds[0])
		g.settleds = g.settleds[1:]
	}
	return err
}

// settleAllLocked closes every question because the turn ends.
func (g *guard) settleAllLocked(c cause) {
	s := settlement{outcome: outcomeWithdrawn, by: "turn"}
	switch c {
	case causeDeadline:
		s = settlement{outcome: outcomeExpired, by: "deadline"}
	case causeStop, causeSignal, causeKeeper, causeLog:
		s.by = "stop"
	}
	var open []*question
	for _, q := range g.asked {
		open = append(open, q)
	}
	slices.SortFunc(open, func(a, b *question) int { return strings.Compare(a.id, b.id) })
	for _, q := range open {
		_ = g.settleLocked(q, s) // a log that fails ends everything by itself
		if g.turn != nil {
			g.turn.refuse = append(g.turn.refuse, q)
		}
	}
}

// refuse tells the provider no.
func (g *guard) refuse(q *question, why string) {
	g.wg.Go(func() {
		ctx, cancel := context.WithTimeout(g.ctx, answerFor)
		defer cancel()
		err := q.talk.conn.Answer(ctx, q.request, provider.Answer{Message: why})
		if err != nil && !errors.Is(err, provider.ErrNoRequest) {
			g.logger.Info("the provider did not take a refusal", "error", g.clean(err))
		}
	})
}

// resolveLocked settles a question by an answer and returns what is left to
// do outside the lock.
func (g *guard) resolveLocked(p wire.ResolveParams) (any, later, error) {
	g.expiredLocked() // settles everything if so
	q := g.asked[p.Request]
	if q == nil {
		return g.repeatedLocked(p)
	}
	if subtle.ConstantTimeCompare([]byte(p.Digest), []byte(q.digest)) != 1 {
		return nil, nil, wire.Errorf(wire.CodeApprovalMismatch, "The answer was given to something else than what %s asks; look at it again.", q.id)
	}
	outcome := outcomeDenied
	if p.Allow {
		outcome = outcomeAllowed
	}
	s := settlement{outcome: outcome, by: p.By, reason: p.Message, told: make(chan struct{}), state: new(string)}
	if err := g.settleLocked(q, s); err != nil {
		close(s.told)
		*s.state = stateGone
		return nil, nil, wire.Errorf(wire.CodeInternal, "The answer could not be recorded, so it was not given; the worker is being stopped.")
	}
	return nil, func() (any, error) {
		defer close(s.told)
		*s.state = g.answer(q, p)
		return wire.ResolveResult{State: *s.state}, nil
	}, nil
}

// answer gives a recorded answer to the provider.
func (g *guard) answer(q *question, p wire.ResolveParams) string {
	ctx, cancel := context.WithTimeout(g.ctx, answerFor)
	defer cancel()
	err := q.talk.conn.Answer(ctx, q.request, provider.Answer{Allow: p.Allow, Message: p.Message, Text: p.Text})
	fault.Point("guard.answer-given")
	if err == nil {
		return stateDelivered
	}
	if !errors.Is(err, provider.ErrNoRequest) {
		g.logger.Warn("the provider did not take an answer", "error", g.clean(err))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.noticeLocked("warning", "The answer came too late: the agent no longer waits for it.")
	return stateGone
}

// repeatedLocked answers for a question that is closed already.
func (g *guard) repeatedLocked(p wire.ResolveParams) (any, later, error) {
	s, known := g.settled[p.Request]
	if !known || s.told == nil {
		return wire.ResolveResult{State: stateGone}, nil, nil
	}
	if subtle.ConstantTimeCompare([]byte(p.Digest), []byte(s.digest)) != 1 {
		return nil, nil, wire.Errorf(wire.CodeApprovalMismatch, "The answer was given to something else than what %s asked.", p.Request)
	}
	if p.Allow != (s.outcome == outcomeAllowed) {
		return nil, nil, wire.Errorf(wire.CodeAlreadyAnswered, "%s was %s already, by %s.", p.Request, s.outcome, s.by)
	}
	return nil, func() (any, error) {
		<-s.told
		return wire.ResolveResult{State: *s.state}, nil
	}, nil
}
