package proc

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
)

// Guarded is what is known about one guard and the processes it looks after.
type Guarded struct {
	// Root is the guard (or its keeper); everything below it is a worker.
	Root ID
	// What names a Root that is no guard: "the service".
	What string
	// Cgroups are control groups whose members are workers; on Windows, names
	// of jobs. The root group is ignored, since it holds everything.
	Cgroups []string
	// Sessions are session ids whose members are workers.
	Sessions []int
}

// Verdict says whether a process acts for a worker.
type Verdict struct {
	// Worker: the process must not decide anything for a person.
	Worker bool
	// Why is a sentence for the log and for people.
	Why string
	// Info is what was seen of the process, as far as it could be read.
	Info Info

	// line is how it came to be, from the process upwards. A link from one run
	// to the next is a session's leader, not a parent.
	line [][]Info
	// mntNS is the mount namespace of the process that judges.
	mntNS string
}

// DescendsFromGuard judges whether the process peer acts for a worker: by
// ancestry, control group, session and environment. Whoever cannot be judged
// is a worker. pidfd, when not nil, is a handle on the peer taken when it
// connected; a peer that has ended since is a worker.
//
// It cannot see delegation, a worker that asks another program of the same user
// to run something: see [Verdict.Doubt].
func DescendsFromGuard(peer int, pidfd *os.File, guards []Guarded) Verdict {
	if peer <= 0 {
		return Verdict{Worker: true, Why: "its process cannot be seen from here; it may live in another pid namespace"}
	}
	if !handleAlive(pidfd, peer) {
		return Verdict{Worker: true, Why: "its process has exited"}
	}
	own, err := Inspect(os.Getpid())
	if err != nil {
		return Verdict{Worker: true, Why: "the service could not look at itself: " + err.Error()}
	}
	if in, err := inJob(peer, guards); err != nil || in {
		return Verdict{Worker: true, Why: "it belongs to a worker's job, or that could not be told"}
	}
	v := classify(peer, Inspect, guards, own.PidNS)
	v.mntNS = own.MntNS
	if !v.Worker && !handleAlive(pidfd, peer) {
		return Verdict{Worker: true, Why: "its process has exited", Info: v.Info}
	}
	return v
}

// classify holds the rules. inspect is the only way it sees the system.
func classify(peer int, inspect func(int) (Info, error), guards []Guarded, ownNS string) Verdict {
	var v Verdict
	for range 5 {
		var err error
		v, err = judge(peer, inspect, guards, ownNS)
		if err == nil {
			return v
		}
		if !errors.Is(err, errShifting) {
			break
		}
		v.Why = errShifting.Error()
	}
	v.Worker = true
	return v
}

func judge(peer int, inspect func(int) (Info, error), guards []Guarded, ownNS string) (Verdict, error) {
	self, err := inspect(peer)
	if err != nil {
		if errors.Is(err, ErrGone) {
			return Verdict{Worker: true, Why: "its process has exited"}, nil
		}
		return Verdict{Worker: true, Why: "its process cannot be read: " + err.Error()}, nil
	}
	v := Verdict{Info: self}
	worker := func(why string, args ...any) (Verdict, error) {
		v.Worker, v.Why = true, fmt.Sprintf(why, args...)
		return v, nil
	}
	switch {
	case self.zombie:
		return worker("its process has exited")
	case self.PidNS != ownNS:
		return worker("it lives in another pid namespace")
	case !self.envRead:
		return worker("its environment cannot be read")
	}

	// Each round climbs one unbroken chain. A chain that was broken by the end
	// of a parent is continued at the session's leader, which forked it or
	// forked what forked it.
	at := peer
	for range 64 {
		chain, err := climb(at, inspect)
		if err != nil {
			if errors.Is(err, errShifting) {
				return v, err
			}
			return worker("an ancestor of it cannot be read: %v", err)
		}
		if why := mark(chain, guards); why != "" {
			return worker("%s", why)
		}
		i := firstOrphan(chain)
		if i < 0 {
			v.line = append(v.line, chain)
			v.Why = "none of its ancestors is a guard"
			return v, nil
		}
		v.line = append(v.line, chain[:i+1])
		orphan := chain[i]
		leader, err := inspect(orphan.SID)
		if err != nil || leader.zombie {
			return worker("process %d (%s) was left by its parent, and the leader of its session has ended", orphan.PID, orphan.Comm)
		}
		if at == leader.PID {
			return v, errShifting
		}
		at = leader.PID
	}
	return worker("its ancestry is too tangled to follow")
}

// mark returns the first sign in the chain that it belongs to a worker.
func mark(chain []Info, guards []Guarded) string {
	for i, p := range chain {
		who := "it"
		if i > 0 {
			who = fmt.Sprintf("its ancestor %d (%s)", p.PID, p.Comm)
		}
		if p.attempt != "" {
			return who + " carries the mark of a worker in its environment"
		}
		if p.guards != "" {
			return who + " carries the mark of a guard in its environment"
		}
		for _, g := range guards {
			if g.Root.PID != 0 && p.ID == g.Root {
				return who + " is " + cmp.Or(g.What, "the guard of a worker")
			}
			for _, s := range g.Sessions {
				if s > 0 && p.SID == s {
					return who + " belongs to the session of a worker"
				}
			}
			for _, c := range g.Cgroups {
				if within(p.Cgroup, c) {
					return who + " belongs to the control group of a worker"
				}
			}
		}
	}
	return ""
}

// within says whether the control group sub is group or lies inside it.
func within(sub, group string) bool {
	group = path.Clean("/" + group)
	if sub == "" || group == "/" {
		return false
	}
	sub = path.Clean(sub)
	return sub == group || len(sub) > len(group) && sub[:len(group)] == group && sub[len(group)] == '/'
}

// firstOrphan finds the lowest process of the chain whose present parent is
// not the one that made it, or returns -1. A child is born into its parent's session and
// leaves it only by leading its own; so one that leads none, and whose parent
// is in another session, was handed over when its parent ended (or its parent
// left the session since). The same is assumed below pid 1.
func firstOrphan(chain []Info) int {
	for i, p := range chain {
		if p.SID != p.PID && p.SID != 0 && i+1 < len(chain) && chain[i+1].SID != p.SID {
			return i
		}
	}
	return -1
}
