package server

import (
	"context"
	"time"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

// Actor is who sits at the other end of a connection. It is fixed when the
// connection is accepted, and everything the connection may do hangs on it.
type Actor struct {
	// Worker is true for everything that descends from a guard, and for
	// every peer that can't be told apart from one.
	Worker bool
	// Mission is the worker's own mission, where it is known.
	Mission string
	// Doubtful is true for a peer that is no worker, but may be doing what one
	// asked for. It reads like a person, decides nothing, has no program run,
	// and its connections have their places among those of workers.
	Doubtful bool
	// Why tells how a worker was recognised, or why there is doubt, in plain
	// words.
	Why     string
	Program string // base name of the executable
	PID     int
	// Process names the process for good; zero where it could not be read.
	Process wire.Process
	TTY     string
	// Client is what the program calls itself in daemon.negotiate.
	Client string
}

// Backend is the service behind the socket. Its methods may be called from
// many goroutines. Errors that are *wire.Error reach the client as they are;
// all others become an internal error with a reference. The context of a read
// ends with its connection; that of a mutation only when the server gives up
// waiting for it while it closes. None of these may call Server.Close, which
// waits for them.
type Backend interface {
	// Actor judges a peer that was just accepted.
	Actor(peer sock.Peer) Actor
	// Confirm judges the peer again before a decision: the actor that was
	// fixed must still hold.
	Confirm(peer sock.Peer, fixed Actor) Actor
	// Fenced says why this service changes nothing any more, or nil. It is asked
	// before everything that changes something, but the end of the service.
	Fenced() *wire.Error
	// Refused records that a worker, or a doubtful peer, tried a method that
	// only a person may call.
	Refused(ctx context.Context, a Actor, method string)

	Identity() wire.NegotiateResult
	Status(ctx context.Context) (wire.Service, error)
	Stop(ctx context.Context, a Actor, p wire.ServiceStopParams) (wire.ServiceStopResult, error)
	// PrepareUpdate, CommitUpdate and CancelUpdate are an update of the
	// service. owner is closed when the calling connection ends, and names it:
	// each connection has its own.
	PrepareUpdate(ctx context.Context, a Actor, p wire.PrepareUpdateParams, owner <-chan struct{}) (wire.PrepareUpdateResult, error)
	CommitUpdate(ctx context.Context, a Actor, owner <-chan struct{}) (wire.UpdateResult, error)
	CancelUpdate(ctx context.Context, a Actor, owner <-chan struct{}) (wire.UpdateResult, error)
	Check(ctx context.Context) (wire.CheckResult, error)
	AuditVerify(ctx context.Context) (wire.AuditVerifyResult, error)
	AuditRead(ctx context.Context, p wire.AuditReadParams) (wire.AuditReadResult, error)
	ProviderAdd(ctx context.Context, a Actor, p wire.ProviderAddParams) (wire.ProviderResult, error)
	ProviderRemove(ctx context.Context, a Actor, p wire.ProviderRemoveParams) (wire.ProviderResult, error)
	ProviderList(ctx context.Context, p wire.ProviderListParams) (wire.ProviderListResult, error)

	// None of these logs what it is given, and no answer holds a secret.
	CredentialList(ctx context.Context) (wire.CredentialListResult, error)
	CredentialSet(ctx context.Context, a Actor, p wire.CredentialSetParams) (wire.CredentialListResult, error)
	CredentialRemove(ctx context.Context, a Actor, p wire.CredentialRemoveParams) (wire.CredentialListResult, error)
	CredentialHand(ctx context.Context, a Actor, p wire.CredentialHandParams) (wire.CredentialListResult, error)

	MissionCheck(ctx context.Context, p wire.MissionStartParams) (wire.MissionCheckResult, error)
	MissionStart(ctx context.Context, a Actor, p wire.MissionStartParams) (wire.MissionStartResult, error)
	MissionList(ctx context.Context, p wire.MissionListParams) (wire.MissionListResult, error)
	MissionGet(ctx context.Context, p wire.IDParams) (wire.MissionResult, error)
	MissionSteer(ctx context.Context, a Actor, p wire.SteerParams) (wire.MissionResult, error)
	MissionPause(ctx context.Context, a Actor, p wire.MissionParams) (wire.MissionResult, error)
	MissionResume(ctx context.Context, a Actor, p wire.MissionParams) (wire.MissionResult, error)
	MissionStop(ctx context.Context, a Actor, p wire.MissionParams) (wire.MissionResult, error)
	MissionRecover(ctx context.Context, a Actor, p wire.RecoverParams) (wire.MissionStartResult, error)
	MissionCancel(ctx context.Context, a Actor, p wire.MissionParams) (wire.MissionResult, error)

	MissionChanges(ctx context.Context, p wire.ChangesParams) (wire.ChangesResult, error)
	MissionWorktree(ctx context.Context, a Actor, p wire.WorktreeParams) (wire.WorktreeResult, error)

	ApprovalList(ctx context.Context, p wire.ApprovalListParams) (wire.ApprovalListResult, error)
	ApprovalGet(ctx context.Context, p wire.IDParams) (wire.ApprovalResult, error)
	ApprovalAnswer(ctx context.Context, a Actor, p wire.AnswerParams) (wire.ApprovalResult, error)

	RoomList(ctx context.Context) (wire.RoomListResult, error)
	RoomMessages(ctx context.Context, p wire.RoomMessagesParams) (wire.RoomMessagesResult, error)
	RoomSend(ctx context.Context, a Actor, p wire.RoomSendParams) (wire.RoomSendResult, error)
	EffectList(ctx context.Context, p wire.EffectListParams) (wire.EffectListResult, error)
	EffectSettle(ctx context.Context, a Actor, p wire.EffectSettleParams) (wire.EffectResult, error)

	// The bridge of workers. The actor is a worker of the mission that the
	// coordinates name; whether they are current is the backend's to judge.
	// Their context ends like that of a mutation where nothing else is said.
	BindWorker(ctx context.Context, a Actor, p wire.BindParams) (wire.BindResult, error)
	// VerifyWorker answers from memory, within 250 ms whatever else goes on.
	VerifyWorker(ctx context.Context, a Actor, p wire.BindParams) (wire.BindResult, error)
	CheckpointWorker(ctx context.Context, a Actor, p wire.CheckpointParams) (wire.CheckpointResult, error)
	BorrowCredential(ctx context.Context, a Actor, p wire.BorrowParams) (wire.BorrowResult, error)
	PrepareEffect(ctx context.Context, a Actor, p wire.PrepareParams) (wire.PrepareResult, error)
	CompleteEffect(ctx context.Context, a Actor, p wire.CompleteParams) (wire.CompleteResult, error)
	// ExecuteTool may wait for as long as the tool does. Its context ends with
	// the connection: what only waits may end then, what has begun goes on.
	ExecuteTool(ctx context.Context, a Actor, p wire.ToolParams) (wire.ToolResult, error)

	RuleList(ctx context.Context, p wire.RuleListParams) (wire.RuleListResult, error)
	RuleAdd(ctx context.Context, a Actor, p wire.RuleAddParams) (wire.RuleResult, error)
	RuleEdit(ctx context.Context, a Actor, p wire.RuleEditParams) (wire.RuleResult, error)
	RuleRevoke(ctx context.Context, a Actor, p wire.RuleRevokeParams) (wire.RuleResult, error)

	// Session resolves a session or mission id (or unique suffix).
	Session(ctx context.Context, id string) (SessionRef, error)
	// History reads the session's log after a cursor (nil: from the start)
	// up to what has been announced, in order, and returns the cursor of
	// the last entry read (the given one if there was none). It stops early,
	// without error, when emit returns false. The data of an entry need only
	// be there until emit returns. A cursor of another log, or one
	// beyond its end, is refused with wire.CodeUnavailable. emit writes to a
	// socket and may block as long as a client likes: hold no lock over it.
	History(ctx context.Context, session string, after *wire.Cursor, emit func(wire.Entry) bool) (wire.Cursor, error)
	BlobRead(ctx context.Context, p wire.BlobReadParams) (wire.BlobReadResult, error)
}

// SessionRef names a session and its mission.
type SessionRef struct {
	Session string
	Mission string
}

// HeartbeatInterval is how often a watching client hears that the service
// lives.
const HeartbeatInterval = 10 * time.Second
