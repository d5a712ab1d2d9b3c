package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) approvals() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "approvals", Short: "List what waits for your answer",
		Long:    "List what waits for your answer, oldest first. Waiting costs nothing; no answer is never a yes.",
		Example: "  reeve approvals\n  reeve approvals --all --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := call[wire.ApprovalListResult](c.Context(), a, wire.MethodApprovalList, wire.ApprovalListParams{All: all})
			if err != nil {
				return err
			}
			if a.json {
				if r.Approvals == nil {
					r.Approvals = []wire.Approval{}
				}
				return a.printJSON(r)
			}
			missions, err := allMissions(c.Context(), a, false) // for where they work
			if err != nil {
				return err
			}
			a.listApprovals(r.Approvals, missions)
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "list the answered ones, too")
	return c
}

func (a *app) listApprovals(list []wire.Approval, missions []wire.Mission) {
	if len(list) == 0 {
		fmt.Fprintln(a.Stdout, "Nothing waits for you.")
		return
	}
	var ids []string
	for _, ap := range list {
		ids = append(ids, ap.ID)
	}
	now := a.Now()
	var rows [][]cell
	pending := ""
	for _, ap := range list {
		if i := slices.IndexFunc(missions, func(m wire.Mission) bool { return m.ID == ap.Mission }); i >= 0 {
			ap.Folder = model.Workplace(missions[i])
		}
		state := cell{"▲ waits", a.style.needs}
		if ap.State != string(approval.Pending) {
			state = cell{clip(model.Settled(ap, now), 48), a.style.quiet}
		} else if pending == "" {
			pending = model.ShortID(ap.ID, ids)
		}
		rows = append(rows, []cell{{model.ShortID(ap.ID, ids), a.style.quiet}, state, plain(model.Clock(ap.CreatedAt, now)),
			plain(clip(strings.Join(strings.Fields(model.Clean(ap.Title)), " "), 32)), plain(clip(model.Wants(ap).String(), 80))})
	}
	table(a.Stdout, "", rows)
	if pending != "" {
		fmt.Fprintf(a.Stdout, "\nSee one whole and answer it: reeve allow %s, or reeve deny %s\n", pending, pending)
	}
}

