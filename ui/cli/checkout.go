package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) changes() *cobra.Command {
	var patch bool
	c := &cobra.Command{
		Use: "changes ID [PATH]", Short: "Show what a mission changed in its checkout",
		Long: `Show what changed in a mission's checkout since the mission claimed it. What you
had changed before is not shown. Of a mission that has ended and gave the checkout
back, this is what it left, whatever was changed since.`,
		Example: "  reeve changes 3k9x2f\n  reeve changes 3k9x2f --patch\n  reeve changes 3k9x2f src/parser.go",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return usage("For example: reeve changes 3k9x2f, or reeve changes 3k9x2f src/parser.go.", "`reeve changes` takes a mission's id and at most one path.")
			}
			return nil
		},
		ValidArgsFunction: a.completeMissions,
		RunE: func(c *cobra.Command, args []string) error {
			p := wire.ChangesParams{ID: args[0]}
			if len(args) == 2 {
				p.Path, patch = args[1], true
			}
			r, err := a.readChanges(c.Context(), p)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			a.printChanges(r, patch)
			return nil
		},
	}
	c.Flags().BoolVar(&patch, "patch", false, "show the whole difference")
	return c
}

// readChanges reads what changed, a long patch included.
func (a *app) readChanges(ctx context.Context, p wire.ChangesParams) (wire.ChangesResult, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	c, err := a.dial(ctx)
	if err != nil {
		return wire.ChangesResult{}, err
	}
	defer c.Close()
	r, err := client.Do[wire.ChangesResult](ctx, c, wire.MethodMissionChanges, p)
	if err != nil {
		return r, err
	}
	var ref wire.BlobRef
	if json.Unmarshal(r.Patch, &ref) == nil && ref.Blob != "" {
		r.Patch, err = client.ReadBlob(ctx, c, ref)
	}
	return r, err
}

func (a *app) printChanges(r wire.ChangesResult, patch bool) {
	s := a.style
	files := model.ChangedFiles(r)
	if len(files) == 0 {
		fmt.Fprintln(a.Stdout, "Nothing was changed.")
	}
	var rows [][]cell
	for _, f := range files {
		plus, minus := f.Counts()
		who := cell{}
		if f.NotAgent {
			who = cell{"not by the agent", s.needs}
		}
		rows = append(rows, []cell{plain(f.Letter), plain(f.Name), {plus, s.done}, {minus, s.wrong}, who})
	}
	table(a.Stdout, "", rows)
	if len(files) > 0 {
		n, lines := model.ChangesSummary(r)
		fmt.Fprintln(a.Stdout, s.quiet(strings.TrimSpace(n+" "+lines)))
	}
	if patch {
		var text string
		if err := json.Unmarshal(r.Patch, &text); err == nil && text != "" {
			fmt.Fprintln(a.Stdout)
			for line := range strings.Lines(model.Clean(text)) {
				fmt.Fprintln(a.Stdout, a.diffLine(strings.TrimRight(line, "\n")))
			}
		}
		if r.PatchCut {
			fmt.Fprintln(a.Stdout, s.needs("▲ The rest is too long to be shown; look at single files with `reeve changes ID PATH`."))
		}
	}
}

