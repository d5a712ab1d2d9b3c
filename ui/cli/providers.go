package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) providers() *cobra.Command {
	c := &cobra.Command{
		Use: "providers", Short: "List the agents that were found, and add your own",
		Long: `List the agents that Reeve can run, as they were found with the PATH of this
terminal, and the API endpoint that each would use. Any agent that speaks the
Agent Client Protocol can be added.`,
		Example: "  reeve providers\n  reeve providers --json\n  reeve providers add my-agent my-agent --acp",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := call[wire.ProviderListResult](c.Context(), a, wire.MethodProviderList, wire.ProviderListParams{Env: a.environment()})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			var rows [][]cell
			for _, p := range r.Providers {
				rows = append(rows, a.providerRow(p))
			}
			table(a.Stdout, "", rows)
			if r.Problem != "" {
				return &Failure{Exit: ExitFailed, What: "Your own agents are missing in this list: " + oneLine(r.Problem) + "."}
			}
			return nil
		},
	}
	c.AddCommand(a.addProvider(), a.removeProvider())
	return c
}

func (a *app) providerRow(p wire.Provider) []cell {
	mark, state := cell{"✓", a.style.done}, "found"
	switch {
	case !p.Found:
		mark, state = cell{"✕", a.style.quiet}, "not found"
	case p.Name == "acp:demo": // has no account
		state = "ready"
	case p.SignedIn != nil && *p.SignedIn:
		state = "signed in"
	case p.SignedIn != nil:
		mark, state = cell{"✕", a.style.needs}, "not signed in"
	case p.Problem != "":
		mark, state = cell{"✕", a.style.needs}, "can't be used"
	}
	what := strings.TrimSpace(oneLine(p.Problem) + " " + oneLine(p.Fix))
	if what == "" {
		what = model.Path(p.Path, a.Getenv("HOME"))
	}
	endpoint := cell{"default endpoint", a.style.quiet}
	if p.Endpoint != "" {
		endpoint = plain(oneLine(p.Endpoint))
	}
	return []cell{mark, plain(oneLine(p.Name)), plain(oneLine(p.Title)), plain(oneLine(p.Version)), plain(state), endpoint, {what, a.style.quiet}}
}

func (a *app) addProvider() *cobra.Command {
	var p wire.ProviderAddParams
	var set []string
	c := &cobra.Command{
		Use: "add NAME COMMAND [ARGS...]", Short: "Add an agent of your own that speaks the Agent Client Protocol",
		Long: `Add an agent of your own: a program that speaks the Agent Client Protocol on its
standard streams. Missions name it acp:NAME. With --mode, Reeve puts each session
into that mode and ends the agent if it leaves it; without, its own settings
decide what it asks for, and the approval says so. Options come before NAME.`,
		Example: `  reeve providers add my-agent my-agent --acp
  reeve providers add --mode default --title "My agent" --pass OPENAI_API_KEY my-agent /opt/my-agent/bin/agent acp`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("For example: reeve providers add my-agent my-agent --acp.", "`reeve providers add` takes a name and a command.")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			p.RequestKey, p.Name, p.Command, p.Args, p.Env = requestKey(), args[0], args[1], args[2:], a.environment()
			for _, kv := range set {
				name, value, ok := strings.Cut(kv, "=")
				if !ok {
					return usage("For example: --set MY_AGENT_MODE=ask.", "--set %q is no NAME=VALUE.", kv)
				}
				if p.Fixed == nil {
					p.Fixed = map[string]string{}
				}
				p.Fixed[name] = value
			}
			r, err := call[wire.ProviderResult](c.Context(), a, wire.MethodProviderAdd, p)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			done := "Added"
			if p.Replace {
				done = "Changed"
			}
			fmt.Fprintf(a.Stdout, "%s %s.\n", done, oneLine(r.Provider.Name))
			if r.Provider.Problem != "" {
				fmt.Fprintln(a.Stdout, strings.TrimSpace(oneLine(r.Provider.Problem)+" "+oneLine(r.Provider.Fix)))
			}
			return nil
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // what follows the command is the agent's
	f.BoolVar(&p.Replace, "replace", false, "change your agent of that name; what is not given anew is gone")
	f.StringVar(&p.Title, "title", "", "what lists call it (default: the name)")
	f.StringVar(&p.Mode, "mode", "", "the session mode that it is put into and held to")
	f.StringArrayVar(&set, "set", nil, "a variable that it always gets, NAME=VALUE; no secrets")
	f.StringArrayVar(&p.Pass, "pass", nil, "a variable of your environment that it gets, such as OPENAI_API_KEY")
	return c
}

func (a *app) removeProvider() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove an agent of your own",
		Long:    "Remove an agent of your own. Missions that run with it go on.",
		Example: "  reeve providers remove my-agent",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("For example: reeve providers remove my-agent.", "`reeve providers remove` takes a name.")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			r, err := call[wire.ProviderResult](c.Context(), a, wire.MethodProviderRemove,
				wire.ProviderRemoveParams{RequestKey: requestKey(), Name: strings.TrimPrefix(args[0], "acp:")})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			fmt.Fprintf(a.Stdout, "Removed %s.\n", oneLine(r.Provider.Name))
			return nil
		},
	}
}
