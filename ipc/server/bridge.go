package server

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/reevehq/reeve/ipc/wire"
)

// bridged is the handler of what a worker's bridge asks. Only a worker of the
// mission that the coordinates name is heard.
func bridged[P interface{ Where() wire.Coordinates }, R any](check func(P) *wire.Error, f func(Backend, context.Context, Actor, P) (R, error)) func(context.Context, call, P) (R, error) {
	return func(ctx context.Context, k call, p P) (R, error) {
		var none R
		if err := k.supervised(ctx, p.Where()); err != nil {
			return none, err
		}
		return checked(check(p), func() (R, error) { return f(k.b, ctx, k.actor, p) })
	}
}

func executeTool(ctx context.Context, k call, p wire.ToolParams) (wire.ToolResult, error) {
	return bridged(checkTool, func(b Backend, _ context.Context, a Actor, p wire.ToolParams) (wire.ToolResult, error) {
		return b.ExecuteTool(k.c.ctx, a, p)
	})(ctx, k, p)
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
	bad := need("entry_id", c.Entry)
	if bad == nil {
		bad = need("work_attempt_id", c.Attempt)
	}
	if bad == nil {
		bad = need("execution_generation_id", c.Execution)
	}
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
	bad := checkCoordinates(p.Coordinates)
	if bad == nil {
		bad = checkRoom("room_id", p.Room)
	}
	if bad == nil {
		bad = need("agent_session_id", p.Session)
	}
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
	bad := checkCoordinates(p.Coordinates)
	if bad == nil {
		bad = need("agent_session_id", p.Session)
	}
	if bad == nil {
		bad = need("room_cursor", p.Cursor)
	}
	return bad
}

func checkBorrow(p wire.BorrowParams) *wire.Error {
	bad := checkCoordinates(p.Coordinates)
	if bad == nil {
		bad = checkRoom("room_id", p.Room)
	}
	if bad == nil {
		bad = need("agent_session_id", p.Session)
	}
	if bad == nil {
		bad = checkGeneration(p.Generation)
	}
	if bad == nil {
		bad = checkAPI(p.APIURL)
	}
	return bad
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
	bad := checkCoordinates(p.Coordinates)
	if bad == nil {
		bad = checkGeneration(p.Generation)
	}
	if bad == nil {
		bad = need("mcp_request_id", string(p.RequestID))
	}
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
	bad := checkCoordinates(p.Coordinates)
	if bad == nil {
		bad = checkGeneration(p.Generation)
	}
	if bad == nil {
		bad = need("effect_id", p.Effect)
	}
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

func roomMessages(ctx context.Context, k call, p wire.RoomMessagesParams) (wire.RoomMessagesResult, error) {
	const most = 200
	bad := need("room", p.Room)
	switch {
	case bad == nil && (p.Limit < 0 || p.Limit > most):
		bad = wire.InvalidField("limit", "must be between 1 and 200, or left out")
	case bad == nil && p.Limit == 0:
		p.Limit = most
	}
	return checked(bad, func() (wire.RoomMessagesResult, error) { return k.b.RoomMessages(ctx, p) })
}

// byRoom is the lane of messages: one for each room, as the client names it.
func byRoom(params json.RawMessage) string {
	var p struct {
		Room string `json:"room"`
	}
	if json.Unmarshal(params, &p) != nil {
		return "" // the handler refuses it
	}
	return "room " + p.Room
}

func roomSend(ctx context.Context, k call, p wire.RoomSendParams) (wire.RoomSendResult, error) {
	bad := need("room", p.Room)
	switch {
	case bad == nil && strings.TrimSpace(p.Text) == "":
		bad = wire.InvalidField("text", "is missing or empty")
	case bad == nil && len(p.Text) > wire.MaxRoomText:
		bad = wire.InvalidField("text", "is longer than 16 KiB")
	}
	return checked(bad, func() (wire.RoomSendResult, error) { return k.b.RoomSend(ctx, k.actor, p) })
}

func effectSettle(ctx context.Context, k call, p wire.EffectSettleParams) (wire.EffectResult, error) {
	bad := need("id", p.ID)
	if bad == nil && p.Revision == 0 {
		bad = wire.InvalidField("revision", "is missing or 0; repeat that of the effect you saw")
	}
	if bad == nil && p.Outcome != wire.EffectHappened && p.Outcome != wire.EffectDidNot && p.Outcome != wire.EffectLeft {
		bad = wire.InvalidField("outcome", "must be happened, did_not or left")
	}
	return checked(bad, func() (wire.EffectResult, error) { return k.b.EffectSettle(ctx, k.actor, p) })
}
