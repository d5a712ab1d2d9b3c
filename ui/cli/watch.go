package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) watch() *cobra.Command {
	return &cobra.Command{
		Use: "watch [ID]", Short: "Follow what happens",
		Long: `Follow what happens, until Ctrl-C: of all missions, or of one with its whole
transcript until it ends. With --json every event is a line.`,
		Example: "  reeve watch\n  reeve watch 3k9x2f\n  reeve watch --json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("Run `reeve watch --help`.", "`reeve watch` takes one mission at most.")
			}
			return nil
		},
		ValidArgsFunction: a.completeMissions,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			if len(args) == 0 {
				if _, err := call[wire.Service](ctx, a, wire.MethodServiceStatus, nil); err != nil {
					return err
				}
				_, err := a.follow(ctx, "")
				return err
			}
			r, err := call[wire.MissionResult](ctx, a, wire.MethodMissionGet, wire.IDParams{ID: args[0]})
			if err != nil {
				return err
			}
			_, err = a.follow(ctx, r.Mission.ID)
			return err
		},
	}
}

// waitFor follows a mission to its end and says by the exit code how it ended.
func (a *app) waitFor(ctx context.Context, m wire.Mission) error {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	end, err := a.follow(ctx, m.ID)
	switch {
	case err != nil:
		return err
	case end == nil:
		return &Failure{Exit: ExitFailed, What: "Interrupted; the mission goes on.", Next: "Follow it with: reeve watch " + short(m.ID)}
	}
	if a.json {
		if err := a.printJSON(wire.MissionResult{Mission: *end}); err != nil {
			return err
		}
	}
	row := model.MissionRow(*end, nil, a.Now())
	text := row.Title + ": " + row.Detail.String() + "."
	switch {
	case end.Phase == string(mission.Completed):
		return nil
	case end.Phase == string(mission.Denied), end.StartedAt == nil && end.Phase == string(mission.Stopped):
		return &Failure{Exit: ExitDenied, What: text}
	case end.EndReason == string(mission.EndDeadline):
		return &Failure{Exit: ExitTimedOut, What: text}
	}
	return &Failure{Exit: ExitFailed, What: text}
}

// follow prints what happens until ctx ends, or until the mission does; then it
// returns that mission.
func (a *app) follow(ctx context.Context, id string) (*wire.Mission, error) {
	path, err := sock.Path(a.Getenv)
	if err != nil {
		return nil, err
	}
	f := &follower{a: a, id: id, state: model.NewState(0), told: map[string]string{}, printer: &printer{app: a},
		ended: make(chan struct{}), sessions: make(chan string, 1)}
	dial := func(ctx context.Context) (*client.Client, error) { return client.Dial(ctx, path, a.options()) }
	watching := client.Follow(ctx, dial, []string{wire.TopicService, wire.TopicMissions, wire.TopicApprovals, wire.TopicEffects}, f)
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
		case <-f.ended:
			running = false
		case session := <-f.sessions:
			watching.Watch(wire.TopicSession + session)
		}
	}
	watching.Close()
	if f.err == nil && f.mission != nil && f.mission.Session != "" {
		// The mission's end may overtake the last entries of its session.
		f.session = f.mission.Session
		f.err = a.messages(ctx, f.session, f.last, func(e wire.Entry) error { return f.rest(e) })
	}
	f.printer.endLine()
	return f.mission, f.err
}

// follower prints what the service sends. Its methods are called one at a time.
type follower struct {
	a        *app
	id       string // the one mission, "" for all
	state    *model.State
	told     map[string]string // the last line about each mission
	printer  *printer
	sessions chan string // the session to watch, once it is known
	session  string
	last     *wire.Cursor // of the session: what was printed
	lost     bool
	ended    chan struct{}
	once     sync.Once
	mission  *wire.Mission
	err      error
}

func (f *follower) finish(m *wire.Mission, err error) {
	f.once.Do(func() {
		f.mission, f.err = m, err
		close(f.ended)
	})
}

func (f *follower) done() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

