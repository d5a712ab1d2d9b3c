package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) ls() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "ls", Short: "List missions",
		Long: "List missions: those that wait for you first, then what is under way and what has finished.",
		Example: `  reeve ls
  reeve ls --all
  reeve ls --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			missions, err := allMissions(c.Context(), a, all)
			if err != nil {
				return err
			}
			if a.json {
				if missions == nil {
					missions = []wire.Mission{}
				}
				return a.printJSON(wire.MissionListResult{Missions: missions})
			}
			waiting, err := call[wire.ApprovalListResult](c.Context(), a, wire.MethodApprovalList, wire.ApprovalListParams{})
			if err != nil {
				return err
			}
			return a.list(missions, waiting.Approvals, all)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "list every mission, not only the newest")
	return c
}

// maxEarlier is how many missions of earlier days a short list shows.
const maxEarlier = 10

func (a *app) list(missions []wire.Mission, waiting []wire.Approval, all bool) error {
	if len(missions) == 0 {
		fmt.Fprintln(a.Stdout, "No missions yet. Try `reeve demo`, or hand over work with `reeve start --help`.")
		return nil
	}
	s := model.NewState(0)
	ids := make([]string, 0, len(missions))
	if err := load(s, wire.TopicMissions, missions); err != nil {
		return err
	}
	if err := load(s, wire.TopicApprovals, waiting); err != nil {
		return err
	}
	for _, m := range missions {
		ids = append(ids, m.ID)
	}
	now := a.Now()
	for i, g := range s.Missions(now, model.FilterAll, "") {
		if i > 0 {
			fmt.Fprintln(a.Stdout)
		}
		more := 0
		if g.Name == model.GroupEarlier && !all && len(g.Rows) > maxEarlier {
			more = len(g.Rows) - maxEarlier
			g.Rows = g.Rows[:maxEarlier]
		}
		fmt.Fprintln(a.Stdout, a.style.bold(g.Name))
		var rows [][]cell
		for _, r := range g.Rows {
			paint := func(t string) string { return a.style.shape(r.Shape, t) }
			used := strings.TrimSpace(r.Tokens + " " + r.Cost)
			timeText := plain(r.Time)
			if r.Urgent {
				timeText.paint = a.style.bold
			}
			rows = append(rows, []cell{{r.Shape.Glyph() + " " + r.Word, paint}, {model.ShortID(r.ID, ids), a.style.quiet},
				plain(clip(r.Title, 36)), plain(clip(r.Provider, 26)), plain(clip(r.Folder, 20)), timeText, plain(used),
				{clip(r.Detail.String(), 60), a.style.quiet}})
		}
		table(a.Stdout, "  ", rows)
		if more > 0 {
			fmt.Fprintf(a.Stdout, "  %d more; `reeve ls --all` lists them\n", more)
		}
	}
	return nil
}

// load gives the state a topic as the service would send it.
func load[T any](s *model.State, topic string, items []T) error {
	list := make([]json.RawMessage, len(items))
	for i, it := range items {
		b, err := json.Marshal(it)
		if err != nil {
			return err
		}
		list[i] = b
	}
	_, err := s.Snapshot(topic, list)
	return err
}

func (a *app) show() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one mission",
		Long:    "Show one mission: where it stands, what it may do, its turns, its steering. The id can be shortened to its last characters.",
		Example: "  reeve show 3k9x2f\n  reeve show 3k9x2f --json",
		Args:    oneID("mission"), ValidArgsFunction: a.completeMissions,
		RunE: func(c *cobra.Command, args []string) error {
			r, err := call[wire.MissionResult](c.Context(), a, wire.MethodMissionGet, wire.IDParams{ID: args[0]})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			waiting, err := call[wire.ApprovalListResult](c.Context(), a, wire.MethodApprovalList, wire.ApprovalListParams{Mission: r.Mission.ID})
			if err != nil {
				return err
			}
			a.printMission(r.Mission, waiting.Approvals)
			return nil
		},
	}
}

func (a *app) printMission(m wire.Mission, waiting []wire.Approval) {
	now := a.Now()
	r := model.MissionRow(m, waiting, now)
	w := a.Stdout
	fmt.Fprintf(w, "%s  %s\n", a.style.bold(r.Title), a.style.shape(r.Shape, r.Shape.Glyph()+" "+r.Word))
	fmt.Fprintln(w, r.Detail)
	fmt.Fprintln(w)
	fact := func(label, text string) {
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(w, "%s  %s\n", a.style.quiet(fmt.Sprintf("%-12s", label)), text)
		}
	}
	fact("Id", m.ID)
	fact("Agent", r.Provider+" "+model.Clean(m.ProviderVersion))
	fact("Endpoint", model.Clean(m.Endpoint))
	fact("Folder", model.Path(m.Folder, a.Getenv("HOME")))
	if wt := m.Worktree; wt != nil {
		fact("Worktree", model.Path(wt.Path, a.Getenv("HOME"))+" on "+model.Clean(wt.Branch)+" ("+wt.State+")")
	}
	if r.End != "" && r.Bar {
		fact("Time", r.Time+", ends "+r.End)
	} else {
		fact("Time", strings.TrimSuffix(r.Time+", "+r.End, ", "))
	}
	fact("Used", strings.Trim(strings.Join([]string{model.Count(m.Turn, "turn", "turns"), model.Count(m.ToolCalls, "tool", "tools"), r.Tokens, r.Cost}, ", "), ", "))
	fact("Resources", strings.Join(model.Resources(m), ", "))
	fact("Limits", model.Limits(m.Limits))
	fact("Unasked", model.Unasked(m.Unasked))
	if m.Denials.Count > 0 {
		fact("Denied", model.Count(m.Denials.Count, "request", "requests")+": "+model.Clean(strings.Join(m.Denials.Tools, ", ")))
	}
	if m.Refusals > 0 {
		fact("Refused", fmt.Sprintf("%d times its worker tried what only you may do", m.Refusals))
	}
	if len(m.Left) > 0 {
		fact("Left over", model.Clean(strings.Join(m.Left, ", ")))
	}
	fact("Session", m.Session)
	fmt.Fprintf(w, "\n%s\n", a.style.quiet("Scope"))
	for line := range strings.Lines(model.Clean(m.Scope)) {
		fmt.Fprintln(w, "  "+strings.TrimRight(line, "\n"))
	}
	if len(m.Steering) > 0 {
		fmt.Fprintf(w, "\n%s\n", a.style.quiet("Steering"))
		for _, s := range m.Steering {
			state := s.State
			if s.Turn > 0 {
				state += fmt.Sprintf(" in turn %d", s.Turn)
			}
			fmt.Fprintf(w, "  %d. %s (%s)\n", s.ID, model.Clean(s.Text), state)
		}
	}
	if len(m.Turns) > 0 {
		fmt.Fprintf(w, "\n%s\n", a.style.quiet("Turns"))
		if before := m.Turns[0].Number - 1; before > 0 {
			fmt.Fprintf(w, "  %s; the totals count them.\n", model.Count(before, "earlier turn is not listed", "earlier turns are not listed"))
		}
		var rows [][]cell
		for _, t := range m.Turns {
			outcome, length := "under way", now.Sub(t.StartedAt)
			if t.EndedAt != nil {
				outcome, length = strings.ReplaceAll(t.Outcome, "_", " "), t.EndedAt.Sub(t.StartedAt)
				if t.Code != "" {
					outcome += ": " + mission.Code(t.Code).Sentence()
				}
			}
			rows = append(rows, []cell{plain(fmt.Sprint(t.Number)), plain(model.Clock(t.StartedAt, now)), plain(model.Duration(length)),
				plain(model.Count(t.Tools, "tool", "tools")), plain(model.Tokens(t.Usage)), plain(outcome)})
		}
		table(w, "  ", rows)
	}
	if list := model.Uncertain(m); len(list) > 0 {
		fmt.Fprintf(w, "\n%s\n", a.style.needs("Uncertain"))
		for _, text := range list {
			fmt.Fprintln(w, "  "+text)
		}
	}
	switch {
	case len(waiting) > 0:
	case r.Action == model.Recover:
		fmt.Fprintf(w, "\nGo on with it: reeve recover %s    Give it up: reeve cancel %s\n", short(m.ID), short(m.ID))
	case m.Recovery == string(mission.RecoveryExpired):
		fmt.Fprintf(w, "\nIts time is over. Give it up: reeve cancel %s\n", short(m.ID))
	}
	for _, ap := range waiting {
		ap.Folder = model.Workplace(m)
		fmt.Fprintf(w, "\n%s\n", a.style.needs("▲ "+clip(model.Wants(ap).String(), 100)))
		fmt.Fprintf(w, "  reeve allow %s    reeve deny %s\n", short(ap.ID), short(ap.ID))
	}
}

// short is an id as a hint: the service says so when it is not enough.
func short(id string) string { return model.ShortID(id, nil) }

func (a *app) steer() *cobra.Command {
	return &cobra.Command{
		Use: "steer ID TEXT...", Short: "Queue an instruction for the next turn",
		Long:    "Queue an instruction for a mission's next turn. It reaches the agent when that turn starts, and never interrupts.",
		Example: `  reeve steer 3k9x2f "Keep error positions as byte offsets"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("For example: reeve steer 3k9x2f \"Keep the public names\".", "`reeve steer` takes a mission's id and an instruction.")
			}
			return nil
		},
		ValidArgsFunction: a.completeMissions,
		RunE: func(c *cobra.Command, args []string) error {
			text := strings.Join(args[1:], " ")
			if strings.TrimSpace(text) == "" {
				return usage("For example: reeve steer 3k9x2f \"Keep the public names\".", "The instruction is empty.")
			}
			if err := checkText("instruction", text); err != nil {
				return err
			}
			r, err := call[wire.MissionResult](c.Context(), a, wire.MethodMissionSteer,
				wire.SteerParams{RequestKey: requestKey(), ID: args[0], Text: text})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			fmt.Fprintln(a.Stdout, "Queued: the agent gets it at its next turn.")
			return nil
		},
	}
}

