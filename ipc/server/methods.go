package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/reevehq/reeve/ipc/wire"
)

// class says who may call a method.
type class int

const (
	open   class = iota // everybody
	own                 // persons; a worker about its own mission, which the handler checks
	person              // persons, to read
	decide              // persons, confirmed at the moment of the call: it changes something
	probe               // persons, confirmed in the same way: the service runs a program that they choose
	worker              // workers alone, about their own mission, which the handler checks
)

// method is an entry of the dispatch table.
type method struct {
	class class
	// lane names the queue in which a request waits for earlier ones; "" has it
	// run at once.
	lane func(params json.RawMessage) string
	run  func(ctx context.Context, k call, params json.RawMessage) (outcome, error)
	// slow marks what asks git, the keychain or all of the database. Such a
	// request reserves no room for its answer while it runs: otherwise one that
	// waits for a dead disk would hold up the quick reads of its connection.
	slow bool
}

// call is one request being served.
type call struct {
	c      *conn
	b      Backend
	method string
	actor  Actor
}

// outcome is a result, and what is to be done once it was queued for the
// client, or undone when it couldn't be.
type outcome struct {
	result     any
	then, undo func()
}

// methods is the dispatch table: everything the socket understands.
var methods map[string]method

func init() {
	methods = map[string]method{
		wire.MethodNegotiate:     bind(open, noLane, negotiate),
		wire.MethodServiceStatus: bind(open, noLane, tell(Backend.Status)),

		wire.MethodServiceCheck: bindSlow(person, noLane, tell(Backend.Check)),
		wire.MethodAuditVerify:  bindSlow(person, noLane, tell(Backend.AuditVerify)),
		wire.MethodAuditRead:    bind(person, noLane, auditRead),
		wire.MethodServiceStop:  bind(decide, noLane, act(Backend.Stop)),
		wire.MethodServicePrepareUpdate: bind(decide, noLane, func(ctx context.Context, k call, p wire.PrepareUpdateParams) (wire.PrepareUpdateResult, error) {
			return k.b.PrepareUpdate(ctx, k.actor, p, k.c.gone)
		}),
		wire.MethodServiceCommitUpdate: bind(decide, noLane, func(ctx context.Context, k call, _ struct{}) (wire.UpdateResult, error) {
			return k.b.CommitUpdate(ctx, k.actor, k.c.gone)
		}),
		wire.MethodServiceCancelUpdate: bind(decide, noLane, func(ctx context.Context, k call, _ struct{}) (wire.UpdateResult, error) {
			return k.b.CancelUpdate(ctx, k.actor, k.c.gone)
		}),

		wire.MethodProviderList:   bind(probe, noLane, read(Backend.ProviderList)),
		wire.MethodProviderAdd:    bind(decide, noLane, act(Backend.ProviderAdd, func(p wire.ProviderAddParams) *wire.Error { return need("name", p.Name) })),
		wire.MethodProviderRemove: bind(decide, noLane, act(Backend.ProviderRemove, func(p wire.ProviderRemoveParams) *wire.Error { return need("name", p.Name) })),

		wire.MethodCredentialList:   bindSlow(person, noLane, tell(Backend.CredentialList)),
		wire.MethodCredentialSet:    bind(decide, lane("credentials"), act(Backend.CredentialSet, func(p wire.CredentialSetParams) *wire.Error { return need("name", p.Name) })),
		wire.MethodCredentialRemove: bind(decide, lane("credentials"), act(Backend.CredentialRemove, func(p wire.CredentialRemoveParams) *wire.Error { return need("name", p.Name) })),
		wire.MethodCredentialHand:   bind(decide, lane("credentials"), act(Backend.CredentialHand)),

		wire.MethodMissionCheck:    bind(probe, noLane, read(Backend.MissionCheck)),
		wire.MethodMissionStart:    bind(decide, lane("start"), act(Backend.MissionStart)),
		wire.MethodMissionList:     bind(person, noLane, missionList),
		wire.MethodMissionGet:      bind(own, noLane, missionGet),
		wire.MethodMissionSteer:    bind(decide, byID, act(Backend.MissionSteer, checkSteer)),
		wire.MethodMissionPause:    bind(decide, byID, act(Backend.MissionPause, checkMission)),
		wire.MethodMissionResume:   bind(decide, byID, act(Backend.MissionResume, checkMission)),
		wire.MethodMissionStop:     bind(decide, byID, act(Backend.MissionStop, checkMission)),
		wire.MethodMissionCancel:   bind(decide, byID, act(Backend.MissionCancel, checkMission)),
		wire.MethodMissionRecover:  bind(decide, byID, act(Backend.MissionRecover, checkRecover)),
		wire.MethodMissionChanges:  bindSlow(person, noLane, read(Backend.MissionChanges, func(p wire.ChangesParams) *wire.Error { return need("id", p.ID) })),
		wire.MethodMissionWorktree: bind(decide, byID, act(Backend.MissionWorktree, checkWorktree)),

		wire.MethodApprovalList:   bind(person, noLane, read(Backend.ApprovalList, checkApprovalList)),
		wire.MethodApprovalGet:    bind(person, noLane, read(Backend.ApprovalGet, func(p wire.IDParams) *wire.Error { return need("id", p.ID) })),
		wire.MethodApprovalAnswer: bind(decide, byID, act(Backend.ApprovalAnswer, checkAnswer)),

		wire.MethodRuleList:   bind(person, noLane, read(Backend.RuleList)),
		wire.MethodRuleAdd:    bind(decide, noLane, act(Backend.RuleAdd)),
		wire.MethodRuleEdit:   bind(decide, byID, act(Backend.RuleEdit, func(p wire.RuleEditParams) *wire.Error { return need("id", p.ID) })),
		wire.MethodRuleRevoke: bind(decide, byID, act(Backend.RuleRevoke, func(p wire.RuleRevokeParams) *wire.Error { return need("id", p.ID) })),

		wire.MethodRoomList:     bind(person, noLane, tell(Backend.RoomList)),
		wire.MethodRoomMessages: bind(person, noLane, roomMessages),
		wire.MethodRoomSend:     bind(decide, byRoom, act(Backend.RoomSend, checkRoomSend)),

		wire.MethodEffectList:   bind(person, noLane, read(Backend.EffectList)),
		wire.MethodEffectSettle: bind(decide, byID, act(Backend.EffectSettle, checkSettle)),

		wire.MethodBlobRead:        bind(person, noLane, read(Backend.BlobRead, checkBlobRead)),
		wire.MethodSessionMessages: bind(own, noLane, messages),
		wire.MethodWatch:           {own, lane("watch"), watch, false},
		wire.MethodSessionAttach:   {own, lane("watch"), attach, false},
		wire.MethodUnwatch:         bind(own, lane("watch"), unwatch),
		wire.MethodSessionDetach:   bind(own, lane("watch"), detach),

		wire.MethodBindWorker:     bind(worker, noLane, bridged(Backend.BindWorker, checkBind)),
		wire.MethodVerifyWorker:   bind(worker, noLane, bridged(Backend.VerifyWorker, checkBind)),
		wire.MethodCheckpoint:     bind(worker, noLane, bridged(Backend.CheckpointWorker, checkCheckpoint)),
		wire.MethodBorrow:         bind(worker, noLane, bridged(Backend.BorrowCredential, checkBorrow)),
		wire.MethodPrepareEffect:  bind(worker, noLane, bridged(Backend.PrepareEffect, checkPrepare)),
		wire.MethodCompleteEffect: bind(worker, noLane, bridged(Backend.CompleteEffect, checkComplete)),
		wire.MethodExecuteTool:    bind(worker, noLane, executeTool),
	}
}

