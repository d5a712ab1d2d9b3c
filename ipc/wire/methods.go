package wire

import (
	"encoding/json"
	"time"
)

// Methods of the service socket.
const (
	MethodNegotiate       = "daemon.negotiate"
	MethodServiceStatus   = "service.status"
	MethodServiceStop     = "service.stop"
	MethodServiceCheck    = "service.check"
	MethodWatch           = "watch"
	MethodUnwatch         = "unwatch"
	MethodMissionCheck    = "mission.check"
	MethodMissionStart    = "mission.start"
	MethodMissionList     = "mission.list"
	MethodMissionGet      = "mission.get"
	MethodMissionSteer    = "mission.steer"
	MethodMissionPause    = "mission.pause"
	MethodMissionResume   = "mission.resume"
	MethodMissionStop     = "mission.stop"
	MethodMissionRecover  = "mission.recover"
	MethodMissionCancel   = "mission.cancel"
	MethodMissionChanges  = "mission.changes"
	MethodMissionWorktree = "mission.worktree"
	MethodApprovalList    = "approval.list"
	MethodApprovalGet     = "approval.get"
	MethodApprovalAnswer  = "approval.answer"
	MethodRuleList        = "rule.list"
	MethodRuleAdd         = "rule.add"
	MethodRuleEdit        = "rule.edit"
	MethodRuleRevoke      = "rule.revoke"
	MethodSessionAttach   = "session.attach"
	MethodSessionDetach   = "session.detach"
	MethodSessionMessages = "session.get_messages"
	MethodBlobRead        = "blob.read"
	MethodProviderList    = "provider.list"
	MethodProviderAdd     = "provider.add"
	MethodProviderRemove  = "provider.remove"
	MethodAuditVerify     = "audit.verify"
	MethodAuditRead       = "audit.read"
)

// NegotiateParams may name the versions a client speaks; empty means 1 and 2.
type NegotiateParams struct {
	Versions []int `json:"versions,omitempty"`
	// Client names the program, for logs and "answered elsewhere" notices.
	Client string `json:"client,omitempty"`
}

// NegotiateResult names this incarnation of the service. Generation, PID and
// StartedAt together identify it.
type NegotiateResult struct {
	ProtocolVersion int       `json:"protocol_version"`
	Generation      uint64    `json:"generation"`
	PID             int       `json:"pid"`
	StartedAt       time.Time `json:"started_at"`
	AppVersion      string    `json:"app_version"`
	Capabilities    []string  `json:"capabilities"`
}

// Service is the state of the service as clients show it.
type Service struct {
	State      string    `json:"state"` // running | updating | stopping | fenced
	Version    string    `json:"version"`
	Generation uint64    `json:"generation"`
	PID        int       `json:"pid"`
	Socket     string    `json:"socket"`
	StateDir   string    `json:"state_dir"`
	StartedAt  time.Time `json:"started_at"`
	Live       int       `json:"live_missions"`
	Pending    int       `json:"pending_approvals"`
	// Notes are sentences about what the start found, such as stopped guards
	// of an earlier service.
	Notes []string `json:"notes,omitempty"`
	// Refusals counts what workers were refused since the start; LastRefusal
	// is the newest.
	Refusals    int      `json:"worker_refusals"`
	LastRefusal *Refusal `json:"last_refusal,omitempty"`
}

// Refusal tells of a worker that tried what only a person may do.
type Refusal struct {
	At      time.Time `json:"at"`
	Method  string    `json:"method"`
	Mission string    `json:"mission_id,omitempty"`
	Program string    `json:"program"`
	PID     int       `json:"pid"`
	Why     string    `json:"why"`
}

// ServiceStopParams ends the service; Workers also ends every guard.
type ServiceStopParams struct {
	Workers bool `json:"workers,omitempty"`
}

// ServiceStopResult says what the stop did.
type ServiceStopResult struct {
	Stopped  int      `json:"stopped_workers"`
	Left     []string `json:"left,omitempty"`
	GoingOn  int      `json:"workers_going_on"`
	Stopping bool     `json:"stopping"`
}

// Check is one finding of doctor.
type Check struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Message string `json:"message"`
	Fix     string `json:"fix"` // "" when there is nothing to do
}

// CheckResult is the answer to service.check.
type CheckResult struct {
	Checks []Check `json:"checks"`
}

// WatchParams subscribes to topics. Cursors holds, per topic, where the client
// left off; Cursor serves a client that watches one topic.
type WatchParams struct {
	Topics  []string          `json:"topics"`
	Cursors map[string]Cursor `json:"cursors,omitempty"`
	Cursor  *Cursor           `json:"cursor,omitempty"`
}

// WatchResult says how each topic begins.
type WatchResult struct {
	Topics []TopicStart `json:"topics"`
}

