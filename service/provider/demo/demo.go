// Package demo is the built-in demo agent: an agent of the Agent Client
// Protocol without a model of its own and without the network. It reads the checkout,
// mends the bug of the sample repository, runs its check, asks before each
// tool, takes what is denied for an answer, and follows simple steering.
//
// Steering of the form "add a line TEXT to FILE" is carried out; any other is
// confirmed. What comes in a running turn is followed before its next step.
//
// Directives in the scope or in the steering make it do other things instead of
// its usual work. They are for tests and for showing Reeve. Each stands on a
// line of its own:
//
//	demo:slow N        say N (default 400) short texts, 50 ms apart
//	demo:burst N       say N (default 5000) lines without a pause
//	demo:long N        say one text of N (default 20 million) bytes without a line's end
//	demo:command LINE  run LINE, split at spaces, after asking
//	demo:parallel LINE && LINE
//	                   run both, after asking for both at once
//	demo:mcp TOOL JSON after asking, call the tool of the session's MCP server that has it
//	demo:spawn         after asking, start a process in a session of its own that outlives the turn
//	demo:big           ask for a tool whose input is 40 KB long, the harm at its end
//	demo:eat-memory N  after asking, hold N (default 512) MiB of memory until the turn is ended
//	demo:model TEXT    ask the mission's endpoint, if it is on this computer, and say its answer
//	demo:fail          fail the turn
//	demo:fail N        fail as if the model service had answered with the status N:
//	                   401, 402, 403, 404, 429, 500 or 529
//	demo:fail N SECS   say also when to ask again
//	demo:fail N once   get over such a failure, and go on
//	demo:fail cut      fail as if the model's answer had been cut off
//	demo:fail refused  fail as if the model service could not be reached
//	demo:auth          fail the turn for want of a sign-in
//	demo:crash         end the program inside the turn
//
// These only change how turns end:
//
//	demo:two-turns     leave the check to a second turn
//	demo:turns N       do nothing, in N turns one after the other
//	demo:wait          end with waiting until there is steering
package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	sdk "github.com/coder/acp-go-sdk"
)

// errCrash ends the program as demo:crash asks.
var errCrash = errors.New("demo:crash")

// Main serves one client on in and out until in ends or ctx is done. An error
// means that the program should exit as if it had crashed.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	a := &agent{crash: make(chan struct{})}
	defer a.servers.close()
	a.conn = sdk.NewAgentSideConnection(a, out, in)
	a.conn.SetLogger(slog.New(slog.DiscardHandler))
	select {
	case <-a.conn.Done():
	case <-ctx.Done():
		return ctx.Err()
	case <-a.crash:
		return errCrash
	}
	a.turns.Wait()
	return nil
}

// session is what survives the program.
type session struct {
	ID    string `json:"id"`
	Cwd   string `json:"cwd"`
	Turns int    `json:"turns"`
	Last  string `json:"last"` // what it said last
}

type agent struct {
	conn    *sdk.AgentSideConnection
	turns   sync.WaitGroup
	once    sync.Once
	crash   chan struct{}
	servers servers
	inbox   inbox

	mu      sync.Mutex
	current session
}

// Initialize implements sdk.Agent.
func (a *agent) Initialize(context.Context, sdk.InitializeRequest) (sdk.InitializeResponse, error) {
	title := "Demo agent"
	return sdk.InitializeResponse{
		Meta:              map[string]any{"reeve.message": true}, // it reads the reason of a denial there
		ProtocolVersion:   sdk.ProtocolVersionNumber,
		AgentInfo:         &sdk.Implementation{Name: "reeve-demo", Title: &title, Version: "1"},
		AgentCapabilities: sdk.AgentCapabilities{LoadSession: true},
		AuthMethods:       []sdk.AuthMethod{},
	}, nil
}

// NewSession implements sdk.Agent.
func (a *agent) NewSession(_ context.Context, r sdk.NewSessionRequest) (sdk.NewSessionResponse, error) {
	var b [16]byte
	rand.Read(b[:])
	s := session{ID: hex.EncodeToString(b[:]), Cwd: r.Cwd}
	if err := a.keep(s); err != nil {
		return sdk.NewSessionResponse{}, err
	}
	a.servers.set(r.McpServers)
	return sdk.NewSessionResponse{SessionId: sdk.SessionId(s.ID)}, nil
}

var sessionID = pattern(`^[0-9a-f]{32}$`)