var controls = map[string]struct{ method, short, long, done string }{
	"pause": {wire.MethodMissionPause, "Interrupt a mission's turn and hold it",
		"Interrupt a mission's turn and hold it. Its time runs on: pausing does not move the deadline.", "Paused"},
	"resume": {wire.MethodMissionResume, "Let a paused or blocked mission go on", "Let a paused or blocked mission go on, inside its original time.", "Resumed"},
	"stop": {wire.MethodMissionStop, "End a mission and everything it started",
		"End a mission and every process that it started. The checkout stays as it is.", "Stopped"},
	"cancel": {wire.MethodMissionCancel, "Give up a mission whose worker is gone",
		"Give up a mission whose worker is gone, and free its checkout. This changes the record alone: nothing is killed.", "Cancelled"},
}

func (a *app) control(verb string) *cobra.Command {
	k := controls[verb]
	return &cobra.Command{
		Use: verb + " ID", Short: k.short, Long: k.long, Example: "  reeve " + verb + " 3k9x2f",
		Args: oneID("mission"), ValidArgsFunction: a.completeMissions,
		RunE: func(c *cobra.Command, args []string) error {
			// Stopping what has ended is no fault, but it did nothing.
			ended := false
			if verb == "stop" {
				before, err := call[wire.MissionResult](c.Context(), a, wire.MethodMissionGet, wire.IDParams{ID: args[0]})
				if err != nil {
					return err
				}
				ended = mission.Phase(before.Mission.Phase).Terminal()
			}
			r, err := call[wire.MissionResult](c.Context(), a, k.method, wire.MissionParams{RequestKey: requestKey(), ID: args[0]})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			row := model.MissionRow(r.Mission, nil, a.Now())
			if ended {
				fmt.Fprintf(a.Stdout, "%s had ended already: %s.\n", row.Title, row.Time)
				return nil
			}
			text := fmt.Sprintf("%s: %s.", k.done, row.Title)
			if d := r.Mission.DeadlineAt; d != nil && !mission.Phase(r.Mission.Phase).Terminal() {
				text += fmt.Sprintf(" %s, until %s.", upper(row.Time), row.End)
			}
			if n := len(r.Mission.Left); n > 0 {
				text += " Could not be ended: " + model.Clean(strings.Join(r.Mission.Left, ", ")) + "."
			}
			fmt.Fprintln(a.Stdout, text)
			return nil
		},
	}
}

// upper begins a sentence with a piece of a table.
func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