// TopicStart tells whether what was missed is replayed (complete), or a
// snapshot comes because it can't be (unavailable, with the reason) or because
// no cursor was given (none).
type TopicStart struct {
	Topic  string `json:"topic"`
	Replay string `json:"replay"` // complete | unavailable | none
	Reason string `json:"reason,omitempty"`
}

// UnwatchParams ends subscriptions.
type UnwatchParams struct {
	Topics []string `json:"topics"`
}

// Budget limits a mission; zero means no limit.
type Budget struct {
	Turns   int     `json:"turns,omitempty"`
	Tokens  int64   `json:"tokens,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`
}

// MissionStartParams proposes a mission. Env holds the proposer's own allowed
// variables (PATH first of all); anything outside the allow-list is dropped.
// RequestKey makes a repeat return the first result.
type MissionStartParams struct {
	RequestKey string `json:"request_key,omitempty"`
	Provider   string `json:"provider"`
	Model      string `json:"model,omitempty"`
	Endpoint   string `json:"endpoint,omitempty"`
	Folder     string `json:"folder"`
	Scope      string `json:"scope"`
	Minutes    int    `json:"minutes,omitempty"`
	Budget     Budget `json:"budget,omitzero"`
	Limits     Limits `json:"limits,omitzero"`
	// Worktree gives the mission a working tree of its own, made beside the
	// folder on a branch of its own.
	Worktree bool `json:"worktree,omitempty"`
	// WaitForReset lets the mission wait for the end of a rate limit instead
	// of blocking.
	WaitForReset bool `json:"wait_for_reset,omitempty"`
	// Unasked names the rules for what needs no approval. Null means the
	// default, an empty list that everything is asked.
	Unasked []string          `json:"allow_unasked,omitzero"`
	Env     map[string]string `json:"env,omitempty"`
}

// MissionStartResult is a proposed mission and the approval it waits for.
type MissionStartResult struct {
	Mission  Mission  `json:"mission"`
	Approval Approval `json:"approval"`
}

// MissionCheckResult tells of every rule how the terms stand, for a form that
// checks while a person types.
type MissionCheckResult struct {
	Checks []FieldCheck `json:"checks"`
}

