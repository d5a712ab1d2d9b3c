package model

import (
	"strings"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

// Mend says what is wrong with an agent and what to do, and which command does
// it: the first that stands between backticks in the service's words, "" if none
// does or if something would hide in it.
func Mend(p wire.Provider) (said, command string) {
	said = strings.ReplaceAll(oneLine(strings.TrimSpace(p.Problem+" "+p.Fix)), "`", "")
	if parts := strings.SplitN(p.Fix, "`", 3); len(parts) == 3 && !strings.Contains(parts[1], "\n") && approval.Visible(parts[1]).Plain() == parts[1] {
		command = parts[1]
	}
	return said, command
}