func (a *app) worktree() *cobra.Command {
	var message, discard string
	c := &cobra.Command{
		Use: "worktree ID [commit|merge|remove]", Short: "See, merge or remove the worktree of a mission",
		Long: `A mission that was started with --worktree worked in a folder of its own, on a
branch of its own. Without an action this says how they stand. After the mission
has ended you can commit what is left to the branch, merge the branch into your
own checkout, or remove the folder. Work that is saved nowhere else is removed
only after you were shown what it is.`,
		Example: `  reeve worktree 3k9x2f
  reeve worktree 3k9x2f commit --message "Port the parser"
  reeve worktree 3k9x2f merge
  reeve worktree 3k9x2f remove`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 && (args[1] == wire.WorktreeCommit || args[1] == wire.WorktreeMerge || args[1] == wire.WorktreeRemove) {
				return nil
			}
			return usage("For example: reeve worktree 3k9x2f merge.", "`reeve worktree` takes a mission's id, and commit, merge or remove.")
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{wire.WorktreeCommit, wire.WorktreeMerge, wire.WorktreeRemove}, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeMissions(c, args, word)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.showWorktree(c.Context(), args[0])
			}
			p := wire.WorktreeParams{RequestKey: requestKey(), ID: args[0], Action: args[1], Message: message, Discard: discard}
			if p.Action == wire.WorktreeCommit && message == "" {
				return usage("For example: reeve worktree 3k9x2f commit --message \"Port the parser\".", "A commit needs --message.")
			}
			r, err := call[wire.WorktreeResult](c.Context(), a, wire.MethodMissionWorktree, p)
			if state, loses := losing(err); loses && p.Action == wire.WorktreeRemove && p.Discard == "" {
				if err = a.askDiscard(err, state); err != nil {
					return err
				}
				p.RequestKey, p.Discard = requestKey(), state.Digest
				r, err = call[wire.WorktreeResult](c.Context(), a, wire.MethodMissionWorktree, p)
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			fmt.Fprintln(a.Stdout, model.Clean(r.Done))
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&message, "message", "m", "", "of the commit")
	f.StringVar(&discard, "discard", "", "remove without asking what the state with this digest would lose")
	return c
}

func (a *app) showWorktree(ctx context.Context, id string) error {
	m, err := call[wire.MissionResult](ctx, a, wire.MethodMissionGet, wire.IDParams{ID: id})
	if err != nil {
		return err
	}
	wt := m.Mission.Worktree
	if wt == nil {
		return &Failure{Exit: ExitRefused, What: "This mission has no worktree of its own.", Next: "Start one with `reeve start --worktree`."}
	}
	var state *wire.WorktreeState
	if wt.State == "made" {
		r, err := a.readChanges(ctx, wire.ChangesParams{ID: m.Mission.ID})
		if err != nil {
			return err
		}
		state = r.Worktree
	}
	if a.json {
		return a.printJSON(wire.WorktreeResult{Mission: m.Mission, State: state})
	}
	fmt.Fprintf(a.Stdout, "%s\n", model.Path(wt.Path, a.Getenv("HOME")))
	fmt.Fprintf(a.Stdout, "%s  %s\n", model.Clean(wt.Branch), a.style.quiet(strings.Join(model.WorktreeStanding(*wt, state), ", ")))
	if state != nil {
		a.printLosses(a.Stdout, *state)
	}
	return nil
}

// losing finds in a refusal how the worktree stands, when its removal would
// lose something.
func losing(err error) (wire.WorktreeState, bool) {
	var refused *wire.Error
	var d struct {
		State *wire.WorktreeState `json:"state"`
	}
	if !errors.As(err, &refused) {
		return wire.WorktreeState{}, false
	}
	raw, _ := refused.Details.(json.RawMessage)
	if json.Unmarshal(raw, &d) != nil || d.State == nil {
		return wire.WorktreeState{}, false
	}
	return *d.State, len(model.WorktreeLosses(*d.State)) > 0
}

func (a *app) printLosses(w interface{ Write([]byte) (int, error) }, s wire.WorktreeState) {
	for _, l := range model.WorktreeLosses(s) {
		fmt.Fprintln(w, a.style.needs("▲ "+l.Text))
		for _, f := range l.Files {
			fmt.Fprintln(w, "    "+f)
		}
		if l.More > 0 {
			fmt.Fprintf(w, "    and %d more\n", l.More)
		}
	}
}

// askDiscard shows what a removal would lose and asks; where nobody can be
// asked the refusal stands.
func (a *app) askDiscard(refusal error, s wire.WorktreeState) error {
	if !a.interactive() {
		return refusal
	}
	a.printLosses(a.human(), s)
	fmt.Fprintf(a.human(), "\n%s [y/N] ", a.style.bold("Remove it all the same?"))
	// A key that was pressed before the question was shown answers nothing.
	if f, ok := a.Stdin.(*os.File); ok {
		flush(f)
	}
	line, err := bufio.NewReader(a.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		if err == nil {
			return nil
		}
	}
	return &Failure{Exit: ExitDenied, What: "Nothing was removed."}
}
