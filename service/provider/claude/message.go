package claude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// message is one line of the program's output: the union of what is read of
// every type. Unknown types and fields are left alone, as each release adds
// some.
type message struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	Parent    string `json:"parent_tool_use_id"` // set inside a subagent
	RequestID string `json:"request_id"`

	// control_request, control_response
	Request  request  `json:"request"`
	Response response `json:"response"`

	// system/init, system/status
	PermissionMode string       `json:"permissionMode"`
	MCPServers     []mcpServer  `json:"mcp_servers"`
	Plugins        []pluginInfo `json:"plugins"`
	Model          string       `json:"model"`
	SessionID      string       `json:"session_id"`

	// system/api_retry
	Attempt     int  `json:"attempt"`
	MaxRetries  int  `json:"max_retries"`
	ErrorStatus *int `json:"error_status"`

	// command_lifecycle
	CommandUUID string `json:"command_uuid"`
	State       string `json:"state"`

	// assistant, user, stream_event
	Message    chat            `json:"message"`
	Event      streamEvent     `json:"event"`
	ErrorKind  json.RawMessage `json:"error"`
	ToolResult json.RawMessage `json:"tool_use_result"`
	ToolMeta   []toolMeta      `json:"tool_result_meta"`

	// rate_limit_event
	RateLimit rateLimit `json:"rate_limit_info"`

	// result
	IsError        bool                  `json:"is_error"`
	Result         string                `json:"result"`
	Errors         []string              `json:"errors"`
	TerminalReason string                `json:"terminal_reason"`
	APIStatus      *int                  `json:"api_error_status"`
	Usage          *tokens               `json:"usage"`
	Since          map[string]modelUsage `json:"model_usage_since_last_result"`
}

// rateLimit is what the program knows about a limit of the account. ResetsAt
// is in seconds since 1970.
type rateLimit struct {
	Status   string `json:"status"` // allowed, allowed_warning or rejected
	ResetsAt int64  `json:"resetsAt"`
}

type request struct {
	Subtype   string          `json:"subtype"`
	ToolName  string          `json:"tool_name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
}

// hookInput is Input of a hook_callback.
type hookInput struct {
	Cwd            string `json:"cwd"`
	PermissionMode string `json:"permission_mode"`
}

type response struct {
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	Response  json.RawMessage `json:"response"`
	Error     string          `json:"error"`
}

// initialized is Response of the answer to initialize.
type initialized struct {
	Version string `json:"claude_code_version"`
	Mode    string `json:"current_permission_mode"`
}

type mcpServer struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

type pluginInfo struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

type chat struct {
	ID      string  `json:"id"`
	Model   string  `json:"model"`
	Content content `json:"content"`
	Usage   tokens  `json:"usage"`
}

// content is a list of blocks, or one text.
type content []block

func (c *content) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte(`"`)) {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	var list []block
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*c = list
	return nil
}

func (c content) text() string {
	var b strings.Builder
	for _, x := range c {
		if x.Type == "text" {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(x.Text)
		}
	}
	return b.String()
}

type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`

	ToolUseID string  `json:"tool_use_id"`
	IsError   bool    `json:"is_error"`
	Content   content `json:"content"`
}

type streamEvent struct {
	Type    string  `json:"type"`
	Message chat    `json:"message"`
	Delta   delta   `json:"delta"`
	Usage   *tokens `json:"usage"`
}

type delta struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Thinking string `json:"thinking"`
}

type tokens struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

type modelUsage struct {
	Input      int64    `json:"inputTokens"`
	Output     int64    `json:"outputTokens"`
	CacheRead  int64    `json:"cacheReadInputTokens"`
	CacheWrite int64    `json:"cacheCreationInputTokens"`
	CostUSD    *float64 `json:"costUSD"`
}

type toolMeta struct {
	ID       string `json:"id"`
	Kind     string `json:"non_execution_kind"`
	Decision struct {
		Decision string `json:"decision"`
	} `json:"permission_decision"`
}

// parse reads one line. Lines that are no JSON object are errors.
func parse(line []byte) (message, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("read a message of Claude Code: %w", err)
	}
	return m, nil
}

// errorKind is the error of an assistant message or a retry, where it is one
// word.
func (m message) errorKind() string {
	var s string
	json.Unmarshal(m.ErrorKind, &s)
	return s
}