// LoadSession implements sdk.AgentLoader. Like other agents it repeats the
// conversation to its client.
func (a *agent) LoadSession(ctx context.Context, r sdk.LoadSessionRequest) (sdk.LoadSessionResponse, error) {
	missing := &sdk.RequestError{Code: -32002, Message: "Resource not found", Data: map[string]any{"session": r.SessionId}}
	if !sessionID().MatchString(string(r.SessionId)) {
		return sdk.LoadSessionResponse{}, missing
	}
	b, err := os.ReadFile(sessionFile(string(r.SessionId)))
	var s session
	if err != nil || json.Unmarshal(b, &s) != nil {
		return sdk.LoadSessionResponse{}, missing
	}
	s.ID, s.Cwd = string(r.SessionId), r.Cwd
	a.servers.set(r.McpServers)
	a.mu.Lock()
	a.current = s
	a.mu.Unlock()
	if s.Last != "" {
		a.conn.SessionUpdate(ctx, sdk.SessionNotification{SessionId: r.SessionId, Update: sdk.UpdateAgentMessageText(s.Last)})
	}
	return sdk.LoadSessionResponse{}, nil
}

// sessionFile is in the directory for temporary files, which is the mission's
// own where Reeve runs the agent.
func sessionFile(id string) string {
	return filepath.Join(os.TempDir(), "reeve-demo-"+id+".json")
}

// keep makes s the current session and saves it.
func (a *agent) keep(s session) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current = s
	b, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(sessionFile(s.ID), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save the session: %w", err)
	}
	return nil
}

// Prompt implements sdk.Agent.
func (a *agent) Prompt(ctx context.Context, r sdk.PromptRequest) (sdk.PromptResponse, error) {
	a.turns.Add(1)
	defer a.turns.Done()
	a.mu.Lock()
	s := a.current
	a.mu.Unlock()
	if s.ID != string(r.SessionId) {
		return sdk.PromptResponse{}, sdk.NewInvalidParams(map[string]any{"session": r.SessionId})
	}
	s.Turns++
	if err := a.keep(s); err != nil {
		return sdk.PromptResponse{}, err
	}
	text := ""
	for _, b := range r.Prompt {
		if b.Text != nil {
			text = b.Text.Text // the prompt is the last; the instructions come before
		}
	}
	t := &turn{agent: a, ctx: ctx, session: s, ask: parse(text)}
	a.inbox.begin()
	err := t.run()
	a.inbox.end()
	s.Last = t.said
	if kept := a.keep(s); err == nil {
		err = kept
	}
	switch {
	case errors.Is(err, errCrash):
		a.once.Do(func() { close(a.crash) })
		<-ctx.Done() // no reply any more
		return sdk.PromptResponse{}, err
	case ctx.Err() != nil:
		return sdk.PromptResponse{StopReason: sdk.StopReasonCancelled}, nil
	case err != nil:
		return sdk.PromptResponse{}, err
	}
	return t.told(), nil
}

// Cancel implements sdk.Agent; the connection has ended the turn's context.
func (a *agent) Cancel(context.Context, sdk.CancelNotification) error { return nil }

// Authenticate implements sdk.Agent.
func (a *agent) Authenticate(context.Context, sdk.AuthenticateRequest) (sdk.AuthenticateResponse, error) {
	return sdk.AuthenticateResponse{}, nil
}

// CloseSession implements sdk.Agent.
func (a *agent) CloseSession(context.Context, sdk.CloseSessionRequest) (sdk.CloseSessionResponse, error) {
	return sdk.CloseSessionResponse{}, sdk.NewMethodNotFound(sdk.AgentMethodSessionClose)
}

// ListSessions implements sdk.Agent.
func (a *agent) ListSessions(context.Context, sdk.ListSessionsRequest) (sdk.ListSessionsResponse, error) {
	return sdk.ListSessionsResponse{}, sdk.NewMethodNotFound(sdk.AgentMethodSessionList)
}

// ResumeSession implements sdk.Agent.
func (a *agent) ResumeSession(context.Context, sdk.ResumeSessionRequest) (sdk.ResumeSessionResponse, error) {
	return sdk.ResumeSessionResponse{}, sdk.NewMethodNotFound(sdk.AgentMethodSessionResume)
}

// SetSessionConfigOption implements sdk.Agent.
func (a *agent) SetSessionConfigOption(context.Context, sdk.SetSessionConfigOptionRequest) (sdk.SetSessionConfigOptionResponse, error) {
	return sdk.SetSessionConfigOptionResponse{}, sdk.NewMethodNotFound(sdk.AgentMethodSessionSetConfigOption)
}

// SetSessionMode implements sdk.Agent.
func (a *agent) SetSessionMode(context.Context, sdk.SetSessionModeRequest) (sdk.SetSessionModeResponse, error) {
	return sdk.SetSessionModeResponse{}, sdk.NewMethodNotFound(sdk.AgentMethodSessionSetMode)
}