func (a *app) allow() *cobra.Command {
	var digest, text, reach, pattern string
	var prompts bool
	c := &cobra.Command{
		Use: "allow ID", Short: "See what waits, whole, and allow it",
		Long: `Show everything that an approval would allow, with characters made visible that
would hide something, and ask. With --digest the answer is given without asking:
it counts only for exactly what that digest names.`,
		Example: `  reeve allow 7h2m4q
  reeve allow 7h2m4q --for mission
  reeve allow 7h2m4q --digest "$(reeve approvals --json | jq -r '.approvals[0].digest')"`,
		Args: oneID("approval"), ValidArgsFunction: a.completeApprovals,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkReach(reach, pattern); err != nil {
				return err
			}
			ctx := c.Context()
			if err := checkText("answer", text); err != nil {
				return err
			}
			if digest != "" {
				r, err := call[wire.ApprovalResult](ctx, a, wire.MethodApprovalAnswer, wire.AnswerParams{
					RequestKey: requestKey(), ID: args[0], Digest: digest, Allow: true, For: reach, Pattern: pattern, Text: text})
				if err != nil {
					return err
				}
				return a.answered(r)
			}
			ap, err := a.getApproval(ctx, args[0])
			if err != nil {
				return err
			}
			v := model.NewApproval(ap, a.Getenv("HOME"), a.Now())
			if !a.interactive() {
				return a.showOnly(ap, v)
			}
			a.printApproval(a.human(), v, prompts)
			answer, err := a.ask(ctx, ap, v, reach, pattern)
			if err != nil {
				return err
			}
			if answer == nil {
				return &Failure{Exit: ExitDenied, What: "It still waits; nothing was decided."}
			}
			if err := a.answered(wire.ApprovalResult{Approval: *answer}); err != nil {
				return err
			}
			if answer.State == string(approval.Denied) {
				return &Failure{Exit: ExitDenied}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&digest, "digest", "", "answer without asking, for exactly the subject with this digest")
	f.StringVar(&reach, "for", approval.ForOnce, "how far it reaches: once, mission or project")
	f.StringVar(&pattern, "pattern", "", "with --for mission or project: one of the patterns that are offered, not only exactly this")
	f.StringVar(&text, "text", "", "with --digest: the answer to a question of the agent")
	f.BoolVar(&prompts, "show-prompts", false, "of a mission's start: show what the agent will be told, whole")
	return c
}

// showOnly shows an approval, every line of it, where nobody can be asked, and
// says what would answer it.
func (a *app) showOnly(ap wire.Approval, v model.Approval) error {
	a.printApproval(a.human(), v, true)
	if err := answerable(ap, &v); err != nil {
		return err
	}
	if a.json {
		if err := a.printJSON(wire.ApprovalResult{Approval: ap}); err != nil {
			return err
		}
	}
	return &Failure{Exit: ExitDenied, What: "Nothing was decided: there is no terminal to ask on.",
		Next: fmt.Sprintf("Allow exactly this with: reeve allow %s --digest %s", short(ap.ID), model.Clean(ap.Digest))}
}

func (a *app) deny() *cobra.Command {
	var digest, reason, reach, pattern string
	var stop bool
	c := &cobra.Command{
		Use: "deny ID", Short: "Deny what waits",
		Long:    "Deny an approval. The agent is told, with the reason where you give one, and goes on without; --stop ends the mission as well. With --for it is denied from now on without asking.",
		Example: "  reeve deny 7h2m4q\n  reeve deny 7h2m4q --reason \"Run the tests of the lexer only\"\n  reeve deny 7h2m4q --stop",
		Args:    oneID("approval"), ValidArgsFunction: a.completeApprovals,
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if err := checkReach(reach, pattern); err != nil {
				return err
			}
			if err := checkText("reason", reason); err != nil {
				return err
			}
			if digest == "" {
				r, err := call[wire.ApprovalResult](ctx, a, wire.MethodApprovalGet, wire.IDParams{ID: args[0]})
				if err != nil {
					return err
				}
				digest = r.Approval.Digest
			}
			r, err := call[wire.ApprovalResult](ctx, a, wire.MethodApprovalAnswer, wire.AnswerParams{
				RequestKey: requestKey(), ID: args[0], Digest: digest, For: reach, Pattern: pattern, Reason: reason, Stop: stop})
			if err != nil {
				return err
			}
			return a.answered(r)
		},
	}
	f := c.Flags()
	f.StringVar(&digest, "digest", "", "deny only if the subject still has this digest")
	f.StringVar(&reason, "reason", "", "why, for the agent")
	f.StringVar(&reach, "for", approval.ForOnce, "how far it reaches: once, mission or project")
	f.StringVar(&pattern, "pattern", "", "with --for mission or project: one of the patterns that are offered, not only exactly this")
	f.BoolVar(&stop, "stop", false, "end the mission, too")
	return c
}

func (a *app) answered(r wire.ApprovalResult) error {
	if a.json {
		return a.printJSON(r)
	}
	text := upper(model.Clean(r.Approval.State)) + "."
	if r.Approval.Answer != nil && r.Approval.Answer.Stop {
		text = "Denied, and the mission is being stopped."
	}
	if x := r.Approval.Answer; x != nil && x.Made != "" {
		text = strings.TrimSuffix(text, ".") + ", " + model.Reach(x.For) + ". The rule is " + short(x.Made) + "; see it with `reeve rules`."
	}
	fmt.Fprintln(a.Stdout, text)
	return nil
}

// printApproval shows an approval whole: on a terminal nothing is folded but
// what the agent will be told, which prompts opens.
func (a *app) printApproval(w io.Writer, v model.Approval, prompts bool) {
	s := a.style
	fmt.Fprintf(w, "%s %s\n%s\n%s\n", s.needs("▲"), s.bold(v.Title), v.Sentence, s.quiet(v.About))
	if v.Answered != "" {
		fmt.Fprintln(w, s.quiet("It was "+v.Answered))
	}
	for _, p := range v.Parts {
		lines := s.shown(p.Shown)
		if !p.Required && !prompts && v.Start {
			fmt.Fprintf(w, "\n%s\n", s.quiet(fmt.Sprintf("%s: %s, shown with --show-prompts", p.Label, model.Count(len(lines), "line", "lines"))))
			continue
		}
		fmt.Fprintln(w)
		if p.Warns {
			fmt.Fprintln(w, s.needs("▲ "+p.Label))
		} else if p.Label != "" {
			label := p.Label
			if p.Plus+p.Minus > 0 {
				label += fmt.Sprintf("  +%d −%d", p.Plus, p.Minus)
			}
			fmt.Fprintln(w, s.quiet(label))
		}
		for i, line := range lines {
			if p.Kind == model.PartDiff {
				line = a.diffLine(line)
			}
			if len(lines) > 1 && p.Kind == model.PartCommand {
				line = s.quiet(fmt.Sprintf("%3d  ", i+1)) + line
			}
			fmt.Fprintln(w, "  "+line)
		}
	}
	if n := v.HiddenCount(); n > 0 {
		fmt.Fprintf(w, "\n%s\n", s.needs("▲ "+model.Count(n, "character here would be invisible", "characters here would be invisible")))
		var rows [][]cell
		for _, h := range v.Hidden {
			rows = append(rows, []cell{plain("‹" + h.Token + "›"), plain(h.Codepoint), plain(fmt.Sprintf("×%d", h.Count)), plain(h.Name)})
		}
		table(w, "  ", rows)
	}
	fmt.Fprintln(w)
	for _, f := range v.Facts {
		fmt.Fprintf(w, "%s  %s\n", s.quiet(fmt.Sprintf("%-12s", f.Label)), f.Detail)
	}
}

