//go:build linux

package proc

import (
	"strings"
	"testing"
)

// TestDoubt: what the programs that start others for whoever asks did start
// since the first worker ran, at the moment 100. Each line is a process with
// its ancestors, pid 1 left out.
func TestDoubt(t *testing.T) {
	type p struct {
		comm  string
		start uint64
		tty   string
	}
	const young, old = 200, 20
	const pts = "/dev/pts/7"
	manager := p{"systemd", old, ""}
	for _, c := range []struct {
		name  string
		line  []p
		doubt string // part of why; "" for none
	}{
		{"systemd-run --user", []p{{"reeve", young, ""}, manager}, "started by systemd (pid 101)"},
		{"systemd-run --user with any unit name, two shells on", []p{{"reeve", young, ""}, {"sh", young, ""}, {"sh", young, ""}, manager}, "started by systemd"},
		{"systemd-run --user --pty", []p{{"reeve", young, pts}, manager}, "got its terminal from systemd"},
		{"a shell in systemd-run --user --pty", []p{{"reeve", young, pts}, {"bash", young, pts}, manager}, "got its terminal from systemd"},
		{"a timer or a unit of the user's", []p{{"sh", young, ""}, manager}, "started by systemd"},
		{"at", []p{{"reeve", young, ""}, {"sh", young, ""}, {"atd", young, ""}, {"atd", old, ""}}, "started by atd"},
		{"crontab", []p{{"reeve", young, ""}, {"sh", young, ""}, {"cron", young, ""}, {"cron", old, ""}}, "started by cron"},
		{"crontab elsewhere", []p{{"reeve", young, ""}, {"crond", young, ""}, {"crond", old, ""}}, "started by crond"},
		{"D-Bus activation", []p{{"reeve", young, ""}, {"dbus-daemon", young, ""}, {"dbus-daemon", old, ""}, manager}, "started by dbus-daemon"},
		{"tmux run-shell in a server of the person's", []p{{"reeve", young, ""}, {"sh", young, ""}, {"tmux: server", old, ""}}, "started by tmux: server"},
		{"ssh localhost without a terminal", []p{{"reeve", young, ""}, {"sshd-session", young, ""}, {"sshd-session", young, ""}, {"sshd", old, ""}}, "started by sshd"},
		{"a daemon below pid 1", []p{{"reeve", young, ""}}, "started by init (pid 1)"},
		{"a desktop program opened since, without a terminal", []p{{"reeve", young, ""}, {"code", young, ""}, manager}, "started by systemd"},

		{"a command in a terminal opened since", []p{{"reeve", young, pts}, {"bash", young, pts}, {"kitty", young, ""}, manager}, ""},
		{"a command over ssh -t", []p{{"reeve", young, pts}, {"bash", young, pts}, {"sshd", young, ""}, {"sshd", old, ""}}, ""},
		{"a command on a console", []p{{"reeve", young, "/dev/tty1"}, {"bash", young, "/dev/tty1"}, {"login", young, "/dev/tty1"}}, ""},
		{"a command in a new window of tmux, whoever asked for it", []p{{"reeve", young, pts}, {"bash", young, pts}, {"tmux: server", old, ""}}, ""},
		{"a script below an old shell, without a terminal", []p{{"reeve", young, ""}, {"sh", young, ""}, {"bash", old, pts}, {"kitty", old, ""}, manager}, ""},
		{"a job of a runner from before", []p{{"reeve", young, ""}, {"sh", young, ""}, {"runner", old, ""}, manager}, ""},
		{"a desktop program from before", []p{{"reeve", young, ""}, {"code", old, ""}, manager}, ""},
		{"a unit from before", []p{{"sh", old, ""}, manager}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := map[int]Info{1: {ID: ID{1, 1, "b"}, SID: 1, Comm: "init", PidNS: "ns", envRead: true}}
			for i, p := range c.line {
				ppid := 101 + i
				if i == len(c.line)-1 {
					ppid = 1
				}
				m[100+i] = Info{ID: ID{100 + i, p.start, "b"}, PPID: ppid, SID: 100 + i, Comm: p.comm, TTY: p.tty, PidNS: "ns", envRead: true}
			}
			v := classify(100, lookIn(m), nil, "ns")
			if v.Worker {
				t.Fatal(v.Why)
			}
			got := v.Doubt(Moment{100, "b"}, "")
			if (got == "") != (c.doubt == "") || !strings.Contains(got, c.doubt) {
				t.Errorf("doubt %q, want %q", got, c.doubt)
			}
			if got := v.Doubt(Moment{}, ""); got != "" {
				t.Errorf("before any worker: %q", got)
			}
			if got := v.Doubt(Moment{100, "another boot"}, ""); got != "" {
				t.Errorf("in another boot: %q", got)
			}
		})
	}
}

