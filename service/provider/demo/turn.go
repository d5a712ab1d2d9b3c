package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"
)

// pace is the pause between two steps, so that a person can follow.
const pace = 120 * time.Millisecond

// turn is one turn of the agent.
type turn struct {
	agent   *agent
	ctx     context.Context
	session session
	ask     wish
	plan    []string
	asked   string // the model that answered
	cost    tokens // of its answers

	mu     sync.Mutex // calls may be made at once
	said   string     // since the last tool call
	calls  int
	denied []string // what the person did not allow
}

func (t *turn) update(u sdk.SessionUpdate) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	return t.agent.conn.SessionUpdate(t.ctx, sdk.SessionNotification{SessionId: sdk.SessionId(t.session.ID), Update: u})
}

func (t *turn) say(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	t.mu.Lock()
	t.said += text
	t.mu.Unlock()
	return t.update(sdk.UpdateAgentMessageText(text))
}

func (t *turn) think(text string) error { return t.update(sdk.UpdateAgentThoughtText(text)) }

// step marks the steps before n as done and n as the one in work.
func (t *turn) step(n int) error {
	var list []sdk.PlanEntry
	for i, text := range t.plan {
		e := sdk.PlanEntry{Content: text, Priority: sdk.PlanEntryPriorityMedium, Status: sdk.PlanEntryStatusPending}
		switch {
		case i < n:
			e.Status = sdk.PlanEntryStatusCompleted
		case i == n:
			e.Status = sdk.PlanEntryStatusInProgress
		}
		list = append(list, e)
	}
	if err := t.update(sdk.UpdatePlan(list...)); err != nil {
		return err
	}
	if err := t.listen(false); err != nil {
		return err
	}
	return t.pause(pace)
}

func (t *turn) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}

// tool announces a call, asks for it, and does it when it is allowed. do
// returns the output. The result says whether it was done.
func (t *turn) tool(call sdk.SessionUpdateToolCall, do func() (output string, exit *int, err error)) (string, bool, error) {
	t.mu.Lock()
	t.calls++
	t.said = ""
	call.ToolCallId = sdk.ToolCallId(fmt.Sprintf("%s-%d-%d", t.session.ID[:8], t.session.Turns, t.calls))
	t.mu.Unlock()
	call.Status = sdk.ToolCallStatusPending
	if err := t.update(sdk.SessionUpdate{ToolCall: &call}); err != nil {
		return "", false, err
	}
	answer, err := t.agent.conn.RequestPermission(t.ctx, sdk.RequestPermissionRequest{
		SessionId: sdk.SessionId(t.session.ID),
		ToolCall: sdk.ToolCallUpdate{ToolCallId: call.ToolCallId, Title: &call.Title, Kind: &call.Kind,
			Locations: call.Locations, RawInput: call.RawInput, Content: call.Content},
		Options: []sdk.PermissionOption{
			{OptionId: "allow", Name: "Allow", Kind: sdk.PermissionOptionKindAllowOnce},
			{OptionId: "deny", Name: "Deny", Kind: sdk.PermissionOptionKindRejectOnce},
		},
	})
	switch {
	case err != nil:
		return "", false, err
	case answer.Outcome.Selected == nil:
		// The turn is being cancelled; its context follows.
		<-t.ctx.Done()
		return "", false, t.ctx.Err()
	}
	if chosen := answer.Outcome.Selected; chosen.OptionId != "allow" {
		t.mu.Lock()
		t.denied = append(t.denied, call.Title)
		t.mu.Unlock()
		if err := t.end(call, sdk.ToolCallStatusFailed, "The person denied this.", nil); err != nil {
			return "", false, err
		}
		why := ""
		if s, ok := chosen.Meta["reeve.message"].(string); ok {
			why = " The reason: " + s
		}
		return "", false, t.say("%q was denied, so I leave it and go on with the rest.%s\n", call.Title, why)
	}
	if err := t.update(sdk.UpdateToolCall(call.ToolCallId, sdk.WithUpdateStatus(sdk.ToolCallStatusInProgress))); err != nil {
		return "", false, err
	}
	out, exit, err := do()
	if t.ctx.Err() != nil {
		return "", false, t.ctx.Err()
	}
	if err != nil || (exit != nil && *exit != 0) {
		if err != nil {
			out = err.Error()
		}
		return out, false, t.end(call, sdk.ToolCallStatusFailed, out, exit)
	}
	return out, true, t.end(call, sdk.ToolCallStatusCompleted, out, exit)
}

func (t *turn) end(call sdk.SessionUpdateToolCall, status sdk.ToolCallStatus, out string, exit *int) error {
	opts := []sdk.ToolCallUpdateOpt{sdk.WithUpdateStatus(status)}
	content := []sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(out))}
	for _, c := range call.Content {
		if c.Diff != nil {
			content = append(content, c)
		}
	}
	opts = append(opts, sdk.WithUpdateContent(content))
	if exit != nil {
		opts = append(opts, sdk.WithUpdateRawOutput(map[string]any{"exit_code": *exit}))
	}
	if err := t.update(sdk.UpdateToolCall(call.ToolCallId, opts...)); err != nil {
		return err
	}
	return t.pause(pace)
}

func (t *turn) path(name string) string { return filepath.Join(t.session.Cwd, name) }

