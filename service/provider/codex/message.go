package codex

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/reevehq/reeve/service/provider"
)

// message is one line of the program: a request, a notification or a reply.
// Unknown methods and fields are left alone, as each release adds some.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// params is the union of what is read of every notification and request.
type params struct {
	ThreadID  string          `json:"threadId"`
	TurnID    string          `json:"turnId"`
	ItemID    string          `json:"itemId"`
	RequestID json.RawMessage `json:"requestId"`

	Turn  wireTurn `json:"turn"`
	Item  item     `json:"item"`
	Delta string   `json:"delta"`

	TokenUsage tokenUsage `json:"tokenUsage"`
	Plan       []struct {
		Step   string `json:"step"`
		Status string `json:"status"`
	} `json:"plan"`
	Error     *turnError `json:"error"`
	WillRetry bool       `json:"willRetry"`
	ToModel   string     `json:"toModel"`
	Settings  *settings  `json:"threadSettings"`
	Stdin     string     `json:"stdin"`
	Limits    struct {
		Primary   *window `json:"primary"`
		Secondary *window `json:"secondary"`
	} `json:"rateLimits"`

	// Of requests for approval
	Kind      string          `json:"kind"`
	Command   string          `json:"command"`
	Cwd       string          `json:"cwd"`
	Reason    string          `json:"reason"`
	GrantRoot string          `json:"grantRoot"`
	Extra     json.RawMessage `json:"additionalPermissions"`
	Network   json.RawMessage `json:"networkApprovalContext"`

	Questions []question `json:"questions"`
	Changes   []change   `json:"changes"`

	// Of an MCP server that asks
	ServerName string `json:"serverName"`
	Message    string `json:"message"`
	Meta       struct {
		Kind string          `json:"codex_approval_kind"`
		Tool string          `json:"tool_name"`
		Args json.RawMessage `json:"tool_params"`
	} `json:"_meta"`
}

// window is an allowance of the account. ResetsAt is in seconds since 1970.
type window struct {
	Used     float64 `json:"usedPercent"`
	ResetsAt *int64  `json:"resetsAt"`
}

// limitEnds is when the last of the allowances that are used up comes back, zero
// when none is.
func (p params) limitEnds() time.Time {
	var end time.Time
	for _, w := range []*window{p.Limits.Primary, p.Limits.Secondary} {
		if w != nil && w.Used >= 100 && w.ResetsAt != nil {
			if at := time.Unix(*w.ResetsAt, 0).UTC(); at.After(end) {
				end = at
			}
		}
	}
	return end
}

type wireTurn struct {
	ID     string     `json:"id"`
	Status string     `json:"status"`
	Error  *turnError `json:"error"`
}

type item struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status"`

	Text    string   `json:"text"`    // agentMessage
	Summary []string `json:"summary"` // reasoning

	Command string  `json:"command"` // commandExecution
	Cwd     string  `json:"cwd"`
	Source  string  `json:"source"`
	Output  *string `json:"aggregatedOutput"`
	Exit    *int    `json:"exitCode"`

	Changes []change `json:"changes"` // fileChange

	Server    string          `json:"server"` // mcpToolCall
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	Error     json.RawMessage `json:"error"`

	Query string `json:"query"` // webSearch
	Path  string `json:"path"`  // imageView
}

type change struct {
	Path string `json:"path"`
	Kind struct {
		Type     string `json:"type"` // add, delete or update
		MovePath string `json:"move_path"`
	} `json:"kind"`
	Diff string `json:"diff"` // of an update; else the whole text
}

type question struct {
	ID      string `json:"id"`
	Text    string `json:"question"`
	Options []struct {
		Label string `json:"label"`
	} `json:"options"`
}

// tokenUsage counts what came from a cache within the input.
type tokenUsage struct {
	Total tokens `json:"total"` // of the whole thread, its earlier processes included
	Last  tokens `json:"last"`  // of the last model call
}

type tokens struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	CacheRead  int64 `json:"cachedInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
}

func (t tokens) minus(o tokens) tokens {
	return tokens{t.Input - o.Input, t.Output - o.Output, t.CacheRead - o.CacheRead, t.CacheWrite - o.CacheWrite}
}

// settings are what a thread works under.
type settings struct {
	Policy   json.RawMessage `json:"approvalPolicy"`
	Reviewer string          `json:"approvalsReviewer"`
	// A reply calls it sandbox, a notification sandboxPolicy.
	Sandbox       sandbox `json:"sandbox"`
	SandboxPolicy sandbox `json:"sandboxPolicy"`
}

type sandbox struct {
	Type string `json:"type"`
}

// unsafe says why under these settings an action could go unasked, or "".
func (s settings) unsafe() string {
	box := s.Sandbox.Type + s.SandboxPolicy.Type
	switch {
	case string(s.Policy) != `"`+policy+`"`:
		return fmt.Sprintf("its approval policy is %s, not %q", s.Policy, policy)
	case s.Reviewer != reviewer:
		return fmt.Sprintf("its approvals are reviewed by %q, not by a person", s.Reviewer)
	case box != "workspaceWrite" && box != "readOnly":
		return fmt.Sprintf("its sandbox is %q", box)
	}
	return ""
}

// started is the reply to thread/start and thread/resume.
type started struct {
	Thread struct {
		ID      string `json:"id"`
		Version string `json:"cliVersion"`
	} `json:"thread"`
	Model string `json:"model"`
	settings
}

// account is the reply to account/read.
type account struct {
	Account json.RawMessage `json:"account"`
	Needed  bool            `json:"requiresOpenaiAuth"`
}

// configuration is the reply to config/read.
type configuration struct {
	Config struct {
		MCP map[string]json.RawMessage `json:"mcp_servers"`
	} `json:"config"`
	Layers []struct {
		Name struct {
			Type string `json:"type"`
		} `json:"name"`
		Config   map[string]json.RawMessage `json:"config"`
		Disabled string                     `json:"disabledReason"`
	} `json:"layers"`
}

// unsafe says what of the configuration nobody approved, or "". Its user layer is
// the private home.
func (c configuration) unsafe(handed []provider.Server) string {
	if server := otherServers(c.Config.MCP, handed); server != "" {
		return fmt.Sprintf("it would start the MCP server %q", server)
	}
	for _, l := range c.Layers {
		switch {
		case l.Disabled != "" || len(l.Config) == 0:
		case l.Name.Type == "project":
			return "it takes configuration from the repository"
		case (l.Config["mcp_servers"] != nil || l.Config["hooks"] != nil) && l.Name.Type != "user":
			return "this machine's own configuration of Codex starts programs"
		}
	}
	return ""
}

// parse reads one line. Lines that are no JSON object are errors.
func parse(line []byte) (message, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("read a message of Codex: %w", err)
	}
	return m, nil
}

// read decodes the params of a method that is known.
func (m message) read() (params, error) {
	var p params
	err := json.Unmarshal(m.Params, &p)
	return p, err
}
