package wire

import "time"

// TopicRules can be watched: the snapshot holds every Rule, an EvRule event
// what became of one.
const (
	TopicRules = "rules"
	EvRule     = "rule.changed"
)

// RuleChange tells how a rule is now: it was made, changed or used. Without one
// it is gone. Without an id every rule of the mission is, as that has ended.
type RuleChange struct {
	ID      string `json:"id,omitempty"`
	Mission string `json:"mission_id,omitempty"`
	Rule    *Rule  `json:"rule"`
}

// Rule is a standing answer. Cwd and Files are relative to the checkout, so
// that a rule holds in every worktree of its project.
type Rule struct {
	ID         string     `json:"id"`
	Effect     string     `json:"effect"` // allow | deny
	For        string     `json:"for"`    // mission | project
	Mission    string     `json:"mission_id,omitempty"`
	Project    string     `json:"project,omitempty"`
	Class      string     `json:"class"`
	Tool       string     `json:"tool,omitempty"`
	Server     string     `json:"server,omitempty"`
	Command    string     `json:"command,omitempty"`
	Cwd        string     `json:"cwd,omitempty"`
	Files      []string   `json:"files,omitempty"`
	Pattern    string     `json:"pattern,omitempty"`
	About      string     `json:"about"`
	Sentence   string     `json:"sentence"`
	CreatedAt  time.Time  `json:"created_at"`
	By         string     `json:"by"`
	Approval   string     `json:"approval_id,omitempty"`
	Uses       int        `json:"uses"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

// Offer is a rule that an answer may make beside its being for this once. An
// empty pattern stands for exactly the request.
type Offer struct {
	Pattern  string `json:"pattern"`
	Sentence string `json:"sentence"`
}

// RuleListParams selects rules; empty means all.
type RuleListParams struct {
	Mission string `json:"mission_id,omitempty"`
	Project string `json:"project,omitempty"`
}

// RuleListResult is every rule, oldest first.
type RuleListResult struct {
	Rules []Rule `json:"rules"`
}

// RuleResult carries one rule.
type RuleResult struct {
	Rule Rule `json:"rule"`
}

// RuleAddParams makes a rule by hand: for the mission, or for the project that
// the folder belongs to. About is a command ("npm test", "npm test *") or, of a
// change, a file or a folder with a slash at its end.
type RuleAddParams struct {
	RequestKey string `json:"request_key,omitempty"`
	Effect     string `json:"effect"`
	Mission    string `json:"mission_id,omitempty"`
	Folder     string `json:"folder,omitempty"`
	Change     bool   `json:"change,omitempty"`
	About      string `json:"about"`
}

// RuleEditParams changes a rule's effect, or its pattern to a narrower one.
type RuleEditParams struct {
	RequestKey string `json:"request_key,omitempty"`
	ID         string `json:"id"`
	Effect     string `json:"effect,omitempty"`
	Pattern    string `json:"pattern,omitempty"`
}

// RuleRevokeParams removes a rule.
type RuleRevokeParams struct {
	RequestKey string `json:"request_key,omitempty"`
	ID         string `json:"id"`
}