// handler serves one method, with its parameters decoded.
type handler[P, R any] func(ctx context.Context, k call, p P) (R, error)

// bind makes a method of a handler.
func bind[P, R any](cl class, lane func(json.RawMessage) string, f handler[P, R]) method {
	return method{class: cl, lane: lane, run: func(ctx context.Context, k call, raw json.RawMessage) (outcome, error) {
		var p P
		if err := wire.DecodeParams(raw, &p); err != nil {
			return outcome{}, err
		}
		r, err := f(ctx, k, p)
		return outcome{result: r}, err
	}}
}

// bindSlow is bind for a method that is slow.
func bindSlow[P, R any](cl class, lane func(json.RawMessage) string, f handler[P, R]) method {
	m := bind(cl, lane, f)
	m.slow = true
	return m
}

// tell, read and act make handlers of the backend's methods: of one that takes
// nothing, one that only reads, and one that has to know who asks. What a check
// refuses never reaches the backend.
func tell[R any](f func(Backend, context.Context) (R, error)) handler[struct{}, R] {
	return func(ctx context.Context, k call, _ struct{}) (R, error) { return f(k.b, ctx) }
}

func read[P, R any](f func(Backend, context.Context, P) (R, error), checks ...func(P) *wire.Error) handler[P, R] {
	return func(ctx context.Context, k call, p P) (none R, _ error) {
		for _, check := range checks {
			if bad := check(p); bad != nil {
				return none, bad
			}
		}
		return f(k.b, ctx, p)
	}
}

