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

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) effects() *cobra.Command {
	var all bool
	var mission string
	c := &cobra.Command{
		Use: "effects", Short: "See what workers did beyond their checkout, and what is uncertain",
		Long: `List the effects of which nobody knows whether they happened: their worker was
gone before it said so. Reeve never does them again by itself; say what became of
them with ` + "`reeve effects settle`" + `, and the worker is told. With --all, list the whole
journal, newest first.`,
		Example: "  reeve effects\n  reeve effects --all --mission 3k9x2f\n  reeve effects settle 7h2m4q --happened",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := call[wire.EffectListResult](c.Context(), a, wire.MethodEffectList, wire.EffectListParams{Mission: mission, All: all})
			if err != nil {
				return err
			}
			if a.json {
				if r.Effects == nil {
					r.Effects = []wire.Effect{}
				}
				return a.printJSON(r)
			}
			a.listEffects(r.Effects, all)
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&all, "all", false, "list those that need nobody, too")
	f.StringVar(&mission, "mission", "", "only those of this mission")
	c.AddCommand(a.effectSettle())
	return c
}

func (a *app) listEffects(list []wire.Effect, all bool) {
	if len(list) == 0 {
		text := "No effect is uncertain."
		if all {
			text = "No worker did anything beyond its checkout yet."
		}
		fmt.Fprintln(a.Stdout, text)
		return
	}
	var ids []string
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	now := a.Now()
	var rows [][]cell
	unsure := ""
	for _, e := range list {
		r := model.EffectRowOf(e, now)
		if r.Uncertain && unsure == "" {
			unsure = model.ShortID(e.ID, ids)
		}
		shape := r.Shape
		rows = append(rows, []cell{{model.ShortID(e.ID, ids), a.style.quiet}, {shape.Glyph() + " " + r.Word, func(t string) string { return a.style.shape(shape, t) }},
			plain(r.When), {"mission " + short(oneLine(e.Mission)), a.style.quiet}, plain(clip(r.Tool, 32)), plain(clip(r.Known, 80))})
	}
	table(a.Stdout, "", rows)
	if unsure != "" {
		fmt.Fprintf(a.Stdout, "\nSee one whole and say what became of it: reeve effects settle %s\n", unsure)
	}
}

func (a *app) effectSettle() *cobra.Command {
	var happened, didNot, leave bool
	c := &cobra.Command{
		Use: "settle ID", Short: "Say what became of an uncertain effect",
		Long: `Show everything that is known of an effect, and record what you say became of it:
it happened, it did not, or nobody knows and it is left at that. Reeve does nothing
by it but tell the worker at its next turn. On a terminal it asks first.`,
		Example: "  reeve effects settle 7h2m4q\n  reeve effects settle 7h2m4q --did-not",
		Args:    oneID("effect"),
		RunE: func(c *cobra.Command, args []string) error {
			outcome := ""
			for o, on := range map[string]bool{wire.EffectHappened: happened, wire.EffectDidNot: didNot, wire.EffectLeft: leave} {
				switch {
				case on && outcome != "":
					return usage("Run `reeve effects settle --help`.", "Give one of --happened, --did-not and --leave.")
				case on:
					outcome = o
				}
			}
			e, err := a.findEffect(c.Context(), args[0])
			if err != nil {
				return err
			}
			r := model.EffectRowOf(e, a.Now())
			if !r.Uncertain {
				return &Failure{Exit: ExitRefused, What: "It is not uncertain but " + r.Word + ": there is nothing to settle."}
			}
			a.printEffect(a.human(), e, r)
			if a.interactive() {
				if outcome, err = a.askOutcome(outcome); err != nil {
					return err
				}
			}
			if outcome == "" {
				what := "It stays uncertain; nothing was decided."
				if !a.interactive() {
					what = "Nothing was decided: there is no terminal to ask on."
				}
				return &Failure{Exit: ExitDenied, What: what, Next: "Run `reeve effects settle " + short(e.ID) + "` with --happened, --did-not or --leave."}
			}
			done, err := call[wire.EffectResult](c.Context(), a, wire.MethodEffectSettle,
				wire.EffectSettleParams{RequestKey: requestKey(), ID: e.ID, Revision: e.Revision, Outcome: outcome})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(done)
			}
			fmt.Fprintf(a.Stdout, "Settled: %s. Its worker is told at its next turn.\n", model.SettledAs(outcome))
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&happened, "happened", false, "it happened")
	f.BoolVar(&didNot, "did-not", false, "it did not happen")
	f.BoolVar(&leave, "leave", false, "nobody knows, and it is left at that")
	return c
}

