// Package provider is the seam between Reeve and agent programs. An adapter
// translates a program's own protocol into the events and calls below; it
// never decides anything: every permission becomes an event and waits for an
// Answer.
package provider

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"

	"github.com/reevehq/reeve/app/mission"
)

// Provider is one kind of agent program.
type Provider interface {
	// Name is the provider's id in missions: claude, codex or acp:<name>.
	Name() string
	// Title is the name that people see.
	Title() string
	// Capabilities says what the program's protocol can do.
	Capabilities() Capabilities
	// Variables lists the environment variables that the program documents
	// and a mission may pass on.
	Variables() []mission.Variable
	// Probe looks for the program without running a model: env is the
	// proposer's environment (PATH above all).
	Probe(ctx context.Context, env []string) Probe
	// Open starts the program for one mission and begins or resumes its
	// conversation. The returned Conn must be closed.
	Open(ctx context.Context, spec Spec) (Conn, error)
}

// Capabilities of a provider's protocol.
type Capabilities struct {
	Resume    bool // a conversation can be resumed by a new process
	SteerNow  bool // an instruction can reach the running turn
	Usage     bool // tokens are reported
	UsageCost bool // cost is reported
}

// Probe is what was found on this machine. SignedIn is nil when it can't be
// known without running the program. Problem and Fix are sentences.
type Probe struct {
	Found    bool
	Path     string   // absolute path of the executable, links resolved
	Args     []string // arguments that belong to the program itself
	Version  string
	SignedIn *bool
	Endpoint string // the non-default API base URL it would use, or ""
	Problem  string
	Fix      string
	Mode     string   // the session mode that it is put into and held to, or ""
	Fixed    []string // NAME=value that the program gets whatever the proposer has
	Notes    []string // sentences for a person who is to allow a start
}

// Spec is everything an adapter needs to run its program.
type Spec struct {
	Path         string   // executable, as approved
	Args         []string // arguments that belong to the program itself
	Folder       string   // the checkout; the working directory
	Mode         string   // the session mode to put the program into, as approved
	Model        string   // "" is the program's own default
	Endpoint     string   // "" is the program's own default
	Instructions string   // path of the private instruction file
	PrivateDir   string   // private directory for temporary files
	Env          []string // complete environment
	Resume       string   // the program's session id, "" for a new session
	Servers      []Server // the MCP servers that the program gets, and no others
	// Launch starts cmd inside the worker's process tree and records it
	// before the program can do anything. The adapter prepares pipes first
	// and waits for cmd itself.
	Launch func(cmd *exec.Cmd) error
}

// Server is an MCP server that the program starts over stdio. Env holds no
// secrets: programs put it into files and arguments.
type Server struct {
	Name    string
	Command string
	Args    []string
	Env     []string // NAME=value
	// Question is its tool by which the agent asks the person something, "" for
	// none. It gets QuestionsVar where the agent has no way of its own to ask;
	// then the tool runs unasked where that can be had, as all it does is ask.
	Question string
}

// QuestionsVar has a server offer its tool Question. Its value is how many
// seconds a call of it may take; the agent makes it again to go on waiting.
const QuestionsVar = "REEVE_QUESTIONS"

// ErrUnsupported: the provider's protocol has no such verb.
var ErrUnsupported = errors.New("not supported by this provider")

// ErrNoRequest: the permission request is no longer open.
var ErrNoRequest = errors.New("the request is no longer open")

// OpenError is a failure to open that is classified already. Why, if it is not
// empty, tells a person more than the code does; it never holds what the
// program said.
type OpenError struct {
	Code mission.Code
	Err  error
	Why  string
}

func (e *OpenError) Error() string { return e.Err.Error() }
func (e *OpenError) Unwrap() error { return e.Err }

// Conn is a running provider. Its methods may be called from any goroutine.
type Conn interface {
	// Prompt begins a turn. It returns when the program took the prompt;
	// the turn ends with a TurnFinished event. One turn at a time.
	Prompt(ctx context.Context, text string) error
	// Steer adds an instruction to the running turn, or returns
	// ErrUnsupported.
	Steer(ctx context.Context, text string) error
	// Interrupt asks the program to end the turn; TurnFinished follows.
	Interrupt(ctx context.Context) error
	// Answer settles a PermissionRequested. ErrNoRequest when it is gone.
	Answer(ctx context.Context, request string, a Answer) error
	// Events delivers everything in order. The channel is closed after the
	// last event when the program has ended. The reader must not stop
	// reading before that.
	Events() <-chan Event
	// Close ends the program politely: end of input, then it waits until
	// ctx is done. It does not kill; the tree's owner does.
	Close(ctx context.Context) error
}

// Answer is a person's (or a rule's) decision.
type Answer struct {
	Allow   bool
	Message string // why it was denied, for the agent
	Text    string // the answer to a question
}

// Event is one of the structs below.
type Event interface{ event() }

// SessionStarted: the conversation is open.
type SessionStarted struct {
	Session string // the program's own id, for Resume
	Resumed bool
	Model   string
	Version string
}

// Text is a piece of the agent's answer.
type Text struct{ Text string }

// Thought is a piece of the agent's visible reasoning.
type Thought struct{ Text string }

// PlanStep is a step of the agent's own plan.
type PlanStep struct{ Text, Status string }

// Plan is the agent's own list of steps.
type Plan struct{ Steps []PlanStep }

// Tool describes a tool call as the program announced it. Kind is one of
// read, search, edit, execute, fetch, plan, mcp, other.
type Tool struct {
	Call    string
	Name    string
	Server  string // of an MCP tool
	Own     bool   // Server is one of Spec.Servers, and nothing else can stand in its place
	Kind    string
	Title   string
	Command string
	Cwd     string
	Reason  string // the agent's own words
	Paths   []string
	Diff    string
	Input   json.RawMessage
}

// ToolStarted: a tool call was announced.
type ToolStarted struct{ Tool Tool }

// ToolFinished: a tool call ended. Status is ok, failed, denied or cancelled.
type ToolFinished struct {
	Call   string
	Status string
	Output string
	Diff   string
	Exit   *int
}

// PermissionRequested: the program waits for an Answer to Request. Question
// is set when the agent asks the person something.
type PermissionRequested struct {
	Request  string
	Tool     Tool
	Question *Question
}

// Question is something the agent wants to know.
type Question struct {
	Text    string
	Options []string
	Multi   bool
}

// PermissionWithdrawn: the program no longer waits for Request.
type PermissionWithdrawn struct{ Request string }

// UsageReported is usage inside a turn, for this turn so far.
type UsageReported struct{ Usage mission.Usage }

// TurnFinished ends the turn. Final is the agent's last message, from which
// WORK_NEXT is read. Message tells a developer more than the code; it may hold
// raw program output and is never shown as it is.
type TurnFinished struct {
	Outcome mission.TurnOutcome
	Final   string
	Message string
}

// Notice is something worth telling a person.
type Notice struct {
	Level string // info | warning | error
	Text  string
}

func (SessionStarted) event()      {}
func (Text) event()                {}
func (Thought) event()             {}
func (Plan) event()                {}
func (ToolStarted) event()         {}
func (ToolFinished) event()        {}
func (PermissionRequested) event() {}
func (PermissionWithdrawn) event() {}
func (UsageReported) event()       {}
func (TurnFinished) event()        {}
func (Notice) event()              {}
