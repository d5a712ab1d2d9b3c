package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// environment is what a mission takes along of the proposer's environment.
func (a *app) environment() map[string]string {
	env := map[string]string{}
	for _, name := range mission.Variables() {
		if v := a.Getenv(name); v != "" {
			env[name] = v
		}
	}
	return env
}

// proposal is what the flags of start and demo say.
type proposal struct {
	params  wire.MissionStartParams
	unasked string
	propose bool
	wait    bool
	prompts bool
}

func (p *proposal) flags(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&p.params.Minutes, "minutes", mission.DefaultMinutes, "minutes until it is stopped, 15 to 240 in steps of 15")
	f.StringVar(&p.unasked, "allow-unasked", "reads,room", "what runs without asking: reads, edits, plan, room (comma-separated), or none")
	f.IntVar(&p.params.Budget.Turns, "budget-turns", 0, "stop after this many turns (0: no limit)")
	f.Int64Var(&p.params.Budget.Tokens, "budget-tokens", 0, "stop after this many tokens (0: no limit)")
	f.Float64Var(&p.params.Budget.CostUSD, "budget-usd", 0, "stop after this much, in US dollars (0: no limit)")
	f.Var((*memorySize)(&p.params.Limits.MemoryMB), "memory-limit", "end a turn whose processes use more memory, like 512M or 4G (default: three quarters of the machine's)")
	f.Int64Var(&p.params.Limits.CPUMinutes, "cpu-minutes", 0, "stop after this much processor time of all its processes (0: no limit)")
	f.BoolVar(&p.params.WaitForReset, "wait-for-limits", false, "wait for the end of a rate limit, inside the mission's time (default: it blocks)")
	f.BoolVar(&p.propose, "propose", false, "only propose: do not ask here")
	f.BoolVar(&p.wait, "wait", false, "follow the mission until it ends")
	f.BoolVar(&p.prompts, "show-prompts", false, "show what the agent will be told, whole")
}

// check refuses what the wire can't tell from nothing: a time of zero would be
// the default.
func (p *proposal) check() error {
	if p.params.Minutes != 0 {
		return nil
	}
	bad := mission.CheckMinutes(0)
	return &Failure{Exit: ExitRefused, What: bad.Message, Next: bad.Fix}
}

