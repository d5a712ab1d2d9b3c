package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) rules() *cobra.Command {
	list := func(c *cobra.Command, _ []string) error {
		r, err := call[wire.RuleListResult](c.Context(), a, wire.MethodRuleList, wire.RuleListParams{})
		if err != nil {
			return err
		}
		if a.json {
			if r.Rules == nil {
				r.Rules = []wire.Rule{}
			}
			return a.printJSON(r)
		}
		a.listRules(r.Rules)
		return nil
	}
	c := &cobra.Command{
		Use: "rules", Short: "See and change what is answered for you",
		Long: `List the rules that your answers made: what is allowed or denied without asking
again, until a mission ends or always in a project. Deny beats allow, and the
narrowest rule decides. Each use is in the audit log.`,
		Example: "  reeve rules\n  reeve rules revoke 7h2m4q\n  reeve rules add deny \"git push *\" --folder .\n  reeve rules edit 7h2m4q --effect deny",
		Args:    noArgs, RunE: list,
	}
	c.AddCommand(&cobra.Command{Use: "list", Short: "List the rules", Long: "List the rules, oldest first, as `reeve rules` does.",
		Example: "  reeve rules list --json", Args: noArgs, RunE: list}, a.ruleRevoke(), a.ruleAdd(), a.ruleEdit())
	return c
}

func (a *app) listRules(list []wire.Rule) {
	if len(list) == 0 {
		fmt.Fprintln(a.Stdout, "There are no rules: everything is asked, except what each mission was allowed at its start.")
		return
	}
	var ids []string
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	now, home := a.Now(), a.Getenv("HOME")
	var rows [][]cell
	for _, r := range list {
		effect := cell{model.Clean(r.Effect), a.style.done}
		if r.Effect == string(approval.Deny) {
			effect.paint = a.style.wrong
		}
		where := "this mission " + model.Clean(r.Mission)
		if r.For == approval.ForProject {
			where = "project " + model.Path(r.Project, home)
		}
		used := "never used"
		if r.LastUsedAt != nil {
			used = model.Count(r.Uses, "use", "uses") + ", last " + model.Clock(*r.LastUsedAt, now)
		}
		rows = append(rows, []cell{{model.ShortID(r.ID, ids), a.style.quiet}, effect, plain(clip(approval.Visible(r.About).Plain(), 60)),
			{used, a.style.quiet}, plain(where)})
	}
	table(a.Stdout, "", rows)
}

func (a *app) ruled(r wire.RuleResult, done string) error {
	if a.json {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.Stdout, "%s: %s, %s.\n", done, model.RuleLine(r.Rule), model.Reach(r.Rule.For))
	return nil
}

func (a *app) ruleRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Remove a rule", Long: "Remove a rule. It takes effect at once: what is asked from then on is not decided by it.",
		Example: "  reeve rules revoke 7h2m4q", Args: oneID("rule"),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := call[wire.RuleResult](c.Context(), a, wire.MethodRuleRevoke, wire.RuleRevokeParams{RequestKey: requestKey(), ID: args[0]})
			if err != nil {
				return err
			}
			return a.ruled(r, "Revoked")
		},
	}
}

