package e2e

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

const (
	watcherName = "org.kde.StatusNotifierWatcher"
	itemName    = "org.kde.StatusNotifierItem"
	menuName    = "com.canonical.dbusmenu"
	notesName   = "org.freedesktop.Notifications"
)

// trayHost is a tray host of ours: it reads what a panel would draw.
type trayHost struct {
	s       *screen
	conn    *dbus.Conn
	signals chan *dbus.Signal

	mu    sync.Mutex
	item  string // the bus name of the item
	names chan string
}

// trayHost owns the tray of the session.
func (s *screen) trayHost() *trayHost {
	s.t.Helper()
	h := &trayHost{s: s, conn: s.connect(), signals: make(chan *dbus.Signal, 1000), names: make(chan string, 10)}
	h.must(h.conn.Export(watcher{h}, "/StatusNotifierWatcher", watcherName))
	_, err := prop.Export(h.conn, "/StatusNotifierWatcher", prop.Map{watcherName: {
		"IsStatusNotifierHostRegistered": {Value: true}, "ProtocolVersion": {Value: int32(0)},
		"RegisteredStatusNotifierItems": {Value: []string{}}}})
	h.must(err)
	for _, name := range []string{itemName, menuName, "org.freedesktop.DBus.Properties"} {
		h.must(h.conn.AddMatchSignal(dbus.WithMatchInterface(name)))
	}
	h.conn.Signal(h.signals)
	s.own(h.conn, watcherName)
	return h
}

func (h *trayHost) must(err error) {
	h.s.t.Helper()
	if err != nil {
		h.s.t.Fatal(err)
	}
}

func (s *screen) own(c *dbus.Conn, name string) {
	s.t.Helper()
	if r, err := c.RequestName(name, dbus.NameFlagDoNotQueue); err != nil || r != dbus.RequestNameReplyPrimaryOwner {
		s.t.Fatalf("own %s: %v %v", name, r, err)
	}
}

// watcher is the door for items.
type watcher struct{ h *trayHost }

// RegisterStatusNotifierItem is called by an item that wants to be shown.
func (w watcher) RegisterStatusNotifierItem(name string, from dbus.Sender) *dbus.Error {
	if strings.HasPrefix(name, "/") {
		name = string(from)
	}
	w.h.names <- name
	return nil
}

// RegisterStatusNotifierHost is called by hosts; there is one.
func (w watcher) RegisterStatusNotifierHost(string) *dbus.Error { return nil }

// registered waits for the next item.
func (h *trayHost) registered() {
	h.s.t.Helper()
	select {
	case name := <-h.names:
		h.mu.Lock()
		h.item = name
		h.mu.Unlock()
	case <-time.After(waitLimit):
		h.s.t.Fatal("no tray item was registered")
	}
}

// look is what the item says at one moment.
type look struct {
	icon    string // digest of its pixels
	tooltip string
	menu    []menuItem
}

// menuItem is one line of the menu.
type menuItem struct {
	id       int32
	label    string
	disabled bool
	items    []menuItem
}

// look reads the item; ok is false while it is being changed.
func (h *trayHost) look() (look, bool) {
	h.mu.Lock()
	item := h.item
	h.mu.Unlock()
	var l look
	var props map[string]dbus.Variant
	if h.conn.Object(item, "/StatusNotifierItem").Call("org.freedesktop.DBus.Properties.GetAll", 0, itemName).Store(&props) != nil {
		return l, false
	}
	var pixmaps []struct {
		W, H int32
		Data []byte
	}
	if dbus.Store([]any{props["IconPixmap"].Value()}, &pixmaps) != nil || len(pixmaps) == 0 || len(pixmaps[0].Data) != int(4*pixmaps[0].W*pixmaps[0].H) {
		return l, false
	}
	l.icon = fmt.Sprintf("%x", sha256.Sum256(pixmaps[0].Data))[:12]
	var tip struct {
		Icon        string
		Pixmaps     []any
		Title, Text string
	}
	if v, ok := props["ToolTip"]; ok {
		_ = dbus.Store([]any{v.Value()}, &tip)
	}
	l.tooltip = tip.Title
	path, ok := props["Menu"].Value().(dbus.ObjectPath)
	if !ok {
		return l, false
	}
	var rev uint32
	var root layout
	if h.conn.Object(item, path).Call(menuName+".GetLayout", 0, int32(0), int32(-1), []string{}).Store(&rev, &root) != nil {
		return l, false
	}
	l.menu = root.items()
	return l, true
}

// unmarked makes of a label what a panel shows of it: of two underscores one,
// and none of a single one, which marks the access key.
var unmarked = strings.NewReplacer("__", "_", "_", "")

// layout is a menu on the wire.
type layout struct {
	ID    int32
	Props map[string]dbus.Variant
	Kids  []dbus.Variant
}

func (l layout) items() []menuItem {
	var out []menuItem
	for _, k := range l.Kids {
		var kid layout
		if dbus.Store([]any{k.Value()}, &kid) != nil {
			continue
		}
		it := menuItem{id: kid.ID, items: kid.items()}
		label, _ := kid.Props["label"].Value().(string)
		it.label = unmarked.Replace(label)
		if on, ok := kid.Props["enabled"].Value().(bool); ok {
			it.disabled = !on
		}
		if kind, _ := kid.Props["type"].Value().(string); kind == "separator" {
			it.label = ""
		}
		out = append(out, it)
	}
	return out
}

