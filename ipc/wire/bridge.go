package wire

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// Methods of the supervised bridge: what a worker's own MCP server may ask of
// the service. Their names, params and results are fixed for versions 1 and 2,
// because bridges that others ship speak them. Only workers may call them, and
// only about their own mission. None of their values travels as a blob.
const (
	MethodBindWorker     = "supervisor.bind_worker_session"
	MethodVerifyWorker   = "supervisor.verify_worker_session"
	MethodCheckpoint     = "supervisor.checkpoint_worker_cursor"
	MethodBorrow         = "supervisor.borrow_worker_credential"
	MethodExecuteTool    = "supervisor.execute_bounded_tool"
	MethodPrepareEffect  = "supervisor.prepare_bounded_effect"
	MethodCompleteEffect = "supervisor.complete_bounded_effect"
)

// Coordinates say for whom a bridge speaks: the mission, its attempt and the
// attempt's execution generation. Turn is empty where the bridge lives longer
// than one turn; the turn in flight counts then.
type Coordinates struct {
	Entry     string `json:"entry_id"`
	Attempt   string `json:"work_attempt_id"`
	Execution string `json:"execution_generation_id"`
	Turn      string `json:"provider_turn_id,omitempty"`
}

// Where returns the coordinates; whatever embeds them has it.
func (c Coordinates) Where() Coordinates { return c }

// WorkerSession is the agent session that a bridge holds in a room. Token is
// the session's own bearer, APIURL where it counts; it is compared by origin.
type WorkerSession struct {
	Room    string `json:"room_id"`
	Session string `json:"agent_session_id"`
	Token   string `json:"agent_session_token"`
	APIURL  string `json:"api_url"`
}

// BindParams binds an agent session to a worker, or verifies the binding.
type BindParams struct {
	Coordinates
	WorkerSession
}

// BindResult confirms a binding.
type BindResult struct {
	Bound   bool   `json:"bound"`
	Entry   string `json:"entry_id"`
	Session string `json:"agent_session_id"`
}

// CheckpointParams records how far the agent has read its room: Cursor is
// msg_<n>.
type CheckpointParams struct {
	Coordinates
	Session string `json:"agent_session_id"`
	Cursor  string `json:"room_cursor"`
}

// CheckpointResult tells the cursor that counts, which never moves back.
type CheckpointResult struct {
	Cursor string `json:"room_cursor"`
}

// BorrowParams asks for the credential of a session.
type BorrowParams struct {
	Coordinates
	Room       string `json:"room_id"`
	Session    string `json:"agent_session_id"`
	Generation uint64 `json:"daemon_generation"`
	APIURL     string `json:"api_url"`
}

// States of a BorrowResult. Deferred means that nothing is in memory yet: wait
// and keep the inbox. Everything else is stale.
const (
	BorrowAvailable = "available"
	BorrowDeferred  = "deferred"
	BorrowStale     = "stale"
)

// BorrowResult lends a bearer, for exactly what was asked.
type BorrowResult struct {
	Status     string `json:"status"`
	Credential string `json:"credential,omitempty"`
}

// MCPRequestID is the id of the MCP request behind a tool call: a string, or a
// number as JSON-RPC allows.
type MCPRequestID string

// UnmarshalJSON takes a string or an integer.
func (id *MCPRequestID) UnmarshalJSON(b []byte) error {
	var n json.Number
	if len(b) > 0 && b[0] != '"' && json.Unmarshal(b, &n) == nil && !bytes.ContainsAny(b, ".eE") {
		*id = MCPRequestID(n.String())
		return nil
	}
	return json.Unmarshal(b, (*string)(id))
}

// ToolParams has the service run a tool itself.
type ToolParams struct {
	Coordinates
	Generation uint64          `json:"daemon_generation"`
	RequestID  MCPRequestID    `json:"mcp_request_id"`
	Tool       string          `json:"tool_name"`
	Input      json.RawMessage `json:"input,omitempty"`
}

// ToolResult is what a tool gave, and the room that the service holds for the
// worker.
type ToolResult struct {
	Room   string          `json:"room_id"`
	Result json.RawMessage `json:"result"`
}

// PrepareParams announces an effect before it happens. Mutation is false for a
// tool that only reads.
type PrepareParams struct {
	ToolParams
	Mutation bool `json:"mutation"`
}

// States and actions of a PrepareResult.
const (
	EffectPrepared  = "prepared"
	EffectCompleted = "completed"
	EffectUncertain = "uncertain"

	ActionExecute     = "execute"
	ActionFinalAnswer = "use_final_answer"
	ActionRoomMove    = "room_move_prepared"
)

// PrepareResult says what the bridge is to do. SourceMessage is the message
// that the turn's final answer will answer, Destination where the worker moves
// once that was published. Result is of an effect that is completed already,
// Error tells why one is uncertain.
type PrepareResult struct {
	State         string          `json:"state"`
	Action        string          `json:"action,omitempty"`
	Effect        string          `json:"effect_id,omitempty"`
	Room          string          `json:"room_id"`
	SourceMessage string          `json:"source_message_id,omitempty"`
	Destination   string          `json:"destination_room,omitempty"`
	Result        json.RawMessage `json:"result,omitempty"`
	Error         string          `json:"error,omitempty"`
}

// CompleteParams records how an effect ended: Result when it happened, Error
// when it did not.
type CompleteParams struct {
	Coordinates
	Generation uint64          `json:"daemon_generation"`
	Effect     string          `json:"effect_id"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      string          `json:"error,omitempty"`
}

// CompleteResult confirms that the end of an effect is on record.
type CompleteResult struct {
	Effect string `json:"effect_id"`
	State  string `json:"state"` // of the effect now
	Room   string `json:"room_id"`
}

// Bridge is what the guard tells a worker's bridge, through its environment and
// the context file. It holds no secret.
type Bridge struct {
	Socket    string `json:"socket"`
	Execution string `json:"execution_generation_id"`
	Room      string `json:"room_id"`
	Session   string `json:"agent_session_id"`
	Name      string `json:"agent_display_name"`
	APIURL    string `json:"api_url"`
	// Provider is the agent program as bridges name it: claude-code, codex or
	// the name of an ACP agent.
	Provider string `json:"provider"`
}

// Origin is what API URLs are compared by: scheme, host and port in lower case.
// It is false for one that may not be used: only https is, and http to exactly
// localhost, 127.0.0.1 or ::1; never with a user in it.
func Origin(apiURL string) (string, bool) {
	u, err := url.Parse(apiURL)
	if err != nil || u.User != nil || u.Opaque != "" {
		return "", false
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	switch u.Scheme {
	case "https":
		if host == "" {
			return "", false
		}
		if port == "" {
			port = "443"
		}
	case "http":
		if host != "localhost" && host != "127.0.0.1" && host != "::1" {
			return "", false
		}
		if port == "" {
			port = "80"
		}
	default:
		return "", false
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return u.Scheme + "://" + host + ":" + port, true
}

// Tools that the service runs itself, as reeve mcp offers them.
const (
	MCPGetProject      = "get_project"
	MCPGetUpdates      = "get_updates"
	MCPGetMission      = "get_mission"
	MCPSendMessage     = "send_message"
	MCPCompleteTurn    = "complete_room_turn"
	MCPJoinRoom        = "join_room"
	MCPRecordIntent    = "record_intent"
	MCPRequestApproval = "request_approval"
	MCPAskQuestion     = "ask_question"
	MCPSpawnWorker     = "spawn_worker"
)

// LocalOrigin is the API URL of local rooms. It only names the service: nothing
// listens there.
const LocalOrigin = "http://127.0.0.1:1"
