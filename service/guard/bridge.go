package guard

import (
	"cmp"
	"os"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/checkout/contextfile"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/provider"
)

// bridgeServer is the name under which every provider gets Reeve's own MCP
// server.
const bridgeServer = "reeve"

// Prefixes of the variables that tell a bridge for whom it speaks: Reeve's own,
// and those of the letagents bridge, which runs unchanged.
const (
	ourPrefix   = "REEVE_"
	theirPrefix = "LETAGENTS_"
)

// bridge is what the worker's bridges are told of one run of the provider.
type bridge struct {
	wire.Bridge
	entry, attempt string
	turn           string // "" where the provider lives longer than a turn
}

// bridgeOf is the bridge of the run for t, nil for a worker without one.
func (g *guard) bridgeOf(l wire.Launch, t *turn, perTurn bool) *bridge {
	if l.Bridge == nil {
		return nil
	}
	b := &bridge{Bridge: *l.Bridge, entry: g.boot.Mission, attempt: g.boot.Attempt}
	b.Room = cmp.Or(t.p.Room, b.Room)
	if perTurn {
		b.turn = t.p.Turn
	}
	return b
}

// environment is what bridges learn from variables that begin with prefix.
func (b *bridge) environment(prefix string) []string {
	var env []string
	for _, v := range [][2]string{
		{"SUPERVISOR_ENTRY_ID", b.entry},
		{"SUPERVISOR_DAEMON_SOCKET", b.Socket},
		{"SUPERVISOR_WORK_ATTEMPT_ID", b.attempt},
		{"SUPERVISOR_EXECUTION_GENERATION_ID", b.Execution},
		{"SUPERVISOR_PROVIDER_TURN_ID", b.turn},
		{"SUPERVISOR_AGENT_SESSION_ID", b.Session},
		{"SUPERVISOR_ROOM_ID", b.Room},
		{"SUPERVISOR_AGENT_DISPLAY_NAME", b.Name},
		{"SUPERVISOR_PROVIDER", b.Provider},
		{"EXECUTION_PROFILE", "supervised_room_turn"},
		{"SUPERVISED_BOUNDED_TURNS", "1"},
		{"API_URL", b.APIURL},
	} {
		if v[1] != "" {
			env = append(env, prefix+v[0]+"="+v[1])
		}
	}
	return env
}

// server is Reeve's own MCP server. Programs pass theirs only a part of their
// environment, so it gets its variables by itself. The program is the file that
// this process was started from: after an update that is the newer release.
func (b *bridge) server(exe string, marks []string) (provider.Server, error) {
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return provider.Server{}, err
		}
	}
	return provider.Server{
		Name: bridgeServer, Command: exe, Args: []string{"mcp"}, Env: append(b.environment(ourPrefix), marks...), Question: wire.MCPAskQuestion,
	}, nil
}

// marks are the variables by which a worker's processes are known again.
func (g *guard) marks() []string {
	return []string{proc.AttemptVar + "=" + g.boot.Attempt, "REEVE_MISSION=" + g.boot.Mission}
}

// putContext writes the files from which a bridge of Codex learns what Codex does
// not pass on. The mission does without where they can't be written.
func (g *guard) putContext(folder string, b *bridge) {
	if b == nil || b.Provider != "codex" {
		return
	}
	err, ok := beside(folderFor, func() error {
		return contextfile.Write(folder, contextfile.Context{
			Entry: b.entry, Room: b.Room, Attempt: b.attempt, Execution: b.Execution, Session: b.Session, Name: b.Name,
		})
	})
	if !ok {
		err = errFolderSilent
	}
	if err == nil {
		return
	}
	g.logger.Warn("the context of the bridge was not written", "error", err)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.contextTold {
		g.contextTold = true
		g.noticeLocked("warning", "Bridges that others ship for Codex don't find this mission, as the files that tell them of it could not be written: "+short(err.Error(), maxNotice/2)+". Reeve's own tools work.")
	}
}

// dropContext takes those files away; none may be there.
func (g *guard) dropContext() {
	g.mu.Lock()
	l := g.launch
	g.mu.Unlock()
	if l == nil || l.Bridge == nil || l.Bridge.Provider != "codex" {
		return
	}
	err, ok := beside(folderFor, func() error { return contextfile.Remove(l.Folder, g.boot.Attempt) })
	if !ok {
		err = errFolderSilent
	}
	if err != nil {
		g.logger.Warn("the context of the bridge was not removed", "error", err)
	}
}
