package view

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/systray"
	"github.com/godbus/dbus/v5"

	"github.com/reevehq/reeve/ui/model"
)

// tray is the icon with its menu. It is handed to the desktop anew only when
// its model changed, because an open menu closes with it.
type tray struct {
	d     *desk
	host  desktop.App
	shown model.Tray
	first bool
}

// newTray returns nil where no tray can be.
func newTray(d *desk) *tray {
	host, ok := d.app.(desktop.App)
	if !ok || sessionBusTray && !hasSessionBus() {
		// Without a bus there is no place for an icon, and Fyne, which would
		// make one all the same, fails when it comes to take it away.
		return nil
	}
	t := &tray{d: d, host: host, first: true}
	t.refresh()
	return t
}

func (t *tray) refresh() {
	now := t.d.st.Tray(t.d.now())
	if t.first || now.State != t.shown.State {
		t.host.SetSystemTrayIcon(trayIcon(now.State))
	}
	if t.first || !reflect.DeepEqual(now.Menu, t.shown.Menu) {
		t.host.SetSystemTrayMenu(menuOf(now.Menu, t.d.act))
	}
	if t.first || now.Tooltip != t.shown.Tooltip {
		systray.SetTooltip(now.Tooltip)
	}
	t.shown, t.first = now, false
}

// menuOf turns the model's menu into Fyne's.
func menuOf(items []model.MenuItem, act func(model.Do, string)) *fyne.Menu {
	m := fyne.NewMenu("Reeve")
	for _, it := range items {
		if it.Separator() {
			m.Items = append(m.Items, fyne.NewMenuItemSeparator())
			continue
		}
		item := fyne.NewMenuItem(plainLabel(runtime.GOOS, it.Label), nil)
		item.Disabled = it.Disabled
		switch {
		case len(it.Items) > 0:
			item.ChildMenu = menuOf(it.Items, act)
		case it.Do != model.DoNothing:
			item.Action = func() { act(it.Do, it.ID) }
		}
		item.IsQuit = it.Do == model.DoQuit
		m.Items = append(m.Items, item)
	}
	return m
}

// busLimit bounds a question to the session bus.
const busLimit = 2 * time.Second

// trayHost tells whether this desktop has a place for tray icons. Other systems
// than those with a session bus always have one.
func trayHost() bool {
	if !sessionBusTray {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), busLimit)
	defer cancel()
	c, err := sessionBus(dbus.WithContext(ctx))
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	var has bool
	err = c.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, "org.kde.StatusNotifierWatcher").Store(&has)
	return err == nil && has
}

// sessionBus connects to the session bus. One that nobody started is not started
// for a look, which the library would do.
func sessionBus(o ...dbus.ConnOption) (*dbus.Conn, error) {
	if os.Getenv("DBUS_SESSION_BUS_ADDRESS") == "" {
		dir := os.Getenv("XDG_RUNTIME_DIR")
		if _, err := os.Stat(filepath.Join(dir, "bus")); dir == "" || err != nil {
			return nil, errors.New("there is no session bus")
		}
	}
	return dbus.ConnectSessionBus(o...)
}

// hasSessionBus tells whether a session bus answers.
func hasSessionBus() bool {
	ctx, cancel := context.WithTimeout(context.Background(), busLimit)
	defer cancel()
	c, err := sessionBus(dbus.WithContext(ctx))
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}
