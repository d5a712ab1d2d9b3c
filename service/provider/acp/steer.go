package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/service/provider"
)

// steerMethod is an extension of some agents; the protocol has no such verb.
const steerMethod = "_session/steering"

// Steer implements provider.Conn. An agent that has finished meanwhile is not to
// begin a turn of its own.
func (c *conn) Steer(ctx context.Context, text string) error {
	if !c.agent.steers {
		return provider.ErrUnsupported
	}
	if c.current() == nil {
		return errNoTurn
	}
	raw, err := request(ctx, c, func(ctx context.Context, q map[string]any) (json.RawMessage, error) {
		return c.rpc.CallExtension(ctx, steerMethod, q)
	}, map[string]any{"sessionId": c.session, "prompt": []sdk.ContentBlock{sdk.TextBlock(text)},
		"_meta": map[string]any{"steering": map[string]any{"idleBehavior": "promptRequired"}}})
	if err != nil {
		return fmt.Errorf("steer the agent: %w", err)
	}
	var said struct{ Outcome string }
	if err := json.Unmarshal(raw, &said); err != nil || said.Outcome != "injected" {
		return errors.New("the agent took no instruction into this turn")
	}
	return nil
}