func act[P, R any](f func(Backend, context.Context, Actor, P) (R, error), checks ...func(P) *wire.Error) handler[P, R] {
	return func(ctx context.Context, k call, p P) (R, error) {
		return read(func(b Backend, ctx context.Context, p P) (R, error) { return f(b, ctx, k.actor, p) }, checks...)(ctx, k, p)
	}
}

func noLane(json.RawMessage) string { return "" }

// lane is one lane for all requests of the methods that share its name.
func lane(name string) func(json.RawMessage) string {
	return func(json.RawMessage) string { return name }
}

// byID is the lane of mutations: one for each mission, as the client names it.
func byID(params json.RawMessage) string {
	var p struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(params, &p) != nil {
		return "" // the handler refuses it
	}
	return "id " + p.ID
}

// byRoom is the lane of messages: one for each room, as the client names it.
func byRoom(params json.RawMessage) string {
	var p struct {
		Room string `json:"room"`
	}
	if json.Unmarshal(params, &p) != nil {
		return "" // the handler refuses it
	}
	return "room " + p.Room
}

// invoke authorises a request and runs it. A panic ends the request and
// nothing else.
func (c *conn) invoke(ctx context.Context, m method, req wire.Request) (out outcome, err error) {
	run := func() (out outcome, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = c.s.internal(req.Method, fmt.Errorf("panic: %v", p), debug.Stack())
			}
		}()
		k := call{c: c, b: c.s.b, method: req.Method, actor: c.who()}
		sure := m.class == decide || m.class == probe
		if sure && !k.actor.Worker {
			k.actor = c.confirm(k.actor)
		}
		if k.actor.Worker && (sure || m.class == person) || k.actor.Doubtful && sure {
			return outcome{}, k.refuse(ctx)
		}
		if m.class != decide || req.Method == wire.MethodServiceStop {
			return m.run(ctx, k, req.Params)
		}
		if why := c.s.b.Fenced(); why != nil {
			return outcome{}, why
		}
		out, err = m.run(ctx, k, req.Params)
		// It may be the change itself that found out.
		if why := c.s.b.Fenced(); err != nil && why != nil {
			err = why
		}
		return out, err
	}
	// Nothing is kept of a request that holds a secret, not even its digest.
	if m.class != decide || len(req.Params) == 0 || strings.HasPrefix(req.Method, "credential.") {
		return run()
	}
	var p struct {
		Key string `json:"request_key"`
	}
	if bad := wire.DecodeParams(req.Params, &p); bad != nil && bad.Details != nil {
		return run() // refuses the same, after it has looked who asks
	}
	if p.Key == "" {
		return run()
	}
	if bad := need("request_key", p.Key); bad != nil {
		return outcome{}, bad
	}
	// A worker gets no answer that was given to a person.
	if a := c.who(); a.Worker || a.Doubtful {
		return run()
	}
	result, err := c.s.keys.do(ctx, req.Method+" "+p.Key, req.Params, func() (json.RawMessage, error) {
		out, err := run()
		if err != nil {
			return nil, err
		}
		return marshal(out.result)
	})
	return outcome{result: result}, err
}

func (c *conn) who() Actor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.actor
}

// confirm judges the peer anew. Who turns out to be a worker stays one.
func (c *conn) confirm(fixed Actor) Actor {
	a := c.s.b.Confirm(c.peer, fixed)
	a.Client = fixed.Client
	if a.Worker {
		c.mu.Lock()
		c.actor = a
		c.mu.Unlock()
	}
	return a
}

