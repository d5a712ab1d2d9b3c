package server

import (
	"bytes"
	"cmp"
	"context"
	"strings"
	"unicode"

	"github.com/reevehq/reeve/ipc/wire"
)

// bridged is the handler of what a worker's bridge asks. Only a worker of the
// mission that the coordinates name is heard.
func bridged[P interface{ Where() wire.Coordinates }, R any](f func(Backend, context.Context, Actor, P) (R, error), check func(P) *wire.Error) handler[P, R] {
	return func(ctx context.Context, k call, p P) (none R, _ error) {
		if err := k.supervised(ctx, p.Where()); err != nil {
			return none, err
		}
		return act(f, check)(ctx, k, p)
	}
}

func executeTool(ctx context.Context, k call, p wire.ToolParams) (wire.ToolResult, error) {
	return bridged(func(b Backend, _ context.Context, a Actor, p wire.ToolParams) (wire.ToolResult, error) {
		return b.ExecuteTool(k.c.ctx, a, p)
	}, checkTool)(ctx, k, p)
}

// supervised refuses whoever is no worker of the mission that it speaks for.
func (k call) supervised(ctx context.Context, c wire.Coordinates) error {
	switch {
	case !k.actor.Worker:
		return wire.Errorf(wire.CodeConflict, "not_supervised: this is for the bridge of a worker, and this program is none. Use reeve room and reeve effects.")
	case c.Entry == "":
		return need("entry_id", c.Entry)
	case !k.actor.owns(c.Entry):
		k.b.Refused(context.WithoutCancel(ctx), k.actor, k.method)
		return wire.Errorf(wire.CodeForbiddenForWorkers, "A worker speaks for its own mission and for no other, and this one could not be shown to belong to that mission.")
	}
	return nil
}

func checkCoordinates(c wire.Coordinates) *wire.Error {
	bad := cmp.Or(need("entry_id", c.Entry), need("work_attempt_id", c.Attempt), need("execution_generation_id", c.Execution))
	if bad == nil && c.Turn != "" {
		bad = need("provider_turn_id", c.Turn)
	}
	return bad
}

// maxRoomID is the most characters of a room's id, maxToken and maxURL the most
// bytes of a session's token and of an API URL.
const (
	maxRoomID = 1024
	maxToken  = 8 << 10
	maxURL    = 2 << 10
)

func checkRoom(field, id string) *wire.Error {
	switch {
	case id == "":
		return wire.InvalidField(field, "is missing or empty")
	case len([]rune(id)) > maxRoomID:
		return wire.InvalidField(field, "is longer than 1,024 characters")
	case strings.ContainsFunc(id, unicode.IsControl):
		return wire.InvalidField(field, "holds a control character")
	}
	return nil
}

func checkAPI(apiURL string) *wire.Error {
	if apiURL == "" {
		return wire.InvalidField("api_url", "is missing or empty")
	}
	if _, ok := wire.Origin(apiURL); !ok || len(apiURL) > maxURL {
		return wire.InvalidField("api_url", "must be https, or http to exactly localhost, 127.0.0.1 or ::1")
	}
	return nil
}

func checkBind(p wire.BindParams) *wire.Error {
	bad := cmp.Or(checkCoordinates(p.Coordinates), checkRoom("room_id", p.Room), need("agent_session_id", p.Session))
	switch {
	case bad != nil:
		return bad
	case p.Token == "":
		return wire.InvalidField("agent_session_token", "is missing or empty")
	case len(p.Token) > maxToken:
		return wire.InvalidField("agent_session_token", "is longer than 8 KiB")
	}
	return checkAPI(p.APIURL)
}

func checkCheckpoint(p wire.CheckpointParams) *wire.Error {
	return cmp.Or(checkCoordinates(p.Coordinates), need("agent_session_id", p.Session), need("room_cursor", p.Cursor))
}

func checkBorrow(p wire.BorrowParams) *wire.Error {
	return cmp.Or(checkCoordinates(p.Coordinates), checkRoom("room_id", p.Room), need("agent_session_id", p.Session),
		checkGeneration(p.Generation), checkAPI(p.APIURL))
}

func checkGeneration(g uint64) *wire.Error {
	if g == 0 {
		return wire.InvalidField("daemon_generation", "is missing or 0")
	}
	return nil
}

// maxToolName is the most characters of a tool's name.
const maxToolName = 150

func checkTool(p wire.ToolParams) *wire.Error {
	bad := cmp.Or(checkCoordinates(p.Coordinates), checkGeneration(p.Generation), need("mcp_request_id", string(p.RequestID)))
	outside := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_:.-", r)
	}
	switch input := bytes.TrimSpace(p.Input); {
	case bad != nil:
		return bad
	case p.Tool == "" || len(p.Tool) > maxToolName || strings.ContainsFunc(p.Tool, outside):
		return wire.InvalidField("tool_name", "must be 1 to 150 of the characters A-Z, a-z, 0-9, _, :, . and -")
	case len(input) > 0 && input[0] != '{' && string(input) != "null":
		return wire.InvalidField("input", "must be an object")
	}
	return nil
}

func checkPrepare(p wire.PrepareParams) *wire.Error { return checkTool(p.ToolParams) }

// maxEffectError is the most bytes of a sentence about why an effect failed.
const maxEffectError = 8 << 10

func checkComplete(p wire.CompleteParams) *wire.Error {
	bad := cmp.Or(checkCoordinates(p.Coordinates), checkGeneration(p.Generation), need("effect_id", p.Effect))
	switch {
	case bad != nil:
		return bad
	case p.Error != "" && len(p.Result) > 0 && string(p.Result) != "null":
		return wire.InvalidField("error", "stands beside a result: an effect happened or it did not")
	case len(p.Error) > maxEffectError:
		return wire.InvalidField("error", "is longer than 8 KiB")
	}
	return nil
}
