package view

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode"

	"fyne.io/fyne/v2"
	"github.com/godbus/dbus/v5"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
)

// notifier tells the desktop. A notification never decides anything: its
// button opens the dialog.
type notifier interface {
	send(model.Note)
	// settle takes back what asked for something that waits no longer.
	settle(waits func(model.Note) bool)
	// listen waits for clicks until ctx ends.
	listen(ctx context.Context)
	close()
}

// notifyDue sends what the model has ready, and comes back when it asks to.
func (d *desk) notifyDue() {
	d.notes.Keep(d.st.Waits)
	note, ok, wait := d.notes.Next(d.now())
	if ok && d.notifier != nil {
		d.notifier.send(note)
		_, _, wait = d.notes.Next(d.now())
	}
	if wait <= 0 || d.noteTimer {
		return
	}
	d.noteTimer = true
	d.background(func(ctx context.Context) {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
			d.do(func() {
				d.noteTimer = false
				d.notifyDue()
			})
		case <-ctx.Done():
		}
	})
}

// settleNotes takes back what was told of approvals that wait no longer, and of
// uncertain effects that were settled.
func (d *desk) settleNotes() {
	d.notifier.settle(func(n model.Note) bool {
		switch n.Do {
		case model.DoReview:
			a, ok := d.st.Approval(n.ID)
			return ok && a.State == string(approval.Pending)
		case model.DoSettle:
			return len(d.st.Doubts(n.ID)) > 0
		}
		return true
	})
}

const (
	noteName  = "org.freedesktop.Notifications"
	notePath  = "/org/freedesktop/Notifications"
	noteLimit = 2 * time.Second
)

// busNotifier speaks to the notification service on the session bus, and falls
// back to Fyne's own notifications without it.
type busNotifier struct {
	d     *desk
	conn  *dbus.Conn // nil: no session bus
	queue chan model.Note
	gone  chan uint32

	mu   sync.Mutex
	open map[uint32]model.Note // what a click on each opens
}

func newNotifier(d *desk) notifier {
	n := &busNotifier{d: d, queue: make(chan model.Note, 16), gone: make(chan uint32, 16), open: map[uint32]model.Note{}}
	if !sessionBusTray {
		return n
	}
	conn, err := sessionBus()
	if err == nil {
		n.conn = conn
	}
	return n
}

// send never waits: where notifications pile up, the oldest give way.
func (n *busNotifier) send(note model.Note) {
	for {
		select {
		case n.queue <- note:
			return
		default:
		}
		select {
		case <-n.queue:
		default:
		}
	}
}

func (n *busNotifier) settle(waits func(model.Note) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, note := range n.open {
		if waits(note) {
			continue
		}
		select {
		case n.gone <- id:
			delete(n.open, id)
		default: // the next change tries again
		}
	}
}

func (n *busNotifier) listen(ctx context.Context) {
	signals := make(chan *dbus.Signal, 32)
	if n.conn != nil {
		_ = n.conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(noteName), dbus.WithMatchObjectPath(notePath))
		n.conn.Signal(signals)
	}
	for {
		select {
		case note := <-n.queue:
			if !n.notify(ctx, note) {
				n.d.do(func() { n.d.app.SendNotification(fyne.NewNotification(harmless(note.Title), harmless(note.Body))) })
			}
		case id := <-n.gone:
			n.withdraw(ctx, id)
		case s, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			n.signal(s)
		case <-ctx.Done():
			return
		}
	}
}

// notify returns false when the session has no notification service.
func (n *busNotifier) notify(ctx context.Context, note model.Note) bool {
	if n.conn == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	actions := []string{"default", say.T("Open")}
	if note.Do == model.DoReview {
		actions = []string{"default", say.T("Review"), "review", say.T("Review")}
	}
	hints := map[string]dbus.Variant{"desktop-entry": dbus.MakeVariant("reeve-desktop"), "urgency": dbus.MakeVariant(byte(1))}
	expire := int32(-1)
	if note.Urgent {
		expire = 0 // until it is dismissed
	}
	var id uint32
	err := n.conn.Object(noteName, notePath).CallWithContext(ctx, noteName+".Notify", 0,
		"Reeve", uint32(0), "reeve", note.Title, escape(note.Body), actions, hints, expire).Store(&id)
	if err != nil {
		return false
	}
	n.mu.Lock()
	n.open[id] = note
	n.mu.Unlock()
	return true
}

func (n *busNotifier) withdraw(ctx context.Context, id uint32) {
	ctx, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	_ = n.conn.Object(noteName, notePath).CallWithContext(ctx, noteName+".CloseNotification", 0, id).Err
}

func (n *busNotifier) signal(s *dbus.Signal) {
	if len(s.Body) < 2 {
		return
	}
	id, ok := s.Body[0].(uint32)
	if !ok {
		return
	}
	n.mu.Lock()
	note, ours := n.open[id]
	if s.Name == noteName+".NotificationClosed" {
		delete(n.open, id)
	}
	n.mu.Unlock()
	if ours && s.Name == noteName+".ActionInvoked" {
		n.d.do(func() { n.d.act(note.Do, note.ID) })
	}
}

func (n *busNotifier) close() {
	if n.conn != nil {
		_ = n.conn.Close()
	}
}

// escape keeps what an agent wrote from being read as the markup that
// notification services know.
func escape(s string) string { return markup.Replace(s) }

var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// harmless is what of a text may go to Fyne, which on Windows writes it into a
// PowerShell script, where $( ) would run what an agent wrote, and on macOS into
// an AppleScript: letters, digits, spaces and signs that mean nothing inside the
// quotes of either. All else is replaced, whatever Fyne may escape by itself.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.L, unicode.M, unicode.Nd), strings.ContainsRune(" .,:;!?()[]<>-+/=_'·…–—‹›、。・「」", r):
			return r
		case unicode.IsSpace(r):
			return ' '
		case strings.ContainsRune("\"“”„‟‘’‚‛«»", r):
			return '\''
		}
		return '_'
	}, s)
}