func (a *app) ruleAdd() *cobra.Command {
	var mission, folder string
	var change bool
	c := &cobra.Command{
		Use: "add allow|deny TEXT", Short: "Make a rule by hand",
		Long: `Make a rule that no request stands behind. TEXT is a command, which has to be
asked for word for word in the root of the checkout, or one that ends with a star,
which then stands for any further plain words ("npm test *"). What may be allowed
with a star is a short list; anything may be denied. With --change TEXT is a file
or, with a slash at its end, a folder of the checkout.`,
		Example: "  reeve rules add allow \"npm test *\" --folder .\n  reeve rules add deny \"git push *\" --folder .\n  reeve rules add allow docs/ --change --mission 4v9x2a",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] != string(approval.Allow) && args[0] != string(approval.Deny) {
				return usage("Run `reeve rules add --help`.", "`reeve rules add` takes allow or deny, and what the rule is about.")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if (mission == "") == (folder == "") {
				return usage("Give --folder of a checkout for its project, or --mission.", "It is not clear how far the rule reaches.")
			}
			if err := checkText("rule", args[1]); err != nil {
				return err
			}
			if folder != "" {
				var err error
				if folder, err = filepath.Abs(folder); err != nil {
					return err
				}
			}
			r, err := call[wire.RuleResult](c.Context(), a, wire.MethodRuleAdd, wire.RuleAddParams{
				RequestKey: requestKey(), Effect: args[0], Mission: mission, Folder: folder, Change: change, About: args[1]})
			if err != nil {
				return err
			}
			return a.ruled(r, "Made")
		},
	}
	f := c.Flags()
	f.StringVar(&mission, "mission", "", "until this mission ends")
	f.StringVar(&folder, "folder", "", "always in the project of this checkout")
	f.BoolVar(&change, "change", false, "about changes of a file or folder, not a command")
	return c
}

func (a *app) ruleEdit() *cobra.Command {
	var effect, pattern string
	c := &cobra.Command{
		Use: "edit ID", Short: "Make a rule narrower, or turn it round",
		Long:    "Give a rule a narrower pattern or the other effect. For more than it stands for now, make another one.",
		Example: "  reeve rules edit 7h2m4q --pattern \"npm test unit *\"\n  reeve rules edit 7h2m4q --effect deny", Args: oneID("rule"),
		RunE: func(c *cobra.Command, args []string) error {
			if effect == "" && pattern == "" {
				return usage("Give --effect or --pattern.", "Nothing is to be changed.")
			}
			r, err := call[wire.RuleResult](c.Context(), a, wire.MethodRuleEdit, wire.RuleEditParams{RequestKey: requestKey(), ID: args[0], Effect: effect, Pattern: pattern})
			if err != nil {
				return err
			}
			return a.ruled(r, "Changed")
		},
	}
	c.Flags().StringVar(&effect, "effect", "", "allow or deny")
	c.Flags().StringVar(&pattern, "pattern", "", "a pattern that stands for less")
	return c
}

// checkReach refuses a --for that is not known, and a pattern without one.
func checkReach(reach, pattern string) error {
	switch {
	case !slices.Contains([]string{approval.ForOnce, approval.ForMission, approval.ForProject}, reach):
		return usage("Use --for once, mission or project.", "--for %q is not known.", reach)
	case pattern != "" && reach == approval.ForOnce:
		return usage("Add --for mission or --for project.", "A pattern is for more than once.")
	}
	return nil
}

// printOffers shows what else can be answered beside yes and no, with the word
// to type for each.
func (a *app) printOffers(v model.Approval) {
	if len(v.Offers) == 0 {
		return
	}
	fmt.Fprintln(a.human(), "\n"+a.style.quiet("Other answers (a d before it denies):"))
	var rows [][]cell
	for i, o := range v.Offers {
		what := o.Sentence
		if o.Pattern != "" {
			what = o.Shown + ": " + o.Sentence
		}
		for _, reach := range []string{approval.ForMission, approval.ForProject} {
			rows = append(rows, []cell{plain(offerKey(reach, i)), plain("allow, " + model.Reach(reach)), plain(what)})
		}
	}
	table(a.human(), "  ", rows)
}

func offerKey(reach string, i int) string {
	if i == 0 {
		return reach[:1]
	}
	return fmt.Sprint(reach[:1], i)
}

// offerOf finds the offer that a person typed.
func offerOf(v model.Approval, typed string) (allow bool, reach, pattern string, ok bool) {
	typed, denies := strings.CutPrefix(typed, "d")
	for i, o := range v.Offers {
		for _, reach := range []string{approval.ForMission, approval.ForProject} {
			if typed == offerKey(reach, i) {
				return !denies, reach, o.Pattern, true
			}
		}
	}
	return false, "", "", false
}