// wait reads the item at every signal of it until cond holds.
func (h *trayHost) wait(what string, cond func(look) bool) look {
	h.s.t.Helper()
	deadline := time.After(waitLimit)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	var l look
	for {
		var ok bool
		if l, ok = h.look(); ok && cond(l) {
			return l
		}
		select {
		case <-h.signals:
		case <-again.C:
		case <-deadline:
			h.s.shot("timeout")
			h.s.t.Fatalf("waited in the tray for %s; it says %q, menu %v", what, l.tooltip, l.labels())
		}
	}
}

// says waits for a tooltip.
func (h *trayHost) says(tooltip string) look {
	h.s.t.Helper()
	return h.wait(tooltip, func(l look) bool { return l.tooltip == tooltip })
}

// labels are those of the menu's first level.
func (l look) labels() []string {
	var out []string
	for _, it := range l.menu {
		out = append(out, it.label)
	}
	return out
}

// find looks for the first item whose label starts with part, in submenus by
// more parts.
func find(items []menuItem, parts ...string) (menuItem, bool) {
	for _, it := range items {
		if !strings.HasPrefix(it.label, parts[0]) {
			continue
		}
		if len(parts) == 1 {
			return it, true
		}
		if found, ok := find(it.items, parts[1:]...); ok {
			return found, true
		}
	}
	return menuItem{}, false
}

// choose clicks an item of the menu, by its label.
func (h *trayHost) choose(parts ...string) {
	h.s.t.Helper()
	var it menuItem
	h.wait(fmt.Sprintf("the menu item %v", parts), func(l look) (ok bool) {
		it, ok = find(l.menu, parts...)
		return ok && !it.disabled
	})
	click := func() error {
		return h.conn.Object(h.item, "/StatusNotifierMenu").Call(menuName+".Event", 0, it.id, "clicked", dbus.MakeVariant(""), uint32(0)).Err
	}
	h.must(click())
	// Ids change with every refresh of the menu: a click on an old one is lost. So
	// it is made again where the item has another id right after it. One that was
	// not lost may have ended the program meanwhile.
	for {
		l, ok := h.look()
		now, there := find(l.menu, parts...)
		if !ok || !there || now.disabled || now.id == it.id {
			return
		}
		if it = now; click() != nil {
			return
		}
	}
}

// notes is a notification service of ours.
type notes struct {
	s    *screen
	conn *dbus.Conn

	mu      sync.Mutex
	changed chan struct{}
	shown   []note
	closed  []uint32
}

// note is one notification as a program asked for it.
type note struct {
	id      uint32
	app     string
	summary string
	body    string
	actions []string
	expire  int32
}

// notes owns the notifications of the session.
func (s *screen) notes() *notes {
	s.t.Helper()
	n := &notes{s: s, conn: s.connect(), changed: make(chan struct{})}
	if err := n.conn.Export(notesDoor{n}, "/org/freedesktop/Notifications", notesName); err != nil {
		s.t.Fatal(err)
	}
	s.own(n.conn, notesName)
	return n
}

type notesDoor struct{ n *notes }

// Notify is called to show a notification.
func (d notesDoor) Notify(app string, _ uint32, _, summary, body string, actions []string, _ map[string]dbus.Variant, expire int32) (uint32, *dbus.Error) {
	n := d.n
	n.mu.Lock()
	defer n.mu.Unlock()
	id := uint32(len(n.shown) + 1)
	n.shown = append(n.shown, note{id, app, summary, body, actions, expire})
	n.tell()
	return id, nil
}

// CloseNotification is called to take one back.
func (d notesDoor) CloseNotification(id uint32) *dbus.Error {
	n := d.n
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = append(n.closed, id)
	n.tell()
	return nil
}

// GetCapabilities is the protocol's.
func (d notesDoor) GetCapabilities() ([]string, *dbus.Error) {
	return []string{"actions", "body"}, nil
}

// GetServerInformation is the protocol's.
func (d notesDoor) GetServerInformation() (string, string, string, string, *dbus.Error) {
	return "e2e", "reeve", "1", "1.2", nil
}

func (n *notes) tell() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// wait returns when cond holds of all notifications so far.
func (n *notes) wait(what string, cond func(shown []note, closed []uint32) bool) {
	n.s.t.Helper()
	deadline := time.After(waitLimit)
	for {
		n.mu.Lock()
		ok, changed := cond(n.shown, n.closed), n.changed
		n.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			n.s.t.Fatalf("waited for %s; notifications: %+v", what, n.all())
		}
	}
}

func (n *notes) all() []note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.shown)
}

// one waits for a notification with this summary and returns it.
func (n *notes) one(summary string) note {
	n.s.t.Helper()
	var found note
	n.wait("the notification "+summary, func(shown []note, _ []uint32) bool {
		i := slices.IndexFunc(shown, func(x note) bool { return x.summary == summary })
		if i >= 0 {
			found = shown[i]
		}
		return i >= 0
	})
	return found
}

// act clicks an action of a notification.
func (n *notes) act(id uint32, action string) {
	n.s.t.Helper()
	if err := n.conn.Emit("/org/freedesktop/Notifications", notesName+".ActionInvoked", id, action); err != nil {
		n.s.t.Fatal(err)
	}
}