// read reads a file of the checkout, after asking.
func (t *turn) read(name string) (string, bool, error) {
	path := t.path(name)
	return t.tool(sdk.SessionUpdateToolCall{
		Title: "Read " + name, Kind: sdk.ToolKindRead,
		Locations: []sdk.ToolCallLocation{{Path: path}}, RawInput: map[string]any{"path": path},
	}, func() (string, *int, error) {
		b, err := os.ReadFile(path)
		return string(b), nil, err
	})
}

// write replaces a file of the checkout, after asking with the whole change.
func (t *turn) write(name, why, text string) (bool, error) {
	path := t.path(name)
	diff := sdk.ToolDiffContent(path, text)
	mode := os.FileMode(0o644)
	if old, err := os.ReadFile(path); err == nil {
		diff = sdk.ToolDiffContent(path, text, string(old))
		if st, err := os.Stat(path); err == nil {
			mode = st.Mode().Perm()
		}
	}
	_, done, err := t.tool(sdk.SessionUpdateToolCall{
		Title: "Edit " + name, Kind: sdk.ToolKindEdit, Content: []sdk.ToolCallContent{diff},
		Locations: []sdk.ToolCallLocation{{Path: path}}, RawInput: map[string]any{"path": path, "description": why},
	}, func() (string, *int, error) {
		return "", nil, os.WriteFile(path, []byte(text), mode)
	})
	return done, err
}

// command runs a program, after asking, without a shell.
func (t *turn) command(why string, args ...string) (string, bool, error) {
	line := strings.Join(args, " ")
	return t.tool(sdk.SessionUpdateToolCall{
		Title: line, Kind: sdk.ToolKindExecute,
		RawInput: map[string]any{"command": line, "cwd": t.session.Cwd, "description": why},
	}, func() (string, *int, error) {
		program := args[0]
		if program == "sh" {
			program = shell()
		}
		cmd := exec.CommandContext(t.ctx, program, args[1:]...)
		cmd.Dir = t.session.Cwd
		cmd.WaitDelay = time.Second // what it left in the background may hold the pipe
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code := exit.ExitCode()
			return string(out), &code, nil
		}
		if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return "", nil, err
		}
		return string(out), new(int), nil
	})
}

// parallel runs commands that it asks for at once.
func (t *turn) parallel(lines ...string) error {
	errs := make([]error, len(lines))
	var wg sync.WaitGroup
	for i, line := range lines {
		if args := strings.Fields(line); len(args) > 0 {
			wg.Go(func() { _, _, errs[i] = t.command("The scope asks for it", args...) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// long is a text of n bytes in one line. Its pieces differ, so that what is lost
// of it is seen.
func long(n int) string {
	b := make([]byte, 0, n+20)
	for i := 0; len(b) < n; i++ {
		b = strconv.AppendInt(append(b, ' '), int64(i), 10)
	}
	return string(b[:n])
}

// eat holds memory until the turn is ended.
func (t *turn) eat(mib int) error {
	held := make([]byte, mib<<20)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	<-t.ctx.Done()
	runtime.KeepAlive(held)
	return t.ctx.Err()
}

// act carries out the directives that replace the usual work.
func (t *turn) act() (acted bool, err error) {
	for _, d := range t.ask.directives {
		if err := t.listen(false); err != nil {
			return acted, err
		}
		n, numbered := strconv.Atoi(d.arg)
		switch d.name {
		case "slow":
			if numbered != nil {
				n = 400
			}
			for i := 1; i <= n && err == nil; i++ {
				if err = t.say("Thinking, step %d. ", i); err == nil {
					err = t.pause(50 * time.Millisecond)
				}
			}
			if err == nil {
				err = t.say("\n")
			}
		case "burst":
			if numbered != nil {
				n = 5000
			}
			for i := 1; i <= n && err == nil; i++ {
				err = t.say("line %d\n", i)
			}
		case "long":
			if numbered != nil {
				n = 20e6
			}
			err = t.say("%s", long(max(n, 0)))
		case "turns": // see run
		case "command":
			if args := strings.Fields(d.arg); len(args) > 0 {
				_, _, err = t.command("The scope asks for it", args...)
			}
		case "parallel":
			err = t.parallel(strings.Split(d.arg, "&&")...)
		case "mcp":
			name, input, _ := strings.Cut(d.arg, " ")
			err = t.mcp(name, input)
		case "spawn":
			_, _, err = t.tool(sdk.SessionUpdateToolCall{Title: "sleep 600 &", Kind: sdk.ToolKindExecute,
				RawInput: map[string]any{"command": "setsid sleep 600 &", "cwd": t.session.Cwd}}, func() (string, *int, error) {
				pid, err := spawn()
				return fmt.Sprintf("pid %d", pid), nil, err
			})
		case "big":
			_, _, err = t.tool(sdk.SessionUpdateToolCall{Title: "Send a report", Kind: sdk.ToolKindOther,
				RawInput: map[string]any{"text": strings.Repeat("All is well. ", 3200) + "Delete everything."}},
				func() (string, *int, error) { return "sent to nobody", nil, nil })
		case "eat-memory":
			if numbered != nil {
				n = 512
			}
			_, _, err = t.tool(sdk.SessionUpdateToolCall{Title: fmt.Sprintf("Hold %d MiB of memory", n), Kind: sdk.ToolKindOther},
				func() (string, *int, error) { return "", nil, t.eat(n) })
		case "model":
			err = t.model(d.arg)
		case "fail":
			err = t.fail(d.arg)
		case "auth":
			return true, sdk.NewAuthRequired(nil)
		case "crash":
			return true, errCrash
		default:
			continue
		}
		acted = true
		if err != nil {
			return acted, err
		}
	}
	return acted, nil
}
