package wire

import (
	"encoding/json"
	"time"
)

// Mission is a mission as clients see it. Times are UTC; RemainingSeconds was
// true when the message was made (clients count down from DeadlineAt).
type Mission struct {
	ID               string     `json:"id"`
	Title            string     `json:"title"`
	Phase            string     `json:"phase"`
	EndReason        string     `json:"end_reason,omitempty"`
	Provider         string     `json:"provider"`
	ProviderPath     string     `json:"provider_path,omitempty"`
	ProviderVersion  string     `json:"provider_version,omitempty"`
	RequestedModel   string     `json:"requested_model"`
	ActualModel      string     `json:"actual_model"`
	Model            string     `json:"model"`
	Endpoint         string     `json:"endpoint"`
	Folder           string     `json:"folder"`
	Scope            string     `json:"scope"`
	Minutes          int        `json:"minutes"`
	Budget           Budget     `json:"budget,omitzero"`
	Limits           Limits     `json:"limits,omitzero"`
	Unasked          []string   `json:"allow_unasked"`
	CreatedAt        time.Time  `json:"created_at"`
	StartedAt        *time.Time `json:"started_at"`
	DeadlineAt       *time.Time `json:"deadline_at"`
	EndedAt          *time.Time `json:"ended_at,omitempty"`
	RemainingSeconds int64      `json:"remaining_seconds"`
	NextTurnAt       *time.Time `json:"next_turn_at,omitempty"`
	// LimitedUntil is when the rate limit ends that the mission waits for, or
	// is blocked by.
	LimitedUntil  *time.Time `json:"limited_until,omitempty"`
	WaitForReset  bool       `json:"wait_for_reset,omitempty"`
	Session       string     `json:"session,omitempty"`
	Attempt       string     `json:"attempt,omitempty"`
	Generation    uint64     `json:"generation,omitempty"`
	Turn          int        `json:"turn"`
	ToolCalls     int        `json:"tool_calls"`
	Activity      *Activity  `json:"activity"`
	Usage         Usage      `json:"usage"`
	Turns         []TurnInfo `json:"turns,omitempty"` // the newest
	Failure       *Failure   `json:"failure"`
	BlockedBy     string     `json:"blocked_by,omitempty"`
	Steering      []Steering `json:"steering"`
	Denials       Denials    `json:"permission_denials"`
	Pending       int        `json:"pending_approvals"`
	Refusals      int        `json:"worker_refusals"`
	ContactKnown  bool       `json:"contact_known"`
	Delivery      int        `json:"delivery"`
	CheckoutOwned bool       `json:"checkout_owned"`
	Recovered     bool       `json:"recovered"`
	// Recovery says what can be done when the guard is not this service's:
	// supervisor_present, approval_required, expired or owner_uncertain.
	// RecoveryRef names exactly the state that a recovery would continue.
	Recovery    string `json:"recovery,omitempty"`
	RecoveryRef string `json:"recovery_ref"`
	LastResult  string `json:"last_result"`
	// Unasked uses, per rule name.
	UnaskedUses map[string]int `json:"unasked_uses,omitempty"`
	// Left names processes that the kernel refused to end.
	Left []string `json:"left,omitempty"`
	// Resources is null until the guard measured something.
	Resources *Resources `json:"resources"`
	// Worktree is null unless the mission has a working tree of its own.
	Worktree *Worktree `json:"worktree"`
	// LostAt is when the worker was found to be gone, for a mission that can
	// be recovered.
	LostAt *time.Time `json:"lost_at,omitempty"`
	// Revision grows with every journaled change of this mission.
	Revision uint64 `json:"revision"`
}

// Activity is what the worker does right now.
type Activity struct {
	Tool   string    `json:"tool"`
	Detail string    `json:"detail,omitempty"`
	At     time.Time `json:"at"`
}

// Usage is what the provider reported; null is unknown.
type Usage struct {
	Provider    string   `json:"provider,omitempty"`
	Model       string   `json:"model,omitempty"`
	ModelSource string   `json:"model_source,omitempty"`
	Semantics   string   `json:"semantics,omitempty"` // includes-cache | uncached
	Input       *int64   `json:"input_tokens"`
	Output      *int64   `json:"output_tokens"`
	CacheRead   *int64   `json:"cache_read_tokens"`
	CacheWrite  *int64   `json:"cache_write_tokens"`
	ModelCalls  *int     `json:"model_calls"`
	ToolCalls   *int     `json:"tool_calls"`
	ToolCounts  string   `json:"tool_counts,omitempty"` // provider-stream | partial
	CostUSD     *float64 `json:"cost_usd"`
	Seconds     float64  `json:"seconds"`
}

// TurnInfo is one turn of a mission.
type TurnInfo struct {
	ID        string     `json:"id"`
	Number    int        `json:"number"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Outcome   string     `json:"outcome,omitempty"`
	Code      string     `json:"code,omitempty"`
	Next      string     `json:"work_next,omitempty"`
	Tools     int        `json:"tools"`
	Usage     Usage      `json:"usage"`
}

// Failure is why the last turn or the start failed. Message is a sentence that
// says what to do.
type Failure struct {
	Stage     string `json:"stage"`
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// Steering is one queued instruction.
type Steering struct {
	ID    int       `json:"id"`
	Text  string    `json:"text"`
	State string    `json:"state"` // received | applied | unconfirmed
	At    time.Time `json:"at"`
	Turn  int       `json:"turn,omitempty"`
}

// Denials counts what a person refused.
type Denials struct {
	Count  int        `json:"count"`
	Tools  []string   `json:"tools"`
	LastAt *time.Time `json:"last_at"`
}

// Approval is a question that only a person may answer. Subject is the exact
// JSON that the digest covers, or a BlobRef when it is over BlobThreshold.
type Approval struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"`
	Mission   string          `json:"mission_id"`
	Title     string          `json:"mission_title"`
	Provider  string          `json:"provider"`
	Folder    string          `json:"folder"`
	Attempt   string          `json:"attempt,omitempty"`
	Turn      string          `json:"turn,omitempty"`
	TurnNo    int             `json:"turn_number,omitempty"`
	Subject   json.RawMessage `json:"subject"`
	Digest    string          `json:"digest"`
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt *time.Time      `json:"expires_at,omitempty"`
	State     string          `json:"state"` // pending | allowed | denied | expired | withdrawn | stale
	Answer    *Answer         `json:"answer,omitempty"`
	// Offers are the rules that an answer may make; none: it counts only once.
	Offers []Offer `json:"offers,omitempty"`
}

// Answer is who or what settled an approval.
type Answer struct {
	At      time.Time `json:"at"`
	Via     string    `json:"via"` // program | rule | deadline | stop | turn
	Program string    `json:"program,omitempty"`
	PID     int       `json:"pid,omitempty"`
	TTY     string    `json:"tty,omitempty"`
	Client  string    `json:"client,omitempty"`
	Rule    string    `json:"rule,omitempty"`
	For     string    `json:"for,omitempty"`
	Pattern string    `json:"pattern,omitempty"`
	Made    string    `json:"rule_made,omitempty"` // id of the rule that it made
	Reason  string    `json:"reason,omitempty"`
	Stop    bool      `json:"stop,omitempty"`
}
