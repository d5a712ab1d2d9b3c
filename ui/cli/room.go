package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// messageID is what messages are called; msg_0 stands before the first.
var messageID = regexp.MustCompile(`^msg_(0|[1-9][0-9]{0,9})$`)

func (a *app) room() *cobra.Command {
	var follow bool
	var after string
	c := &cobra.Command{
		Use: "room [MISSION|ROOM]", Short: "Read what you and workers left each other",
		Long: `List the rooms, or show the newest messages of one: each mission has a room in
which you and its worker leave each other messages. What you write wakes the
worker; a turn that a message woke ends with an answer to it. With --json every
message is a line.`,
		Example: "  reeve room\n  reeve room 3k9x2f\n  reeve room 3k9x2f --follow\n  reeve room send 3k9x2f \"Does the lexer read bytes?\"",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usage("To write into it, run `reeve room send ID TEXT`.", "`reeve room` takes one mission or room at most.")
			case after != "" && !messageID.MatchString(after):
				return usage("Messages are called msg_1, msg_2 and so on.", "--after %q is no message.", after)
			case len(args) == 0 && (follow || after != ""):
				return usage("For example: reeve room 3k9x2f --follow.", "Say which room: the id of a mission or a room.")
			}
			return nil
		},
		ValidArgsFunction: a.completeMissions,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listRooms(c.Context())
			}
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			return a.readRoom(ctx, args[0], after, follow)
		},
	}
	f := c.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on, until Ctrl-C")
	f.StringVar(&after, "after", "", "all that comes after this message, such as msg_12, in place of the newest; msg_0 for all")
	c.AddCommand(a.roomSend())
	return c
}

func (a *app) listRooms(ctx context.Context) error {
	r, err := call[wire.RoomListResult](ctx, a, wire.MethodRoomList, nil)
	if err != nil {
		return err
	}
	if a.json {
		if r.Rooms == nil {
			r.Rooms = []wire.Room{}
		}
		return a.printJSON(r)
	}
	if len(r.Rooms) == 0 {
		fmt.Fprintln(a.Stdout, "There are no rooms yet: each mission gets one when it starts.")
		return nil
	}
	var ids []string
	for _, room := range r.Rooms {
		ids = append(ids, room.ID)
	}
	now := a.Now()
	var rows [][]cell
	for _, room := range r.Rooms {
		last := ""
		if room.LastAt != nil {
			last = model.Clock(*room.LastAt, now)
		}
		who := cell{"no worker", a.style.quiet}
		if n := len(room.Workers); n > 0 {
			who = plain(model.Count(n, "worker", "workers"))
		}
		rows = append(rows, []cell{{model.ShortID(room.ID, ids), a.style.quiet}, plain(clip(oneLine(room.Title), 48)),
			plain(model.Count(room.Count, "message", "messages")), {last, a.style.quiet}, who})
	}
	table(a.Stdout, "", rows)
	return nil
}

// readRoom prints the newest messages of a room, or all after one, and then
// what is added for as long as ctx lasts.
func (a *app) readRoom(ctx context.Context, id, after string, follow bool) error {
	r := &roomReader{app: a, id: id, after: after}
	if err := r.read(ctx); err != nil || !follow {
		if err == nil && r.printed == 0 && !a.json {
			fmt.Fprintln(a.Stdout, "Nothing was written here yet. Be the first: reeve room send "+short(r.room)+" TEXT")
		}
		return err
	}
	path, err := sock.Path(a.Getenv)
	if err != nil {
		return err
	}
	n := &roomNews{app: a, room: r.room, came: make(chan struct{}, 1), ended: make(chan error, 1)}
	dial := func(ctx context.Context) (*client.Client, error) { return client.Dial(ctx, path, a.options()) }
	watching := client.Follow(ctx, dial, []string{wire.TopicRooms}, n)
	defer watching.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-n.ended:
			return err
		case <-n.came:
			// A service that went away in between is told of, and comes back.
			if err := r.read(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) && !errors.Is(err, client.ErrClosed) {
				return err
			}
		}
	}
}