// FieldCheck is a rule about one field.
type FieldCheck struct {
	Field   string `json:"field"`
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// IDParams names one mission or approval by id or unique suffix.
type IDParams struct {
	ID string `json:"id"`
}

// MissionParams names a mission for a mutation.
type MissionParams struct {
	RequestKey string `json:"request_key,omitempty"`
	ID         string `json:"id"`
}

// SteerParams queues an instruction for the next turn.
type SteerParams struct {
	RequestKey string `json:"request_key,omitempty"`
	ID         string `json:"id"`
	Text       string `json:"text"`
}

// RecoverParams asks for a mission whose guard is gone to go on. Ref is the
// mission's recovery_ref; provider, model, scope and folder repeat its terms.
// The deadline stays, so there is no duration. Env is as in MissionStartParams;
// of it are taken only secrets that came with the mission's proposal and that
// the service no longer has.
type RecoverParams struct {
	RequestKey string            `json:"request_key,omitempty"`
	ID         string            `json:"id"`
	Ref        string            `json:"recovery_ref"`
	Provider   string            `json:"provider"`
	Model      string            `json:"model,omitempty"`
	Folder     string            `json:"folder"`
	Scope      string            `json:"scope"`
	Env        map[string]string `json:"env,omitempty"`
}

// MissionResult carries one mission.
type MissionResult struct {
	Mission Mission `json:"mission"`
}

// MissionListParams pages through missions, newest first. Before is the id of
// the last mission of the page before; Limit is at most 200.
type MissionListParams struct {
	Before string `json:"before,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// MissionListResult is a page of missions.
type MissionListResult struct {
	Missions []Mission `json:"missions"`
	More     bool      `json:"more,omitempty"`
}

// ApprovalListParams selects approvals; All includes the answered ones.
type ApprovalListParams struct {
	Mission string `json:"mission_id,omitempty"`
	All     bool   `json:"all,omitempty"`
}

// ApprovalListResult is the queue, oldest first.
type ApprovalListResult struct {
	Approvals []Approval `json:"approvals"`
}

// ApprovalResult carries one approval.
type ApprovalResult struct {
	Approval Approval `json:"approval"`
}

// AnswerParams answers an approval. Digest must repeat the approval's, so that
// nobody answers what they did not see.
type AnswerParams struct {
	RequestKey string `json:"request_key,omitempty"`
	ID         string `json:"id"`
	Digest     string `json:"digest"`
	Allow      bool   `json:"allow"`
	For        string `json:"for,omitempty"` // once | mission | project
	// Pattern is one of the approval's offers, for an answer that makes a rule;
	// empty stands for exactly the request.
	Pattern string `json:"pattern,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Stop    bool   `json:"stop,omitempty"`
	// Text answers a question of the agent.
	Text string `json:"text,omitempty"`
}

// AttachParams attaches to the session of a mission.
type AttachParams struct {
	Session string  `json:"session"`
	Cursor  *Cursor `json:"cursor,omitempty"`
}

// AttachResult says which session was attached.
type AttachResult struct {
	Session string `json:"session"`
	Mission string `json:"mission_id"`
	Replay  string `json:"replay"`
	Reason  string `json:"reason,omitempty"`
}

// DetachParams ends an attachment.
type DetachParams struct {
	Session string `json:"session"`
}

// MessagesParams reads a page of a transcript after a cursor; Limit is at most
// 1,000 entries, and a page ends early before it would outgrow a line.
type MessagesParams struct {
	Session string  `json:"session"`
	After   *Cursor `json:"after,omitempty"`
	Limit   int     `json:"limit,omitempty"`
}

// MessagesResult is a page; Next continues it.
type MessagesResult struct {
	Session string  `json:"session"`
	Entries []Entry `json:"entries"`
	Next    *Cursor `json:"next,omitempty"`
	More    bool    `json:"more"`
}

// BlobReadParams reads up to BlobPiece bytes at Offset.
type BlobReadParams struct {
	Digest string `json:"digest"`
	Offset int64  `json:"offset"`
}

// BlobReadResult is a piece of a blob, base64 in JSON.
type BlobReadResult struct {
	Data  []byte `json:"data"`
	Bytes int64  `json:"bytes"`
	EOF   bool   `json:"eof"`
}

// ProviderListParams probes providers in the proposer's environment.
type ProviderListParams struct {
	Env map[string]string `json:"env,omitempty"`
}

// ProviderListResult is what was found on this machine.
type ProviderListResult struct {
	Providers []Provider `json:"providers"`
	// Problem says why the person's own agents are missing in the list.
	Problem string `json:"problem,omitempty"`
}

// ProviderEntry is an ACP agent of the person's own, as it was written down.
// Fixed are variables with values that are no secrets; Pass names variables of
// the proposer.
type ProviderEntry struct {
	Name    string            `json:"name"`
	Title   string            `json:"title,omitempty"`
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Fixed   map[string]string `json:"fixed,omitempty"`
	Pass    []string          `json:"pass,omitempty"`
	Mode    string            `json:"mode,omitempty"`
}

// ProviderAddParams adds an agent of the person's own, or with Replace changes
// the one of that name. Env is the proposer's environment, in which the agent is
// looked for.
type ProviderAddParams struct {
	RequestKey string `json:"request_key,omitempty"`
	ProviderEntry
	Replace bool              `json:"replace,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// ProviderRemoveParams removes one.
type ProviderRemoveParams struct {
	RequestKey string `json:"request_key,omitempty"`
	Name       string `json:"name"`
}

// ProviderResult carries one agent.
type ProviderResult struct {
	Provider Provider `json:"provider"`
}

// Provider is one agent program as found. SignedIn is null when that can't be
// known without running it.
type Provider struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Own   bool   `json:"own,omitempty"` // added by the person
	// Entry is how an agent of the person's own was written down.
	Entry    *ProviderEntry `json:"entry,omitempty"`
	Found    bool           `json:"found"`
	Path     string         `json:"path,omitempty"`
	Version  string         `json:"version,omitempty"`
	SignedIn *bool          `json:"signed_in"`
	Endpoint string         `json:"endpoint"`
	Problem  string         `json:"problem,omitempty"`
	Fix      string         `json:"fix,omitempty"`
}

// AuditVerifyResult tells whether the audit chain is whole.
type AuditVerifyResult struct {
	Entries  uint64 `json:"entries"`
	Head     string `json:"head"`
	OK       bool   `json:"ok"`
	BrokenAt uint64 `json:"broken_at,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// AuditReadParams reads a page of the audit log after the entry of that number;
// Limit is at most 1,000 entries, and a page ends early before it would outgrow
// a line.
type AuditReadParams struct {
	After uint64 `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// AuditReadResult is a page; Next continues it. Each entry is an AuditEntry, byte
// for byte as it is stored: its hash is made of these bytes.
type AuditReadResult struct {
	Entries []json.RawMessage `json:"entries"`
	Next    uint64            `json:"next"`
	More    bool              `json:"more"`
}

// AuditEntry is one link of the audit chain. Hash is over Prev and all other
// fields, so whoever has the entries can check them.
type AuditEntry struct {
	Seq      uint64          `json:"seq"`
	Time     time.Time       `json:"time"`
	Kind     string          `json:"kind"`
	Actor    string          `json:"actor,omitempty"`
	Mission  string          `json:"mission,omitempty"`
	Approval string          `json:"approval,omitempty"`
	Text     string          `json:"text,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Prev     string          `json:"prev"`
	Hash     string          `json:"hash"`
}
