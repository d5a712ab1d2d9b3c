package server

import (
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
	// lane names the queue a request waits in; requests without one run at
	// once.
	lane func(params json.RawMessage) string
	run  func(ctx context.Context, k call, params json.RawMessage) (outcome, error)
	// slow: it asks git, the keychain or all of the database. It takes no place
	// for its answer while it runs, or a disk that doesn't answer would keep the
	// quick reads of its connection waiting.
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
	noLane := func(json.RawMessage) string { return "" }
	watching := func(json.RawMessage) string { return "watch" }
	credentials := func(json.RawMessage) string { return "credentials" }
	methods = map[string]method{
		wire.MethodNegotiate:     bind(open, noLane, negotiate),
		wire.MethodServiceStatus: bind(open, noLane, func(ctx context.Context, k call, _ struct{}) (wire.Service, error) { return k.b.Status(ctx) }),

		wire.MethodServiceCheck: bindSlow(person, noLane, func(ctx context.Context, k call, _ struct{}) (wire.CheckResult, error) { return k.b.Check(ctx) }),
		wire.MethodAuditVerify: bindSlow(person, noLane, func(ctx context.Context, k call, _ struct{}) (wire.AuditVerifyResult, error) {
			return k.b.AuditVerify(ctx)
		}),
		wire.MethodProviderList: bind(probe, noLane, func(ctx context.Context, k call, p wire.ProviderListParams) (wire.ProviderListResult, error) {
			return k.b.ProviderList(ctx, p)
		}),
		wire.MethodProviderAdd: bind(decide, noLane, func(ctx context.Context, k call, p wire.ProviderAddParams) (wire.ProviderResult, error) {
			return checked(need("name", p.Name), func() (wire.ProviderResult, error) { return k.b.ProviderAdd(ctx, k.actor, p) })
		}),
		wire.MethodProviderRemove: bind(decide, noLane, func(ctx context.Context, k call, p wire.ProviderRemoveParams) (wire.ProviderResult, error) {
			return checked(need("name", p.Name), func() (wire.ProviderResult, error) { return k.b.ProviderRemove(ctx, k.actor, p) })
		}),
		wire.MethodCredentialList: bindSlow(person, noLane, func(ctx context.Context, k call, _ struct{}) (wire.CredentialListResult, error) {
			return k.b.CredentialList(ctx)
		}),
		wire.MethodCredentialSet: bind(decide, credentials, func(ctx context.Context, k call, p wire.CredentialSetParams) (wire.CredentialListResult, error) {
			return checked(need("name", p.Name), func() (wire.CredentialListResult, error) { return k.b.CredentialSet(ctx, k.actor, p) })
		}),
		wire.MethodCredentialRemove: bind(decide, credentials, func(ctx context.Context, k call, p wire.CredentialRemoveParams) (wire.CredentialListResult, error) {
			return checked(need("name", p.Name), func() (wire.CredentialListResult, error) { return k.b.CredentialRemove(ctx, k.actor, p) })
		}),
		wire.MethodCredentialHand: bind(decide, credentials, func(ctx context.Context, k call, p wire.CredentialHandParams) (wire.CredentialListResult, error) {
			return k.b.CredentialHand(ctx, k.actor, p)
		}),
		wire.MethodMissionCheck: bind(probe, noLane, func(ctx context.Context, k call, p wire.MissionStartParams) (wire.MissionCheckResult, error) {
			return k.b.MissionCheck(ctx, p)
		}),
		wire.MethodMissionList:  bind(person, noLane, missionList),
		wire.MethodApprovalList: bind(person, noLane, approvalList),
		wire.MethodApprovalGet: bind(person, noLane, func(ctx context.Context, k call, p wire.IDParams) (wire.ApprovalResult, error) {
			return checked(need("id", p.ID), func() (wire.ApprovalResult, error) { return k.b.ApprovalGet(ctx, p) })
		}),
		wire.MethodBlobRead: bind(person, noLane, blobRead),

		wire.MethodMissionGet:      bind(own, noLane, missionGet),
		wire.MethodSessionMessages: bind(own, noLane, messages),
		wire.MethodWatch:           {own, watching, watch, false},
		wire.MethodSessionAttach:   {own, watching, attach, false},
		wire.MethodUnwatch:         bind(own, watching, unwatch),
		wire.MethodSessionDetach:   bind(own, watching, detach),

		wire.MethodServiceStop: bind(decide, noLane, func(ctx context.Context, k call, p wire.ServiceStopParams) (wire.ServiceStopResult, error) {
			return k.b.Stop(ctx, k.actor, p)
		}),
		wire.MethodServicePrepareUpdate: bind(decide, noLane, func(ctx context.Context, k call, p wire.PrepareUpdateParams) (wire.PrepareUpdateResult, error) {
			return k.b.PrepareUpdate(ctx, k.actor, p, k.c.gone)
		}),
		wire.MethodServiceCommitUpdate: bind(decide, noLane, func(ctx context.Context, k call, _ struct{}) (wire.UpdateResult, error) {
			return k.b.CommitUpdate(ctx, k.actor, k.c.gone)
		}),
		wire.MethodServiceCancelUpdate: bind(decide, noLane, func(ctx context.Context, k call, _ struct{}) (wire.UpdateResult, error) {
			return k.b.CancelUpdate(ctx, k.actor, k.c.gone)
		}),
		wire.MethodMissionStart: bind(decide, func(json.RawMessage) string { return "start" },
			func(ctx context.Context, k call, p wire.MissionStartParams) (wire.MissionStartResult, error) {
				return k.b.MissionStart(ctx, k.actor, p)
			}),
		wire.MethodMissionSteer: bind(decide, byID, func(ctx context.Context, k call, p wire.SteerParams) (wire.MissionResult, error) {
			bad := need("id", p.ID)
			if bad == nil && p.Text == "" {
				bad = wire.InvalidField("text", "is missing or empty")
			}
			return checked(bad, func() (wire.MissionResult, error) { return k.b.MissionSteer(ctx, k.actor, p) })
		}),
		wire.MethodMissionPause:  bind(decide, byID, mutation(Backend.MissionPause)),
		wire.MethodMissionResume: bind(decide, byID, mutation(Backend.MissionResume)),
		wire.MethodMissionStop:   bind(decide, byID, mutation(Backend.MissionStop)),
		wire.MethodMissionCancel: bind(decide, byID, mutation(Backend.MissionCancel)),
		wire.MethodMissionRecover: bind(decide, byID, func(ctx context.Context, k call, p wire.RecoverParams) (wire.MissionStartResult, error) {
			bad := need("id", p.ID)
			if bad == nil {
				bad = need("recovery_ref", p.Ref)
			}
			return checked(bad, func() (wire.MissionStartResult, error) { return k.b.MissionRecover(ctx, k.actor, p) })
		}),
		wire.MethodMissionChanges: bindSlow(person, noLane, func(ctx context.Context, k call, p wire.ChangesParams) (wire.ChangesResult, error) {
			return checked(need("id", p.ID), func() (wire.ChangesResult, error) { return k.b.MissionChanges(ctx, p) })
		}),
		wire.MethodMissionWorktree: bind(decide, byID, func(ctx context.Context, k call, p wire.WorktreeParams) (wire.WorktreeResult, error) {
			bad := need("id", p.ID)
			if bad == nil {
				bad = need("action", p.Action)
			}
			return checked(bad, func() (wire.WorktreeResult, error) { return k.b.MissionWorktree(ctx, k.actor, p) })
		}),
		wire.MethodRoomList: bind(person, noLane, func(ctx context.Context, k call, _ struct{}) (wire.RoomListResult, error) {
			return k.b.RoomList(ctx)
		}),
		wire.MethodRoomMessages: bind(person, noLane, roomMessages),
		wire.MethodRoomSend:     bind(decide, byRoom, roomSend),
		wire.MethodEffectList: bind(person, noLane, func(ctx context.Context, k call, p wire.EffectListParams) (wire.EffectListResult, error) {
			return k.b.EffectList(ctx, p)
		}),
		wire.MethodEffectSettle: bind(decide, byID, effectSettle),

		wire.MethodBindWorker:     bind(worker, noLane, bridged(checkBind, Backend.BindWorker)),
		wire.MethodVerifyWorker:   bind(worker, noLane, bridged(checkBind, Backend.VerifyWorker)),
		wire.MethodCheckpoint:     bind(worker, noLane, bridged(checkCheckpoint, Backend.CheckpointWorker)),
		wire.MethodBorrow:         bind(worker, noLane, bridged(checkBorrow, Backend.BorrowCredential)),
		wire.MethodPrepareEffect:  bind(worker, noLane, bridged(checkPrepare, Backend.PrepareEffect)),
		wire.MethodCompleteEffect: bind(worker, noLane, bridged(checkComplete, Backend.CompleteEffect)),
		wire.MethodExecuteTool:    bind(worker, noLane, executeTool),

		wire.MethodRuleList: bind(person, noLane, func(ctx context.Context, k call, p wire.RuleListParams) (wire.RuleListResult, error) {
			return k.b.RuleList(ctx, p)
		}),
		wire.MethodRuleAdd: bind(decide, noLane, func(ctx context.Context, k call, p wire.RuleAddParams) (wire.RuleResult, error) {
			return k.b.RuleAdd(ctx, k.actor, p)
		}),
		wire.MethodRuleEdit: bind(decide, byID, func(ctx context.Context, k call, p wire.RuleEditParams) (wire.RuleResult, error) {
			return checked(need("id", p.ID), func() (wire.RuleResult, error) { return k.b.RuleEdit(ctx, k.actor, p) })
		}),
		wire.MethodRuleRevoke: bind(decide, byID, func(ctx context.Context, k call, p wire.RuleRevokeParams) (wire.RuleResult, error) {
			return checked(need("id", p.ID), func() (wire.RuleResult, error) { return k.b.RuleRevoke(ctx, k.actor, p) })
		}),
		wire.MethodApprovalAnswer: bind(decide, byID, func(ctx context.Context, k call, p wire.AnswerParams) (wire.ApprovalResult, error) {
			bad := need("id", p.ID)
			if bad == nil {
				bad = need("digest", p.Digest)
			}
			return checked(bad, func() (wire.ApprovalResult, error) { return k.b.ApprovalAnswer(ctx, k.actor, p) })
		}),
	}
}