func (f *follower) State(s client.State) {
	switch s.Phase {
	case client.Mismatch:
		f.finish(nil, s.Err)
	case client.Stopped, client.Closing:
		if !f.lost {
			f.lost = true
			f.printer.endLine()
			fmt.Fprintln(f.a.Stderr, "The service ended; waiting for it to come back.")
		}
	case client.Connected:
		if f.lost {
			f.lost = false
			fmt.Fprintln(f.a.Stderr, "The service is back.")
		}
	}
}

func (f *follower) Snapshot(topic string, items []json.RawMessage, purpose string) {
	if f.done() {
		return
	}
	if f.a.json {
		f.jsonSnapshot(topic, items)
	}
	if f.session != "" && topic == wire.TopicSession+f.session {
		for _, it := range items {
			f.entry(it)
		}
		return
	}
	changes, err := f.state.Snapshot(topic, items)
	if err != nil {
		f.finish(nil, err)
		return
	}
	f.changes(changes)
	if topic == wire.TopicMissions {
		f.missions()
	}
}

// jsonSnapshot writes a snapshot as the events that would have led to it.
func (f *follower) jsonSnapshot(topic string, items []json.RawMessage) {
	names := map[string]string{wire.TopicService: wire.EvService, wire.TopicMissions: wire.EvMission, wire.TopicApprovals: wire.EvApproval, wire.TopicEffects: wire.EvEffect}
	name, session := names[topic], ""
	if name == "" {
		name, session = wire.EvSession, f.session
	}
	for _, it := range items {
		if f.concerns(topic, it) {
			_ = f.a.printJSON(wire.Event{Version: wire.MaxVersion, Event: name, Topic: topic, Session: session, Data: it})
		}
	}
}

// concerns reports whether an item is about the mission that is followed.
func (f *follower) concerns(topic string, item json.RawMessage) bool {
	if f.id == "" || topic == wire.TopicSession+f.session {
		return true
	}
	var d struct {
		ID      string `json:"id"`
		Mission string `json:"mission_id"`
	}
	_ = json.Unmarshal(item, &d)
	return d.ID == f.id || d.Mission == f.id
}

func (f *follower) Delta(topic string, e wire.Event) {
	if f.done() {
		return
	}
	if f.a.json && f.concerns(topic, e.Data) {
		_ = f.a.printJSON(e)
	}
	switch e.Event {
	case wire.EvSession:
		f.entry(e.Data)
		return
	case wire.EvSnapshotFailed:
		var d wire.SnapshotFailed
		_ = json.Unmarshal(e.Data, &d)
		fmt.Fprintln(f.a.Stderr, "Not to be had at present: "+model.Clean(d.Reason))
		return
	}
	changes, err := f.state.Delta(e)
	if err != nil {
		f.finish(nil, err)
		return
	}
	f.changes(changes)
	if e.Event == wire.EvMission {
		f.missions()
	}
}

// entry prints an entry of the session, once.
func (f *follower) entry(data json.RawMessage) {
	var e wire.Entry
	if json.Unmarshal(data, &e) != nil || f.last != nil && (e.Log == "" || e.Log == f.last.Log) && e.Seq <= f.last.Sequence {
		return
	}
	f.last = &wire.Cursor{Log: e.Log, Sequence: e.Seq}
	if !f.a.json {
		f.printer.entry(e)
	}
}

// rest prints an entry that was read after the mission's end.
func (f *follower) rest(e wire.Entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if f.a.json {
		return f.a.printJSON(wire.Event{Version: wire.MaxVersion, Event: wire.EvSession, Topic: wire.TopicSession + f.session,
			Session: f.session, Cursor: &wire.Cursor{Log: e.Log, Sequence: e.Seq}, Data: data})
	}
	f.entry(data)
	return nil
}

