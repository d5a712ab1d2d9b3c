package osservice

import (
	"errors"
	"slices"
	"time"

	"github.com/kardianos/service"
)

// errLaunch says that Launch has no use here.
var errLaunch = errors.New("the launcher is for Windows; use `reeve service start`")

// nothing is for kardianos/service, which wants a program even where it only
// registers one.
type nothing struct{}

func (nothing) Start(service.Service) error { return nil }
func (nothing) Stop(service.Service) error  { return nil }

// How the Windows launcher repairs, which is how the other managers are told to.
const (
	launchWait   = time.Second
	launchWindow = time.Minute
	launchLimit  = 5 // starts within launchWindow
)

// tries remembers when a service was started, and decides whether it is started
// again after its end.
type tries struct{ at []time.Time }

func (t *tries) started(now time.Time) { t.at = append(t.at, now) }

// again says whether a service that ended with the code is started again, after
// launchWait.
func (t *tries) again(code int, now time.Time) bool {
	switch code {
	case 0, 4, 7: // an orderly end, or one that another try would only repeat
		return false
	}
	n := 0
	for _, at := range t.at {
		if now.Sub(at) < launchWindow {
			t.at[n] = at
			n++
		}
	}
	t.at = t.at[:n]
	return n < launchLimit
}

// session is somebody's session on this machine.
type session struct {
	id   uint32
	user string
}

// sessions says in which of a user's sessions the service is started: one process
// for each user, in the first session. A process ends with its session.
type sessions map[string]uint32 // where the user's process is

// update takes the sessions that there are now, oldest first, and returns those
// in which to start a process.
func (s sessions) update(now []session) (start []session) {
	for user, id := range s {
		if !slices.Contains(now, session{id, user}) {
			delete(s, user)
		}
	}
	for _, n := range now {
		if _, ok := s[n.user]; !ok {
			s[n.user] = n.id
			start = append(start, n)
		}
	}
	return start
}
