// Package osservice registers Reeve's service with the system's own service
// manager, for the current user: a systemd user unit, a LaunchAgent, or on
// Windows a launcher below the Service Control Manager, and without admin rights
// a log-on entry. The manager starts the service at log-on and again after a
// crash.
//
// It knows nothing of the service itself: whether that answers is for its
// clients to say.
package osservice

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Unit is what is registered.
type Unit struct {
	Exe  string            // the program, by an absolute path
	Args []string          // its arguments
	Env  map[string]string // what it needs beyond the manager's own environment
}

// What the manager does with the service, in Registration.State.
const (
	StateStopped  = "stopped"
	StateStarting = "starting" // also: waiting for the next try
	StateRunning  = "running"  // as far as the manager knows
	StateStopping = "stopping"
	StateFailed   = "failed" // it ended in error, and is not started again
)

// Registration is how the service stands with the manager.
type Registration struct {
	// Manager is systemd, launchd or windows; "" where there is none that can be
	// used. Then Why says why, and Fix what to do.
	Manager  string
	Why, Fix string

	Registered bool
	File       string // where it is written, or would be
	// Exe, Args and Env are the registered unit.
	Exe  string
	Args []string
	Env  map[string]string
	// Edited says that the file is not as Reeve writes it; Overrides are files
	// that change it from elsewhere.
	Edited    bool
	Overrides []string
	AtLogon   bool // it is started at log-on

	State    string // one of State...
	PID      int    // 0 when no process is known
	Restarts int    // how often the manager started it again
	GaveUp   bool   // it ended in error too often, and the manager gave up
	Exit     int    // how the last process ended; 0: well, or unknown
	Said     string // the last words of the service to its manager, if any
}

// NoManagerError says that there is no manager that can be used.
type NoManagerError struct{ Why, Fix string }

func (e *NoManagerError) Error() string { return strings.TrimSpace(e.Why + " " + e.Fix) }

// ErrNotRegistered is returned for what needs a registration.
var ErrNotRegistered = errors.New("the service is not registered with the system")

// check refuses what no manager's format can hold.
func (u Unit) check() error {
	if !filepath.IsAbs(u.Exe) {
		return fmt.Errorf("register %q: it is no absolute path", u.Exe)
	}
	for _, s := range u.texts() {
		if !utf8.ValidString(s) {
			return fmt.Errorf("register %q: it is not valid UTF-8, which the system's service manager needs; rename it", s)
		}
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("register %q: it has a NUL in it", s)
		}
	}
	return nil
}

// texts is every string of the unit.
func (u Unit) texts() []string {
	out := append([]string{u.Exe}, u.Args...)
	for k, v := range u.Env {
		out = append(out, k, v)
	}
	return out
}

// fill copies the unit into the registration.
func (r *Registration) fill(u Unit) { r.Exe, r.Args, r.Env = u.Exe, u.Args, u.Env }
