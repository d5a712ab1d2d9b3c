package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// clientName is what the service tells others about who answered.
const clientName = "reeve"

// callLimit bounds one call. Stopping a mission may take the time that its
// processes are given to end.
const callLimit = 60 * time.Second

func (a *app) options() client.Options {
	return client.Options{Client: clientName, Version: a.Version}
}

func (a *app) dial(ctx context.Context) (*client.Client, error) {
	path, err := sock.Path(a.Getenv)
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, path, a.options())
}

// call runs one method on a connection of its own.
func call[R any](ctx context.Context, a *app, method string, params any) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return patientCall[R](ctx, a, method, params)
}

// patientCall is call for as long as ctx allows.
func patientCall[R any](ctx context.Context, a *app, method string, params any) (R, error) {
	c, err := a.dial(ctx)
	if err != nil {
		var none R
		return none, err
	}
	defer c.Close()
	return client.Do[R](ctx, c, method, params)
}

// getApproval reads one approval, its subject whole.
func (a *app) getApproval(ctx context.Context, id string) (wire.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	c, err := a.dial(ctx)
	if err != nil {
		return wire.Approval{}, err
	}
	defer c.Close()
	r, err := client.Do[wire.ApprovalResult](ctx, c, wire.MethodApprovalGet, wire.IDParams{ID: id})
	if err != nil {
		return wire.Approval{}, err
	}
	return whole(ctx, c, r.Approval)
}

// whole reads a subject that travelled apart from its approval.
func whole(ctx context.Context, c *client.Client, ap wire.Approval) (wire.Approval, error) {
	if ref, ok := model.SubjectBlob(ap); ok {
		data, err := client.ReadBlob(ctx, c, ref)
		if err != nil {
			return ap, err
		}
		ap.Subject = json.RawMessage(data)
	}
	return ap, nil
}

// requestKey makes a mutation one that can be repeated without happening twice.
func requestKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// allMissions reads missions newest first: all of them, or the newest page.
func allMissions(ctx context.Context, a *app, all bool) ([]wire.Mission, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	c, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var out []wire.Mission
	for {
		p := wire.MissionListParams{}
		if n := len(out); n > 0 {
			p.Before = out[n-1].ID
		}
		r, err := client.Do[wire.MissionListResult](ctx, c, wire.MethodMissionList, p)
		if err != nil {
			return nil, err
		}
		out = append(out, r.Missions...)
		if !all || !r.More || len(r.Missions) == 0 {
			return out, nil
		}
	}
}

// oneID asks for the one argument that most commands take.
func oneID(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usage("Run `"+c.CommandPath()+" --help`.", "`%s` takes the id of one %s.", c.CommandPath(), what)
		}
		return nil
	}
}

// completeMissions offers the ids of missions, completeApprovals those of
// approvals that wait.
func (a *app) completeMissions(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	missions, err := allMissions(c.Context(), a, false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, m := range missions {
		out = append(out, m.ID+"\t"+model.MissionRow(m, nil, a.Now()).Title)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeApprovals(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	r, err := call[wire.ApprovalListResult](c.Context(), a, wire.MethodApprovalList, wire.ApprovalListParams{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, ap := range r.Approvals {
		out = append(out, ap.ID+"\t"+model.Wants(ap).String())
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
