package acp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
)

// modeOption is the name of the option that stands for the mode where an agent
// has options instead of modes.
const modeOption = "mode"

// option finds a choice by its name.
func option(options []sdk.SessionConfigOption, name string) *sdk.SessionConfigOptionSelect {
	for _, o := range options {
		if o.Select != nil && string(o.Select.Id) == name {
			return o.Select
		}
	}
	return nil
}

// offers says whether a choice has a value.
func offers(o *sdk.SessionConfigOptionSelect, value string) bool {
	if o.Options.Ungrouped != nil {
		for _, v := range *o.Options.Ungrouped {
			if string(v.Value) == value {
				return true
			}
		}
	}
	if o.Options.Grouped != nil {
		for _, g := range *o.Options.Grouped {
			for _, v := range g.Options {
				if string(v.Value) == value {
					return true
				}
			}
		}
	}
	return false
}

// enterMode puts the session into its mode and holds it there: an agent that
// leaves it is ended. One that can't be put there is not run at all.
func (c *conn) enterMode(ctx context.Context, modes *sdk.SessionModeState, options []sdk.SessionConfigOption) error {
	if c.agent.presets {
		return c.checkPresets(modes != nil || option(options, modeOption) != nil)
	}
	mode := c.spec.Mode
	if mode == "" {
		return nil
	}
	refuse := func(err error) error {
		return &provider.OpenError{Code: mission.PermissionRequired, Err: err, Why: fmt.Sprintf(
			"The agent could not be put into its mode %q, in which it asks, so nothing was run. Install the release of it that has this mode, or change its entry; then resume the mission.", mode)}
	}
	o := option(options, modeOption)
	switch {
	case modes != nil:
		if !slices.ContainsFunc(modes.AvailableModes, func(m sdk.SessionMode) bool { return string(m.Id) == mode }) {
			return refuse(fmt.Errorf("it has no mode %q", mode))
		}
		if string(modes.CurrentModeId) == mode {
			break
		}
		_, err := request(ctx, c, c.rpc.SetSessionMode, sdk.SetSessionModeRequest{SessionId: c.session, ModeId: sdk.SessionModeId(mode)})
		if err != nil {
			return refuse(fmt.Errorf("set the mode: %w", err))
		}
	case o != nil:
		if string(o.CurrentValue) == mode {
			break
		}
		if !offers(o, mode) {
			return refuse(fmt.Errorf("it has no mode %q", mode))
		}
		set, err := request(ctx, c, c.rpc.SetSessionConfigOption, sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{
			SessionId: c.session, ConfigId: o.Id, Value: sdk.SessionConfigValueId(mode)}})
		if err != nil {
			return refuse(fmt.Errorf("set the mode: %w", err))
		}
		if now := option(set.ConfigOptions, modeOption); now == nil || string(now.CurrentValue) != mode {
			return refuse(errors.New("it did not take the mode"))
		}
	default:
		return refuse(errors.New("it has no modes"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
	return nil
}

// watchMode ends an agent that leaves its mode.
func (c *conn) watchMode(u sdk.SessionUpdate) {
	now := c.spec.Mode
	switch {
	case u.CurrentModeUpdate != nil:
		now = string(u.CurrentModeUpdate.CurrentModeId)
	case u.ConfigOptionUpdate != nil:
		if o := option(u.ConfigOptionUpdate.ConfigOptions, modeOption); o != nil {
			now = string(o.CurrentValue)
		}
	}
	if now != c.spec.Mode && c.agent.presets {
		c.violate("The agent went into a mode in which it does not ask for everything, so it was ended. Look at the checkout, then resume or stop the mission.")
		return
	}
	if now != c.spec.Mode {
		c.violate(fmt.Sprintf("The agent left its mode %q, in which it asks, so it was ended. Look at the checkout, then resume or stop the mission.", c.spec.Mode))
	}
}

// violate ends the agent because it would run something unseen.
func (c *conn) violate(why string) {
	c.mu.Lock()
	first := c.broken == ""
	if first {
		c.broken = why
	}
	c.mu.Unlock()
	if first {
		c.events.Emit(provider.Notice{Level: "error", Text: why})
		c.p.Kill()
	}
}

// chooseModel asks for the mission's model, in the way that the agent has.
func (c *conn) chooseModel(ctx context.Context, models *sdk.SessionModelState, options []sdk.SessionConfigOption) error {
	model := c.spec.Model
	switch o := option(options, "model"); {
	case model != "":
		c.model, c.modelSource = model, "session-option"
	case models != nil:
		c.model, c.modelSource = string(models.CurrentModelId), "session-option"
	case o != nil:
		c.model, c.modelSource = string(o.CurrentValue), "session-option"
	}
	if model == "" {
		return nil
	}
	var err error
	switch o := option(options, "model"); {
	case models != nil:
		_, err = request(ctx, c, c.rpc.UnstableSetSessionModel, sdk.UnstableSetSessionModelRequest{SessionId: c.session, ModelId: sdk.UnstableModelId(model)})
	case o != nil:
		_, err = request(ctx, c, c.rpc.SetSessionConfigOption, sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{
			SessionId: c.session, ConfigId: o.Id, Value: sdk.SessionConfigValueId(model)}})
	default:
		return &provider.OpenError{Code: mission.LocalExecutionFailure, Err: errors.New("the agent does not let its model be chosen"),
			Why: "The agent does not let its model be chosen; start the mission without a model."}
	}
	if err != nil {
		return openError("choose the model", err, false)
	}
	return nil
}
