//go:build linux

package proc

import (
	"errors"
	"testing"
)

// The processes of the table: pid 1, a login (10) with a shell (11), a service
// manager (20) with a desktop shell (21), a guard (50) with its provider (60).
func system() map[int]Info {
	m := make(map[int]Info)
	add := func(pid, ppid, sid int, start uint64, comm string) {
		m[pid] = Info{ID: ID{pid, start, "b"}, PPID: ppid, SID: sid, Comm: comm, PidNS: "ns", Cgroup: "/user", envRead: true}
	}
	add(1, 0, 1, 1, "init")
	add(10, 1, 10, 10, "sshd")
	add(11, 10, 11, 11, "bash")
	add(20, 1, 20, 12, "systemd")
	add(21, 20, 21, 13, "gnome-shell")
	add(50, 1, 50, 50, "reeve")
	add(60, 50, 60, 60, "claude")
	return m
}

func TestClassify(t *testing.T) {
	guards := []Guarded{{Root: ID{50, 50, "b"}, Cgroups: []string{"/", "/user/reeve-a"}, Sessions: []int{0, 60}}, {Root: ID{51, 51, "b"}}}
	type tweak func(m map[int]Info, p *Info)
	for _, c := range []struct {
		name      string
		ppid, sid int
		tweak     tweak
		worker    bool
	}{
		{"a command in a terminal", 11, 11, nil, false},
		{"a command in a terminal that leads", 11, 100, nil, false},
		{"a desktop program under the service manager", 20, 100, nil, false},
		{"a desktop program, forked twice, leader alive", 20, 21, nil, false},
		{"forked twice below pid 1, leader alive", 1, 21, nil, false},
		{"a daemon", 1, 100, nil, false},
		{"from another process id space above", 0, 0, nil, false},

		{"the guard's child", 50, 100, nil, true},
		{"the provider's child", 60, 60, nil, true},
		{"the provider's child that leads", 60, 100, nil, true},
		{"an orphan that the guard adopted", 50, 99, nil, true},
		{"an orphan at pid 1 in the provider's session", 1, 60, nil, true},
		{"an orphan whose leader has ended", 1, 99, nil, true},
		{"an orphan at the service manager whose leader has ended", 20, 99, nil, true},
		{"an orphan whose leader is a zombie", 20, 21, func(m map[int]Info, _ *Info) {
			l := m[21]
			l.zombie = true
			m[21] = l
		}, true},
		{"an orphan whose leader descends from the guard", 20, 61, func(m map[int]Info, _ *Info) {
			m[61] = Info{ID: ID{61, 61, "b"}, PPID: 50, SID: 61, PidNS: "ns", envRead: true}
		}, true},
		{"an orphan of an orphan's session", 20, 61, func(m map[int]Info, _ *Info) {
			m[61] = Info{ID: ID{61, 61, "b"}, PPID: 62, SID: 61, PidNS: "ns", envRead: true}
			m[62] = Info{ID: ID{62, 60, "b"}, PPID: 1, SID: 60, PidNS: "ns", envRead: true}
		}, true},
		{"a daemon in the worker's cgroup", 1, 100, func(_ map[int]Info, p *Info) { p.Cgroup = "/user/reeve-a" }, true},
		{"a daemon in a cgroup below the worker's", 1, 100, func(_ map[int]Info, p *Info) { p.Cgroup = "/user/reeve-a/deep/x" }, true},
		{"a daemon in a cgroup of a like name", 1, 100, func(_ map[int]Info, p *Info) { p.Cgroup = "/user/reeve-ab" }, false},
		{"a daemon with the mark", 1, 100, func(_ map[int]Info, p *Info) { p.attempt = "a-1" }, true},
		{"a child of a marked shell", 11, 11, func(m map[int]Info, _ *Info) {
			s := m[11]
			s.attempt = "a-1"
			m[11] = s
		}, true},
		{"another pid namespace", 11, 11, func(_ map[int]Info, p *Info) { p.PidNS = "other" }, true},
		{"a namespace that may not be read", 11, 11, func(_ map[int]Info, p *Info) { p.PidNS = "" }, true},
		{"an environment that may not be read", 11, 11, func(_ map[int]Info, p *Info) { p.envRead = false }, true},
		{"an ancestor that may not be read", 12, 11, nil, true},
		{"exited", 11, 11, func(_ map[int]Info, p *Info) { p.zombie = true }, true},
		{"a parent that is younger", 11, 11, func(m map[int]Info, _ *Info) {
			s := m[11]
			s.Start = 1000
			m[11] = s
		}, true},
		{"the pid of a guard that ended, used again", 51, 51, func(m map[int]Info, _ *Info) {
			m[51] = Info{ID: ID{51, 55, "b"}, PPID: 1, SID: 51, PidNS: "ns", envRead: true}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := system()
			p := Info{ID: ID{100, 100, "b"}, PPID: c.ppid, SID: c.sid, PidNS: "ns", Cgroup: "/user", Comm: "reeve", envRead: true}
			if c.tweak != nil {
				c.tweak(m, &p)
			}
			m[100] = p
			v := classify(100, lookIn(m), guards, "ns")
			if v.Worker != c.worker || v.Why == "" {
				t.Errorf("worker %v (%s), want %v", v.Worker, v.Why, c.worker)
			}
		})
	}
	if v := classify(999, lookIn(system()), guards, "ns"); !v.Worker {
		t.Error("a process that is not there passed")
	}
	denied := func(int) (Info, error) { return Info{}, errors.New("denied") }
	if v := classify(100, denied, guards, "ns"); !v.Worker {
		t.Error("a process that cannot be read passed")
	}
	if v := DescendsFromGuard(0, nil, guards); !v.Worker {
		t.Error("a process without a pid passed")
	}
}

func lookIn(m map[int]Info) func(int) (Info, error) {
	return func(pid int) (Info, error) {
		if p, ok := m[pid]; ok {
			return p, nil
		}
		return Info{}, ErrGone
	}
}

// A parent that ends while the chain is climbed: what was read first no longer
// holds, and the second look finds the guard.
func TestClassifyWhileReparented(t *testing.T) {
	m := system()
	m[90] = Info{ID: ID{90, 90, "b"}, PPID: 11, SID: 90, PidNS: "ns", envRead: true}
	m[100] = Info{ID: ID{100, 100, "b"}, PPID: 90, SID: 100, PidNS: "ns", envRead: true}
	calls := 0
	v := classify(100, func(pid int) (Info, error) {
		if calls++; calls == 5 {
			p := m[100]
			p.PPID = 50
			m[100] = p
		}
		return lookIn(m)(pid)
	}, []Guarded{{Root: ID{50, 50, "b"}}}, "ns")
	if !v.Worker {
		t.Errorf("passed: %s", v.Why)
	}
}