// roomReader prints a room's messages, each once.
type roomReader struct {
	*app
	id      string // as it was asked for
	room    string // its whole id, once it is known
	after   string // the last message that was printed
	printed int
}

// read prints what came after the last message that was printed. It stops
// without an error when ctx ends.
func (r *roomReader) read(ctx context.Context) error {
	c, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		page, err := client.Do[wire.RoomMessagesResult](ctx, c, wire.MethodRoomMessages, wire.RoomMessagesParams{Room: r.id, After: r.after, Limit: 200})
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		r.room = page.Room.ID
		for _, m := range page.Messages {
			if err := r.print(m); err != nil {
				return err
			}
			r.after = m.ID
			r.printed++
		}
		if !page.More || len(page.Messages) == 0 {
			return nil
		}
	}
}

func (r *roomReader) print(m wire.RoomMessage) error {
	if r.json {
		return r.printJSON(m)
	}
	row := model.RoomRowOf(m, r.Now())
	who := r.style.bold(row.Who)
	switch {
	case row.Reeve:
		who = r.style.quiet(row.Who)
	case !row.You:
		who = r.style.accent(row.Who)
	}
	line := r.style.quiet(fmt.Sprintf("%-8s %s", oneLine(row.ID), row.When)) + "  " + who
	switch {
	case row.Answers != "":
		line += r.style.quiet(" answers " + row.Answers)
	case row.Kind == wire.RoomIntent:
		line += r.style.quiet(" is about to")
	}
	if r.printed > 0 {
		fmt.Fprintln(r.Stdout)
	}
	fmt.Fprintln(r.Stdout, line)
	for text := range strings.SplitSeq(row.Text, "\n") {
		fmt.Fprintln(r.Stdout, strings.TrimRight("  "+text, " "))
	}
	return nil
}

// roomNews hears of messages of a room. Its methods are called one at a time.
type roomNews struct {
	*app
	room  string
	came  chan struct{} // something may have been added; capacity 1
	ended chan error    // capacity 1
	lost  bool
}

func (n *roomNews) poke() {
	select {
	case n.came <- struct{}{}:
	default:
	}
}

func (n *roomNews) State(s client.State) {
	switch s.Phase {
	case client.Mismatch:
		select {
		case n.ended <- s.Err:
		default:
		}
	case client.Stopped, client.Closing:
		if !n.lost {
			n.lost = true
			fmt.Fprintln(n.Stderr, "The service ended; waiting for it to come back.")
		}
	case client.Connected:
		if n.lost {
			n.lost = false
			fmt.Fprintln(n.Stderr, "The service is back.")
		}
	}
}

func (n *roomNews) Snapshot(string, []json.RawMessage, string) { n.poke() }

func (n *roomNews) Delta(_ string, e wire.Event) {
	var m struct {
		Room string `json:"room_id"`
	}
	if json.Unmarshal(e.Data, &m) == nil && m.Room == n.room {
		n.poke()
	}
}

func (a *app) roomSend() *cobra.Command {
	return &cobra.Command{
		Use: "send MISSION|ROOM TEXT...", Short: "Write into a room",
		Long: `Write a message into a mission's room. It wakes the worker: a mission that waits
starts its next turn with it, and one that works gets it with the turn after.`,
		Example: `  reeve room send 3k9x2f "Does the lexer read bytes?"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("For example: reeve room send 3k9x2f \"Does the lexer read bytes?\".", "`reeve room send` takes a mission's or room's id and a text.")
			}
			return nil
		},
		ValidArgsFunction: a.completeMissions,
		RunE: func(c *cobra.Command, args []string) error {
			text := strings.Join(args[1:], " ")
			if strings.TrimSpace(text) == "" {
				return usage("For example: reeve room send 3k9x2f \"Does the lexer read bytes?\".", "The message is empty.")
			}
			if err := checkText("message", text); err != nil {
				return err
			}
			r, err := call[wire.RoomSendResult](c.Context(), a, wire.MethodRoomSend, wire.RoomSendParams{RequestKey: requestKey(), Room: args[0], Text: text})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			fmt.Fprintf(a.Stdout, "Written as %s.\n", oneLine(r.Message.ID))
			return nil
		},
	}
}