// missions prints what is new about missions, opens the session of the one that
// is followed, and ends with it.
func (f *follower) missions() {
	now := f.a.Now()
	for _, g := range f.state.Missions(now, model.FilterAll, "") {
		for _, r := range g.Rows {
			if f.id != "" && r.ID != f.id {
				continue
			}
			line := r.Word + " " + r.Detail.String()
			old, known := f.told[r.ID]
			f.told[r.ID] = line
			// What had ended before is no news.
			if old == line || !known && f.id == "" && (g.Name == model.GroupToday || g.Name == model.GroupEarlier) {
				continue
			}
			// The transcript of one mission says better what it does, and what it
			// asks for is shown with its answer.
			if f.a.json || r.Shape == model.ShapeNeeds && r.Pending > 0 || f.id != "" && f.session != "" && r.Shape != model.ShapeNeeds && r.Bar {
				continue
			}
			title := ""
			if f.id == "" {
				title = clip(r.Title, 40) + "  "
			}
			f.printer.line(f.a.style.shape(r.Shape, r.Shape.Glyph()+" "+r.Word) + "  " + title + clip(r.Detail.String(), 100))
		}
	}
	m, ok := f.state.Mission(f.id)
	if !ok {
		return
	}
	f.printer.folder = model.Workplace(m)
	if m.Session != "" && f.session == "" {
		f.session = m.Session
		f.sessions <- m.Session // has room: it is sent once
	}
	if mission.Phase(m.Phase).Terminal() {
		f.finish(&m, nil)
	}
}

func (f *follower) changes(list []model.Change) {
	if f.a.json {
		return
	}
	now := f.a.Now()
	for _, c := range list {
		switch c.Kind {
		case model.Asked:
			if f.id == "" || c.Approval.Mission == f.id {
				f.printer.asks(c.Approval.ID, f.state.Wants(c.Approval))
			}
		case model.Answered:
			// In the transcript of one mission it stands where it belongs.
			if f.id == "" || f.session == "" && c.Approval.Mission == f.id {
				f.printer.line("  " + model.Settled(c.Approval, now))
			}
		case model.Vanished:
			if f.id == "" || c.Approval.Mission == f.id {
				f.printer.line(f.a.style.needs("▲ " + model.VanishedText(c.Approval)))
			}
		case model.Doubted:
			if f.id == "" || c.Effect.Mission == f.id {
				r := model.EffectRowOf(c.Effect, now)
				f.printer.line(f.a.style.needs("▲ it is not known what became of "+clip(r.Tool, 60)) + "  reeve effects settle " + short(c.Effect.ID))
			}
		case model.Refused:
			if f.id == "" || c.Refusal.Mission == f.id {
				f.printer.line(f.a.style.wrong("✕ " + model.RefusalText(c.Refusal)))
			}
		}
	}
}

func (a *app) logs() *cobra.Command {
	var full bool
	c := &cobra.Command{
		Use: "logs ID", Short: "Show a mission's transcript",
		Long:    "Show the transcript of a mission: what the agent said and did. With --json every entry is a line.",
		Example: "  reeve logs 3k9x2f\n  reeve logs 3k9x2f --full | less -R\n  reeve logs 3k9x2f --json",
		Args:    oneID("mission"), ValidArgsFunction: a.completeMissions,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			m, err := call[wire.MissionResult](ctx, a, wire.MethodMissionGet, wire.IDParams{ID: args[0]})
			if err != nil {
				return err
			}
			p := &printer{app: a, full: full, folder: model.Workplace(m.Mission)}
			n := 0
			if m.Mission.Session != "" {
				err = a.messages(ctx, m.Mission.Session, nil, func(e wire.Entry) error {
					n++
					if a.json {
						return a.printJSON(e)
					}
					p.entry(e)
					return nil
				})
			}
			if err != nil {
				return err
			}
			if !mission.Phase(m.Mission.Phase).Terminal() {
				p.pending()
			}
			p.endLine()
			if n == 0 && !a.json {
				fmt.Fprintln(a.Stdout, "Nothing yet.")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&full, "full", false, "show what tools printed, too")
	return c
}

// messages reads a session page by page, after a cursor or from its start. It
// stops without an error when ctx ends.
func (a *app) messages(ctx context.Context, session string, after *wire.Cursor, emit func(wire.Entry) error) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		r, err := client.Do[wire.MessagesResult](ctx, c, wire.MethodSessionMessages, wire.MessagesParams{Session: session, After: after})
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range r.Entries {
			if err := emit(e); err != nil {
				return err
			}
		}
		if !r.More || r.Next == nil {
			return nil
		}
		after = r.Next
	}
}
