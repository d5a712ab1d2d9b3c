package view

import (
	"runtime"
	"strings"
)

// sessionBusTray tells whether tray icons live on the session bus.
const sessionBusTray = runtime.GOOS != "windows" && runtime.GOOS != "darwin"

// plainLabel writes a label of the tray's menu so that all of it is shown: menus
// of Windows take a single &, and those of the session bus a single _, for the
// mark of an access key. Those of macOS have none.
func plainLabel(system, label string) string {
	mark := "_"
	switch system {
	case "windows":
		mark = "&"
	case "darwin":
		return label
	}
	return strings.ReplaceAll(label, mark, mark+mark)
}
