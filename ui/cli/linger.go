package cli

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"

	"github.com/reevehq/reeve/ipc/wire"
)

// lingerDir is where systemd keeps a file for each user whose manager outlives
// the last session.
const lingerDir = "/var/lib/systemd/linger"

// lingers tells what a logout does to the service and its workers. Both live
// below the user's systemd manager where there is one, which ends with the last
// session unless the user lingers. ok is false where there is no such manager.
func (a *app) lingers() (c wire.Check, ok bool) {
	if runtime.GOOS != "linux" {
		return c, false
	}
	u, err := user.Current()
	if err != nil {
		return c, false
	}
	return lingering(a.Getenv("XDG_RUNTIME_DIR"), lingerDir, u.Username)
}

func lingering(runtimeDir, dir, name string) (c wire.Check, ok bool) {
	if runtimeDir == "" {
		return c, false
	}
	if _, err := os.Stat(filepath.Join(runtimeDir, "systemd", "private")); err != nil {
		return c, false
	}
	// Being without is no fault: it matters only to who logs out meanwhile.
	c = wire.Check{Name: "logging out", OK: true, Message: "Missions go on when you log out."}
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		c.Message = fmt.Sprintf("When you log out, the system may end the service and its workers: lingering is off for %s.", name)
		c.Fix = "To keep them running, run loginctl enable-linger."
	}
	return c, true
}