// refuse records what a worker tried.
func (k call) refuse(ctx context.Context) error {
	k.b.Refused(context.WithoutCancel(ctx), k.actor, k.method)
	return errForbidden(k.actor)
}

func errForbidden(a Actor) *wire.Error {
	why := ""
	if a.Why != "" {
		why = " (" + a.Why + ")"
	}
	from := "comes from a worker"
	if a.Doubtful {
		from = "may come from a worker"
	}
	return wire.Errorf(wire.CodeForbiddenForWorkers,
		"Only a person may do this, and this %s%s. Use the desktop or a terminal of your own.", from, why)
}

// owns says whether mission is the worker's own.
func (a Actor) owns(mission string) bool { return a.Mission != "" && a.Mission == mission }

func supported() map[string][]int {
	return map[string][]int{"supported": {wire.MinVersion, wire.MaxVersion}}
}

func negotiate(_ context.Context, k call, p wire.NegotiateParams) (wire.NegotiateResult, error) {
	version := wire.MaxVersion
	if len(p.Versions) > 0 {
		version = 0
		for _, v := range p.Versions {
			if v >= wire.MinVersion && v <= wire.MaxVersion {
				version = max(version, v)
			}
		}
	}
	r := k.b.Identity()
	if version == 0 {
		return r, wire.Errorf(wire.CodeUnsupportedVersion, "This service (%s) speaks the versions 1 and 2 of the protocol. Install the client and the service of one release.", r.AppVersion).
			With(map[string]any{"supported": supported()["supported"], "app_version": r.AppVersion})
	}
	if len(p.Client) > wire.MaxID {
		return r, wire.InvalidField("client", "is longer than 128 bytes")
	}
	if p.Client != "" {
		k.c.mu.Lock()
		k.c.actor.Client = p.Client
		k.c.mu.Unlock()
	}
	r.ProtocolVersion = version
	return r, nil
}

func missionList(ctx context.Context, k call, p wire.MissionListParams) (wire.MissionListResult, error) {
	if bad := limit(&p.Limit, 200, 200); bad != nil {
		return wire.MissionListResult{}, bad
	}
	return k.b.MissionList(ctx, p)
}

func auditRead(ctx context.Context, k call, p wire.AuditReadParams) (wire.AuditReadResult, error) {
	if bad := limit(&p.Limit, 1000, 1000); bad != nil {
		return wire.AuditReadResult{}, bad
	}
	return k.b.AuditRead(ctx, p)
}

func roomMessages(ctx context.Context, k call, p wire.RoomMessagesParams) (wire.RoomMessagesResult, error) {
	if bad := cmp.Or(need("room", p.Room), limit(&p.Limit, 200, 200)); bad != nil {
		return wire.RoomMessagesResult{}, bad
	}
	return k.b.RoomMessages(ctx, p)
}

func missionGet(ctx context.Context, k call, p wire.IDParams) (wire.MissionResult, error) {
	if bad := need("id", p.ID); bad != nil {
		return wire.MissionResult{}, bad
	}
	r, err := k.b.MissionGet(ctx, p)
	if k.actor.Worker && (err != nil || !k.actor.owns(r.Mission.ID)) {
		return wire.MissionResult{}, k.refuse(ctx) // nor does it learn what exists
	}
	return r, err
}

// session resolves the session of a request and checks that the actor may
// read it.
func (k call) session(ctx context.Context, id string) (SessionRef, error) {
	if bad := need("session", id); bad != nil {
		return SessionRef{}, bad
	}
	ref, err := k.b.Session(ctx, id)
	if k.actor.Worker && (err != nil || !k.actor.owns(ref.Mission)) {
		return SessionRef{}, k.refuse(ctx)
	}
	return ref, err
}