// bind makes a method of a typed handler.
func bind[P, R any](cl class, lane func(json.RawMessage) string, f func(context.Context, call, P) (R, error)) method {
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
func bindSlow[P, R any](cl class, lane func(json.RawMessage) string, f func(context.Context, call, P) (R, error)) method {
	m := bind(cl, lane, f)
	m.slow = true
	return m
}

// mutation is the handler of those that need no more than a mission.
func mutation(f func(Backend, context.Context, Actor, wire.MissionParams) (wire.MissionResult, error)) func(context.Context, call, wire.MissionParams) (wire.MissionResult, error) {
	return func(ctx context.Context, k call, p wire.MissionParams) (wire.MissionResult, error) {
		return checked(need("id", p.ID), func() (wire.MissionResult, error) { return f(k.b, ctx, k.actor, p) })
	}
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

func checked[R any](bad *wire.Error, f func() (R, error)) (R, error) {
	if bad != nil {
		var none R
		return none, bad
	}
	return f()
}

// need refuses an id that is missing or too long for one.
func need(field, value string) *wire.Error {
	switch {
	case value == "":
		return wire.InvalidField(field, "is missing or empty")
	case len(value) > wire.MaxID:
		return wire.InvalidField(field, "is longer than 128 bytes")
	}
	return nil
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
	const most = 200
	if p.Limit < 0 || p.Limit > most {
		return wire.MissionListResult{}, wire.InvalidField("limit", "must be between 1 and 200, or left out")
	}
	if p.Limit == 0 {
		p.Limit = most
	}
	return k.b.MissionList(ctx, p)
}

func approvalList(ctx context.Context, k call, p wire.ApprovalListParams) (wire.ApprovalListResult, error) {
	if len(p.Mission) > wire.MaxID {
		return wire.ApprovalListResult{}, wire.InvalidField("mission_id", "is longer than 128 bytes")
	}
	return k.b.ApprovalList(ctx, p)
}

func blobRead(ctx context.Context, k call, p wire.BlobReadParams) (wire.BlobReadResult, error) {
	bad := need("digest", p.Digest)
	if bad == nil && p.Offset < 0 {
		bad = wire.InvalidField("offset", "must not be negative")
	}
	return checked(bad, func() (wire.BlobReadResult, error) { return k.b.BlobRead(ctx, p) })
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
	const most, normal, pageBytes = 1000, 200, 900 << 10
	ref, err := k.session(ctx, p.Session)
	if err != nil {
		return wire.MessagesResult{}, err
	}
	if p.Limit < 0 || p.Limit > most {
		return wire.MessagesResult{}, wire.InvalidField("limit", "must be between 1 and 1,000, or left out")
	}
	if p.Limit == 0 {
		p.Limit = normal
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