func TestDoubtOnTheEdges(t *testing.T) {
	since := Moment{100, "b"}
	judged := func(t *testing.T, m map[int]Info) Verdict {
		t.Helper()
		v := classify(100, lookIn(m), nil, "ns")
		if v.Worker {
			t.Fatal(v.Why)
		}
		v.mntNS = "mnt"
		return v
	}
	started := func(change func(p *Info)) map[int]Info {
		m := system()
		p := Info{ID: ID{100, 100, "b"}, PPID: 20, SID: 100, PidNS: "ns", MntNS: "mnt", Exe: "/opt/reeve-desktop", envRead: true}
		change(&p)
		m[100] = p
		return m
	}
	const desktop = "/opt/reeve-desktop"
	t.Run("began at the same moment", func(t *testing.T) {
		if judged(t, started(func(*Info) {})).Doubt(since, "") == "" {
			t.Error("no doubt")
		}
	})
	t.Run("the desktop", func(t *testing.T) {
		if why := judged(t, started(func(*Info) {})).Doubt(since, desktop); why != "" {
			t.Error(why)
		}
	})
	t.Run("the desktop, replaced by an update", func(t *testing.T) {
		if why := judged(t, started(func(p *Info) { p.Exe += " (deleted)" })).Doubt(since, desktop); why != "" {
			t.Error(why)
		}
	})
	for name, change := range map[string]func(*Info){
		"a copy under another name":        func(p *Info) { p.Exe = "/tmp/reeve-desktop" },
		"mounted over the desktop's place": func(p *Info) { p.MntNS = "other" },
		"an unknown mount namespace":       func(p *Info) { p.MntNS = "" },
	} {
		t.Run(name, func(t *testing.T) {
			if judged(t, started(change)).Doubt(since, desktop) == "" {
				t.Error("no doubt")
			}
		})
	}
	t.Run("entered from outside the namespace", func(t *testing.T) {
		m := started(func(p *Info) { p.PPID, p.SID = 0, 0 })
		if judged(t, m).Doubt(since, "") == "" {
			t.Error("no doubt")
		}
		p := m[100]
		p.TTY = "/dev/pts/0"
		m[100] = p
		if why := judged(t, m).Doubt(since, ""); why != "" {
			t.Error(why)
		}
	})
	// Its parent of now didn't make it, the leader of its session did.
	t.Run("left by its parent in the session of an old program", func(t *testing.T) {
		if why := judged(t, started(func(p *Info) { p.SID = 21 })).Doubt(since, ""); why != "" {
			t.Error(why)
		}
	})
	t.Run("left by its parent in the session of a new one", func(t *testing.T) {
		m := started(func(p *Info) { p.SID = 99 })
		m[99] = Info{ID: ID{99, 100, "b"}, PPID: 20, SID: 99, PidNS: "ns", envRead: true}
		if judged(t, m).Doubt(since, "") == "" {
			t.Error("no doubt")
		}
	})
	t.Run("the shell of a container is its first process", func(t *testing.T) {
		m := started(func(p *Info) { p.PPID, p.TTY = 1, "/dev/pts/0" })
		if why := judged(t, m).Doubt(since, ""); why != "" {
			t.Error(why)
		}
	})
	t.Run("a worker is no question of doubt", func(t *testing.T) {
		if why := (Verdict{Worker: true}).Doubt(since, ""); why != "" {
			t.Error(why)
		}
	})
}

func TestMoment(t *testing.T) {
	now, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if began := self.Began(); began.BootID != now.BootID || began.Start > now.Start || now.Start-began.Start > 60*60*100 {
		t.Errorf("this process began at %v, now is %v", began, now)
	}
	a, b, never := Moment{1, "b"}, Moment{2, "b"}, Moment{}
	for _, c := range [][3]Moment{{a, b, a}, {b, a, a}, {never, b, b}, {b, never, b}, {b, {1, "other"}, b}} {
		if got := c[0].Earlier(c[1]); got != c[2] {
			t.Errorf("%v or %v: %v", c[0], c[1], got)
		}
	}
}
