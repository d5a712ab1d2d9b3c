package view

import (
	"strings"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"

	"github.com/reevehq/reeve/ui/model"
)

// entry is a field that leaves Escape and the window's shortcuts to the window.
type entry struct {
	widget.Entry
	onEscape func()
	onFocus  func(in bool)
}

func newEntry() *entry {
	e := &entry{}
	e.ExtendBaseWidget(e)
	return e
}

func newTextArea() *entry {
	e := &entry{}
	e.MultiLine = true
	e.Wrapping = fyne.TextWrapWord
	e.ExtendBaseWidget(e)
	return e
}

// TypedKey is Fyne's.
func (e *entry) TypedKey(k *fyne.KeyEvent) {
	if k.Name == fyne.KeyEscape {
		if e.onEscape != nil {
			e.onEscape()
			return
		}
		if c := fyne.CurrentApp().Driver().CanvasForObject(e); c != nil && c.OnTypedKey() != nil {
			c.OnTypedKey()(k)
		}
		return
	}
	e.Entry.TypedKey(k)
}

// TypedShortcut is Fyne's.
func (e *entry) TypedShortcut(s fyne.Shortcut) {
	if _, custom := s.(*desktop.CustomShortcut); custom {
		if c, ok := fyne.CurrentApp().Driver().CanvasForObject(e).(fyne.Shortcutable); ok {
			c.TypedShortcut(s)
			return
		}
	}
	e.Entry.TypedShortcut(s)
}

// FocusLost is Fyne's.
func (e *entry) FocusLost() {
	e.Entry.FocusLost()
	if e.onFocus != nil {
		e.onFocus(false)
	}
}

// oneLine makes text of any origin fit one line.
func oneLine(s string) string { return strings.Join(strings.Fields(model.Clean(s)), " ") }