// findEffect finds an effect by its id or the end of it: among those that need
// somebody first.
func (a *app) findEffect(ctx context.Context, id string) (wire.Effect, error) {
	for _, all := range []bool{false, true} {
		r, err := call[wire.EffectListResult](ctx, a, wire.MethodEffectList, wire.EffectListParams{All: all})
		if err != nil {
			return wire.Effect{}, err
		}
		fits := slices.DeleteFunc(r.Effects, func(e wire.Effect) bool { return !strings.HasSuffix(e.ID, id) })
		if i := slices.IndexFunc(fits, func(e wire.Effect) bool { return e.ID == id }); i >= 0 {
			fits = fits[i : i+1]
		}
		switch {
		case len(fits) == 1:
			return fits[0], nil
		case len(fits) > 1:
			return wire.Effect{}, &Failure{Exit: ExitRefused, What: fmt.Sprintf("The id %s fits %d effects.", oneLine(id), len(fits)), Next: "Give more of its end; see `reeve effects --all`."}
		}
	}
	return wire.Effect{}, &Failure{Exit: ExitRefused, What: "There is no effect " + oneLine(id) + ".", Next: "See `reeve effects --all`."}
}

// printEffect shows all that is known of an effect.
func (a *app) printEffect(w io.Writer, e wire.Effect, r model.EffectRow) {
	s := a.style
	fmt.Fprintf(w, "%s  %s\n", s.shape(r.Shape, r.Shape.Glyph()+" "+r.Word), s.bold(r.Tool))
	if r.Known != "" {
		fmt.Fprintln(w, r.Known)
	}
	fmt.Fprintln(w)
	for _, line := range s.shown(r.Input) {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintln(w)
	turn := ""
	if r.Turn != "" {
		turn = ", " + r.Turn
	}
	for _, f := range [][2]string{{"Mission", oneLine(e.Mission) + turn}, {"Began", r.When}, {"Room", oneLine(e.Room)}, {"Input digest", oneLine(e.Digest)}} {
		fmt.Fprintf(w, "%s  %s\n", s.quiet(fmt.Sprintf("%-12s", f[0])), f[1])
	}
}

// askOutcome asks the person who was just shown an effect. asked is what they
// gave on the command line. "" means that nothing was decided.
func (a *app) askOutcome(asked string) (string, error) {
	question, keys := "What became of it?", "[h]appened, [d]id not happen, [l]eave it at that; Enter decides nothing: "
	if asked != "" {
		question, keys = "Record that "+model.SettledAs(asked)+"?", "[y/N] "
	}
	fmt.Fprintf(a.human(), "\n%s %s", a.style.bold(question), keys)
	// A key that was pressed before the question was shown answers nothing.
	if f, ok := a.Stdin.(*os.File); ok {
		flush(f)
	}
	line, err := bufio.NewReader(a.Stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.human())
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		return "", fmt.Errorf("read the answer: %w", err)
	}
	switch typed := strings.ToLower(strings.TrimSpace(line)); {
	case typed == "" || typed == "n" || typed == "no":
		return "", nil
	case asked != "" && (typed == "y" || typed == "yes"):
		return asked, nil
	case asked == "" && (typed == "h" || typed == "happened"):
		return wire.EffectHappened, nil
	case asked == "" && (typed == "d" || typed == "did not" || typed == "did-not"):
		return wire.EffectDidNot, nil
	case asked == "" && (typed == "l" || typed == "leave"):
		return wire.EffectLeft, nil
	}
	return "", &Failure{Exit: ExitUsage, What: "That is none of the answers; nothing was decided."}
}