func (a *app) diffLine(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return a.style.done(line)
	case strings.HasPrefix(line, "-"):
		return a.style.wrong(line)
	}
	return line
}

// answerable says why an approval that was shown whole can't be allowed.
func answerable(ap wire.Approval, v *model.Approval) error {
	if v.State != string(approval.Pending) {
		return &Failure{Exit: ExitRefused, What: "It was " + v.Answered + "."}
	}
	for i := range v.Parts {
		v.OpenPart(i)
	}
	if !v.CanAllow() {
		return &Failure{Exit: ExitRefused, What: v.Unverified, Next: "Deny it with `reeve deny " + short(ap.ID) + "`."}
	}
	return nil
}

// ask asks the person who was just shown v. It returns nil when nothing was
// decided: the end of the input is no answer. Yes reaches as far as reach.
func (a *app) ask(ctx context.Context, ap wire.Approval, v model.Approval, reach, pattern string) (*wire.Approval, error) {
	if err := answerable(ap, &v); err != nil {
		return nil, err
	}
	p := wire.AnswerParams{RequestKey: requestKey(), ID: ap.ID, Digest: ap.Digest, For: reach, Pattern: pattern}
	question := "Allow once?"
	if reach == approval.ForOnce {
		a.printOffers(v)
	} else {
		i := slices.IndexFunc(v.Offers, func(o model.Offer) bool { return o.Pattern == pattern })
		if i < 0 {
			return nil, &Failure{Exit: ExitRefused, What: "No such rule can be made of this request.", Next: "Run `reeve allow " + short(ap.ID) + "` to see what can."}
		}
		question = "Allow " + model.Reach(reach) + ": " + v.Offers[i].Sentence + "?"
	}
	if v.Start {
		question = "Start it?"
	}
	if ap.Kind == string(approval.MissionRecover) {
		question = "Recover it?"
	}
	if v.Question != nil {
		question = "Answer it?"
	}
	fmt.Fprintf(a.human(), "\n%s [y/N, Ctrl-D leaves it waiting] ", a.style.bold(question))
	// A key that was pressed before the question was shown answers nothing.
	if f, ok := a.Stdin.(*os.File); ok {
		flush(f)
	}
	in := bufio.NewReader(a.Stdin)
	line, err := in.ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.human())
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	typed := strings.ToLower(strings.TrimSpace(line))
	if allow, far, what, ok := offerOf(v, typed); ok && reach == approval.ForOnce {
		p.For, p.Pattern = far, what
		typed = "no"
		if allow {
			typed = "yes"
		}
	} else if typed == "" || typed == "n" || typed == "no" {
		p.For, p.Pattern = approval.ForOnce, ""
	}
	switch typed {
	case "y", "yes":
		p.Allow = true
		if q := v.Question; q != nil {
			if p.Text, err = a.answerText(in, q); err != nil {
				return nil, err
			}
		}
	case "", "n", "no":
	default:
		return nil, &Failure{Exit: ExitUsage, What: "That is neither yes nor no; nothing was decided."}
	}
	r, err := call[wire.ApprovalResult](ctx, a, wire.MethodApprovalAnswer, p)
	if err != nil {
		return nil, err
	}
	return &r.Approval, nil
}

func (a *app) answerText(in *bufio.Reader, q *approval.Question) (string, error) {
	for i, o := range q.Options {
		fmt.Fprintf(a.human(), "  %d. %s\n", i+1, approval.Visible(o).Plain())
	}
	fmt.Fprint(a.human(), "Your answer: ")
	line, err := in.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	line = strings.TrimSpace(line)
	for i, o := range q.Options {
		if line == fmt.Sprint(i+1) {
			return o, nil
		}
	}
	return line, nil
}
