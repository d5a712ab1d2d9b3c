package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// TrayState is what the tray's icon says.
type TrayState string

// The states of the tray; the values are the names of its icons.
const (
	TrayNoService TrayState = "no-service"
	TrayIdle      TrayState = "idle"
	TrayWorking   TrayState = "working"
	TrayNeedsYou  TrayState = "needs-you"
	TrayBlocked   TrayState = "blocked"
	TrayUpdating  TrayState = "updating"
)

// Do is what choosing a menu item does.
type Do string

// The verbs of the tray's menu. Those for missions and approvals come with an
// id.
const (
	DoNothing      Do = "" // a heading, or a menu of its own
	DoReview       Do = "review"
	DoOpenMission  Do = "open-mission"
	DoPause        Do = "pause"
	DoResume       Do = "resume"
	DoRecover      Do = "recover"
	DoStop         Do = "stop"
	DoSettle       Do = "settle"
	DoPauseAll     Do = "pause-all"
	DoNewMission   Do = "new-mission"
	DoOpen         Do = "open"
	DoStartService Do = "start-service"
	DoStopService  Do = "stop-service"
	DoRestart      Do = "restart-service"
	DoInstall      Do = "install-service"
	DoQuit         Do = "quit"
)

// MenuItem is one line of the tray's menu. An item with neither label nor
// verb separates.
type MenuItem struct {
	Label    string
	Do       Do
	ID       string
	Disabled bool
	Items    []MenuItem
}

// Separator reports whether the item is a line between others.
func (m MenuItem) Separator() bool { return m.Label == "" && m.Do == DoNothing }

// Tray is the icon, its words and its menu.
type Tray struct {
	State   TrayState
	Count   int // missions working, or what waits: approvals and uncertain effects, or blocked missions
	Tooltip string
	Menu    []MenuItem
}

// menuWidth is where titles in the menu are cut, in characters.
const menuWidth = 60

// Tray says what the tray shows.
func (s *State) Tray(now time.Time) Tray {
	t := Tray{}
	waiting, doubts, pending := s.Pending(""), s.Doubts(""), s.pendingByMission()
	var live, working, blocked int
	var missions []MenuItem
	for _, m := range s.sorted() {
		p := mission.Phase(m.Phase)
		if !p.Live() {
			continue
		}
		live++
		row := s.row(m, pending[m.ID], now)
		if p == mission.Blocked {
			blocked++
		}
		if row.Shape == ShapeWorking {
			working++
		}
		missions = append(missions, missionMenu(row, p))
	}
	link, text := s.Link()
	switch {
	case link == Updating, link == Running && text != "":
		t.State, t.Tooltip = TrayUpdating, text
	case link != Running:
		t.State, t.Tooltip = TrayNoService, text
	case len(waiting)+len(doubts) > 0:
		t.State, t.Count = TrayNeedsYou, len(waiting)+len(doubts)
		var parts []string
		if n := len(waiting); n > 0 {
			parts = append(parts, say.N(n, "%d approval waits for you", "%d approvals wait for you"))
		}
		if n := len(doubts); n > 0 {
			parts = append(parts, say.N(n, "%d effect is uncertain", "%d effects are uncertain"))
		}
		t.Tooltip = strings.Join(parts, ", ")
	case blocked > 0:
		t.State, t.Count = TrayBlocked, blocked
		t.Tooltip = say.N(blocked, "%d mission is blocked and needs you", "%d missions are blocked and need you")
	case !s.sees():
		t.State, t.Tooltip = TrayNoService, say.T("Connecting to the service.")
	case live > 0:
		t.State, t.Count = TrayWorking, working
		t.Tooltip = say.N(live, "%d mission under way", "%d missions under way")
		if working > 0 && working < live {
			t.Tooltip += ", " + say.N(working, "%d working", "%d working")
		}
	default:
		t.State, t.Tooltip = TrayIdle, say.T("No mission is running")
	}
	t.Tooltip = "Reeve: " + t.Tooltip

	if link == Running {
		for _, a := range waiting {
			label := cut(fmt.Sprintf("▲ %s %s", oneLine(a.Title), s.Wants(a)), menuWidth)
			t.Menu = append(t.Menu, MenuItem{Label: label, Do: DoReview, ID: a.ID})
		}
		for i, e := range doubts {
			if slices.ContainsFunc(doubts[:i], func(o wire.Effect) bool { return o.Mission == e.Mission }) {
				continue // one line a mission
			}
			line := doubt(s.Doubts(e.Mission)).String()
			if m, ok := s.missions[e.Mission]; ok {
				line = oneLine(m.Title) + ": " + line
			}
			t.Menu = append(t.Menu, MenuItem{Label: cut("▲ "+line, menuWidth), Do: DoSettle, ID: e.Mission})
		}
		if len(waiting)+len(doubts) > 0 {
			t.Menu = append(t.Menu, MenuItem{})
		}
		t.Menu = append(t.Menu, missions...)
		if len(missions) > 0 {
			t.Menu = append(t.Menu, MenuItem{})
		}
		t.Menu = append(t.Menu, MenuItem{Label: say.T("New mission…"), Do: DoNewMission})
	}
	t.Menu = append(t.Menu, MenuItem{Label: say.T("Open Reeve"), Do: DoOpen})
	if link == Running {
		t.Menu = append(t.Menu, MenuItem{Label: say.T("Pause all"), Do: DoPauseAll, Disabled: live == 0})
	}
	t.Menu = append(t.Menu,
		MenuItem{Label: say.T("Service"), Items: []MenuItem{
			{Label: say.T("Start"), Do: DoStartService, Disabled: link != NoService},
			{Label: say.T("Stop"), Do: DoStopService, Disabled: link != Running},
			{Label: say.T("Restart"), Do: DoRestart, Disabled: link != Running},
			{Label: say.T("Start at every log-on"), Do: DoInstall, Disabled: s.Unmanaged || link != Running && link != NoService},
		}},
		MenuItem{},
		MenuItem{Label: say.T("Quit desktop (the service goes on)"), Do: DoQuit})
	return t
}

func missionMenu(row Row, p mission.Phase) MenuItem {
	// Menus are drawn in the desktop's own font, which often lacks ⏸.
	glyph := strings.Replace(row.Shape.Glyph(), "⏸", "‖", 1)
	item := MenuItem{Label: cut(glyph+" "+row.Title+", "+row.Time, menuWidth), ID: row.ID}
	item.Items = append(item.Items, MenuItem{Label: say.T("Open"), Do: DoOpenMission, ID: row.ID})
	if row.Action == Recover {
		item.Items = append(item.Items, MenuItem{Label: say.T("Recover…"), Do: DoRecover, ID: row.ID})
	} else if p == mission.Paused || p == mission.Blocked {
		item.Items = append(item.Items, MenuItem{Label: say.T("Resume"), Do: DoResume, ID: row.ID,
			Disabled: p == mission.Blocked && row.Action == NoAction})
	} else {
		item.Items = append(item.Items, MenuItem{Label: say.T("Pause"), Do: DoPause, ID: row.ID,
			Disabled: p == mission.Stopping || p == mission.Starting})
	}
	item.Items = append(item.Items, MenuItem{Label: say.T("Stop…"), Do: DoStop, ID: row.ID, Disabled: p == mission.Stopping})
	return item
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return strings.TrimRight(string(r[:n-1]), " ") + "…"
}