func (a *app) start() *cobra.Command {
	p := &proposal{}
	c := &cobra.Command{
		Use: "start --provider P --folder DIR --scope TEXT", Short: "Propose a mission, and start it when you allow it",
		Long: `Propose a mission: an agent, a git checkout, what should be done, and for how
long. Nothing runs before you allow it. On a terminal the terms are shown and
the question is asked here; elsewhere it waits in the approvals.`,
		Example: `  reeve start --provider claude --folder . --scope "Fix the flaky date test"
  reeve start --provider claude --folder ~/code/shop --scope - --minutes 120 --wait < scope.txt
  reeve start --provider acp:demo --folder . --scope "Try it" --propose --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			for flag, value := range map[string]string{"provider": p.params.Provider, "scope": p.params.Scope} {
				if value == "" {
					return usage("For example: reeve start --provider claude --folder . --scope \"Fix the flaky date test\".", "`reeve start` needs --%s.", flag)
				}
			}
			if p.params.Scope == "-" {
				text, err := io.ReadAll(io.LimitReader(a.Stdin, 1<<20))
				if err != nil {
					return fmt.Errorf("read the scope from standard input: %w", err)
				}
				p.params.Scope = string(text)
			}
			if err := checkText("scope", p.params.Scope); err != nil {
				return err
			}
			dir, err := filepath.Abs(p.params.Folder)
			if err != nil {
				return fmt.Errorf("find the folder %s: %w", p.params.Folder, err)
			}
			p.params.Folder = dir
			return a.run(c.Context(), p)
		},
	}
	f := c.Flags()
	f.StringVar(&p.params.Provider, "provider", "", "the agent: claude, codex or acp:NAME; 'reeve providers' lists them")
	f.StringVar(&p.params.Folder, "folder", ".", "root of a git checkout")
	f.BoolVar(&p.params.Worktree, "worktree", false, "make a worktree beside the folder, on a branch of its own, and work there")
	f.StringVar(&p.params.Scope, "scope", "", "what should be done, at most 4,000 characters; - reads it from standard input")
	f.StringVar(&p.params.Model, "model", "", "the agent's model (default: its own)")
	f.StringVar(&p.params.Endpoint, "endpoint", "", "the API base URL, where it is not the agent's own")
	p.flags(c)
	return c
}

// demoScope is what the demo agent is asked for.
const demoScope = "Mend the conversion in convert.sh, so that 212 F comes out as 100 C. Run check.sh to see that it holds."

func (a *app) recover() *cobra.Command {
	p := &proposal{}
	c := &cobra.Command{
		Use: "recover ID", Short: "Continue a mission whose worker is gone",
		Long: `Ask to continue a mission whose worker ended without being told to, after a
crash or a restart of the machine. The terms are those you allowed, and the time
runs to the original deadline. The agent is told that its last turn may have
done work that was not recorded.

A key that the mission took from your environment is in memory alone. Where a
restart of the service lost it, it comes from your environment again.`,
		Example: "  reeve recover 3k9x2f\n  reeve recover 3k9x2f --wait",
		Args:    oneID("mission"), ValidArgsFunction: a.completeMissions,
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			m, err := call[wire.MissionResult](ctx, a, wire.MethodMissionGet, wire.IDParams{ID: args[0]})
			if err != nil {
				return err
			}
			// What was asked for, not what the provider made of it.
			ref := m.Mission.RecoveryRef
			if ref == "" {
				ref = "none"
			}
			r, err := call[wire.MissionStartResult](ctx, a, wire.MethodMissionRecover, wire.RecoverParams{
				RequestKey: requestKey(), ID: m.Mission.ID, Ref: ref, Provider: m.Mission.Provider,
				Model: m.Mission.RequestedModel, Folder: m.Mission.Folder, Scope: m.Mission.Scope, Env: a.environment(),
			})
			if err != nil {
				return err
			}
			return a.settle(ctx, p, r)
		},
	}
	f := c.Flags()
	f.BoolVar(&p.propose, "propose", false, "only propose: do not ask here")
	f.BoolVar(&p.wait, "wait", false, "follow the mission until it ends")
	f.BoolVar(&p.prompts, "show-prompts", false, "show what the agent will be told, whole")
	return c
}

func (a *app) demo() *cobra.Command {
	p := &proposal{}
	c := &cobra.Command{
		Use: "demo", Short: "Try Reeve with a sample repository and the built-in demo agent",
		Long: `Make a sample repository and propose a mission in it for the built-in demo
agent. It needs no account and no network: it plans, edits a file and runs a
command, and asks for each.`,
		Example: "  reeve demo\n  reeve demo --folder ~/reeve-demo --wait",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := errors.Join(p.check(), checkText("scope", p.params.Scope)); err != nil {
				return err
			}
			ctx := c.Context()
			// Ask first: a sample without a service would lie around.
			if _, err := call[wire.Service](ctx, a, wire.MethodServiceStatus, nil); err != nil {
				return err
			}
			dir, err := sampleDir(p.params.Folder)
			if err != nil {
				return err
			}
			if err := a.Sample(dir); err != nil {
				return fmt.Errorf("make the sample repository in %s: %w", dir, err)
			}
			fmt.Fprintf(a.human(), "Sample repository: %s\n\n", dir)
			p.params.Folder, p.params.Provider = dir, "acp:demo"
			if p.params.Scope == "" {
				p.params.Scope = demoScope
			}
			return a.run(ctx, p)
		},
	}
	c.Flags().StringVar(&p.params.Folder, "folder", "", "a new or empty directory for it (default: a temporary one)")
	c.Flags().StringVar(&p.params.Scope, "scope", "", "what should be done (default: a small example)")
	p.flags(c)
	c.Flag("minutes").DefValue = "15"
	p.params.Minutes = mission.MinMinutes
	return c
}

func sampleDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "reeve-demo-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", &Failure{Exit: ExitRefused, What: dir + " is not empty.", Next: "Choose a new directory for the sample."}
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// run proposes a mission.
func (a *app) run(ctx context.Context, p *proposal) error {
	rules, err := unasked(p.unasked)
	if err != nil {
		return err
	}
	p.params.Unasked, p.params.Env, p.params.RequestKey = rules, a.environment(), requestKey()
	r, err := call[wire.MissionStartResult](ctx, a, wire.MethodMissionStart, p.params)
	if err != nil {
		return err
	}
	return a.settle(ctx, p, r)
}

// settle has a proposed start or recovery answered here, where a person can be
// asked, and follows the mission where that was wanted.
func (a *app) settle(ctx context.Context, p *proposal, r wire.MissionStartResult) error {
	var err error
	if r.Approval, err = a.getApproval(ctx, r.Approval.ID); err != nil {
		return err
	}
	v := model.NewApproval(r.Approval, a.Getenv("HOME"), a.Now())
	if !p.propose && a.interactive() {
		a.printApproval(a.human(), v, p.prompts)
		answered, err := a.ask(ctx, r.Approval, v, approval.ForOnce, "")
		if err != nil {
			return err
		}
		if answered != nil {
			r.Approval = *answered
		} else {
			fmt.Fprintf(a.human(), "It still waits; nothing was decided. Allow it with: reeve allow %s\n", short(r.Approval.ID))
		}
		if m, err := call[wire.MissionResult](ctx, a, wire.MethodMissionGet, wire.IDParams{ID: r.Mission.ID}); err == nil {
			r.Mission = m.Mission
		}
	} else if !a.json {
		a.printApproval(a.Stdout, v, p.prompts)
		fmt.Fprintf(a.Stdout, "\nNothing runs before you allow it: reeve allow %s\n", short(r.Approval.ID))
	}
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	}
	recovery := r.Approval.Kind == string(approval.MissionRecover)
	if r.Approval.State == string(approval.Denied) {
		what := "You denied the mission; nothing ran."
		if recovery {
			what = "You denied the recovery; the mission stays as it is."
		}
		return &Failure{Exit: ExitDenied, What: what}
	}
	if p.wait {
		return a.waitFor(ctx, r.Mission)
	}
	if r.Approval.State == string(approval.Allowed) {
		done := "Started"
		if recovery {
			done = "Recovered"
		}
		fmt.Fprintf(a.human(), done+". Follow it with: reeve watch %s\n", short(r.Mission.ID))
	}
	return nil
}

func unasked(list string) ([]string, error) {
	out := []string{}
	if strings.TrimSpace(list) == "none" {
		return out, nil
	}
	for rule := range strings.SplitSeq(list, ",") {
		if rule = strings.TrimSpace(rule); rule == "" || rule == "none" {
			return nil, usage("Use reads, edits, plan, room, or none alone.", "--allow-unasked %q is not a list of rules.", list)
		}
		out = append(out, rule)
	}
	return out, nil
}