func messages(ctx context.Context, k call, p wire.MessagesParams) (wire.MessagesResult, error) {
	const pageBytes = 900 << 10
	ref, err := k.session(ctx, p.Session)
	if err != nil {
		return wire.MessagesResult{}, err
	}
	if bad := limit(&p.Limit, 200, 1000); bad != nil {
		return wire.MessagesResult{}, bad
	}
	r := wire.MessagesResult{Session: ref.Session, Entries: []wire.Entry{}}
	size := 0
	end, err := k.b.History(ctx, ref.Session, p.After, func(e wire.Entry) bool {
		raw := appendEntry(nil, e) // as it will go out, oversize ones replaced
		if len(r.Entries) == p.Limit || len(r.Entries) > 0 && size+len(raw) > pageBytes {
			r.More = true
			return false
		}
		size += len(raw)
		var out wire.Entry // not e: decoding would write into the backend's own bytes
		if json.Unmarshal(raw, &out) == nil {
			r.Entries = append(r.Entries, out)
		}
		return true
	})
	if err != nil {
		return wire.MessagesResult{}, err
	}
	r.Next = p.After
	if n := len(r.Entries); n > 0 {
		r.Next = &wire.Cursor{Log: r.Entries[n-1].Log, Sequence: r.Entries[n-1].Seq}
		if r.Next.Log == "" {
			r.Next.Log = end.Log
		}
	}
	return r, nil
}

func watch(ctx context.Context, k call, raw json.RawMessage) (outcome, error) {
	var p wire.WatchParams
	if bad := wire.DecodeParams(raw, &p); bad != nil {
		return outcome{}, bad
	}
	const most = 64
	switch n := len(p.Topics); {
	case n == 0:
		return outcome{}, wire.InvalidField("topics", "is missing or empty")
	case n > most:
		return outcome{}, wire.InvalidField("topics", "names more than 64 topics")
	case p.Cursor != nil && n > 1:
		return outcome{}, wire.InvalidField("cursor", "serves one topic; use cursors for several")
	}
	if slices.ContainsFunc(p.Topics, func(t string) bool { return len(t) > len(wire.TopicSession)+wire.MaxID }) {
		return outcome{}, wire.InvalidField("topics", "holds a name that is longer than 128 bytes")
	}
	if p.Cursor != nil {
		p.Cursors = map[string]wire.Cursor{p.Topics[0]: *p.Cursor}
	}
	starts, _, then, undo, err := k.c.watch(ctx, k, p.Topics, p.Cursors)
	return outcome{wire.WatchResult{Topics: starts}, then, undo}, err
}

func attach(ctx context.Context, k call, raw json.RawMessage) (outcome, error) {
	var p wire.AttachParams
	if bad := wire.DecodeParams(raw, &p); bad != nil {
		return outcome{}, bad
	}
	if bad := need("session", p.Session); bad != nil {
		return outcome{}, bad
	}
	topic := wire.TopicSession + p.Session
	cursors := map[string]wire.Cursor{}
	if p.Cursor != nil {
		cursors[topic] = *p.Cursor
	}
	starts, refs, then, undo, err := k.c.watch(ctx, k, []string{topic}, cursors)
	if err != nil {
		return outcome{}, err
	}
	return outcome{wire.AttachResult{Session: refs[0].Session, Mission: refs[0].Mission,
		Replay: starts[0].Replay, Reason: starts[0].Reason}, then, undo}, nil
}

func unwatch(ctx context.Context, k call, p wire.UnwatchParams) (struct{}, error) {
	if len(p.Topics) == 0 {
		return struct{}{}, wire.InvalidField("topics", "is missing or empty")
	}
	for _, name := range p.Topics {
		if id, is := sessionTopic(name); is {
			if _, err := detach(ctx, k, wire.DetachParams{Session: id}); err != nil {
				return struct{}{}, err
			}
			continue
		}
		k.c.drop(func(s *sub) bool { return s.topic.name == name })
	}
	return struct{}{}, nil
}

func detach(ctx context.Context, k call, p wire.DetachParams) (struct{}, error) {
	if bad := need("session", p.Session); bad != nil {
		return struct{}{}, bad
	}
	dropped := func(id string) (found bool) {
		k.c.drop(func(s *sub) bool {
			hit := s.topic.session == id
			found = found || hit
			return hit
		})
		return found
	}
	if dropped(p.Session) {
		return struct{}{}, nil // also when the session is no more
	}
	ref, err := k.session(ctx, p.Session)
	if err == nil {
		dropped(ref.Session)
	}
	return struct{}{}, err
}

func sessionTopic(name string) (string, bool) { return strings.CutPrefix(name, wire.TopicSession) }
