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
	// Why tells how a worker was recognised, in plain words.
	Why     string
	Program string // base name of the executable
	PID     int
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
	// Refused records that a worker tried a method that only a person may
	// call.
	Refused(ctx context.Context, a Actor, method string)

	Identity() wire.NegotiateResult
	Status(ctx context.Context) (wire.Service, error)
	Stop(ctx context.Context, a Actor, p wire.ServiceStopParams) (wire.ServiceStopResult, error)
	Check(ctx context.Context) (wire.CheckResult, error)
	AuditVerify(ctx context.Context) (wire.AuditVerifyResult, error)
	ProviderList(ctx context.Context, p wire.ProviderListParams) (wire.ProviderListResult, error)

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

	ApprovalList(ctx context.Context, p wire.ApprovalListParams) (wire.ApprovalListResult, error)
	ApprovalGet(ctx context.Context, p wire.IDParams) (wire.ApprovalResult, error)
	ApprovalAnswer(ctx context.Context, a Actor, p wire.AnswerParams) (wire.ApprovalResult, error)

	// Session resolves a session or mission id (or unique suffix).
	Session(ctx context.Context, id string) (SessionRef, error)
	// History reads the session's log after a cursor (nil: from the start)
	// up to what has been announced, in order, and returns the cursor of
	// the last entry read (the given one if there was none). It stops early,
	// without error, when emit returns false. A cursor of another log, or one
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
