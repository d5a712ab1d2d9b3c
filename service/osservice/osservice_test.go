package osservice

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// awkward is text as paths and variables can have it, with what the formats
// treat in a special way more often than chance would have it.
func awkward(least int) *rapid.Generator[string] {
	r := rapid.OneOf(rapid.Just('"'), rapid.Just('\''), rapid.Just('\\'), rapid.Just('%'), rapid.Just('$'), rapid.Just('{'), rapid.Just(' '),
		rapid.Just('='), rapid.Just('&'), rapid.Just('<'), rapid.Just('é'), rapid.Just('日'), rapid.Just('x'), rapid.Rune().Filter(func(r rune) bool { return r >= ' ' && r != 0xfffd && r < 0xfffe }))
	return rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(r, least, 12).Draw(t, "runes")) })
}

func anyUnit(t *rapid.T, text *rapid.Generator[string]) Unit {
	u := Unit{Exe: "/" + text.Draw(t, "exe"), Args: rapid.SliceOfN(text, 1, 3).Draw(t, "args")}
	names := rapid.StringMatching(`[A-Z_]{1,8}`).Filter(func(s string) bool { return s != "PATH" })
	if env := rapid.MapOfN(names, text, 0, 3).Draw(t, "env"); len(env) > 0 {
		u.Env = env
	}
	return u
}

func same(a, b Unit) bool {
	return a.Exe == b.Exe && slices.Equal(a.Args, b.Args) && maps.Equal(a.Env, b.Env)
}

// What is written is read back, whatever the paths are made of, and nothing in
// it is a template's to fill in.
func TestUnitReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		control := rapid.OneOf(awkward(0), rapid.StringOfN(rapid.RuneFrom([]rune{'\n', '\t', '\r', 1, 0x7f, 'a', '%'}), 0, 5, -1))
		u := anyUnit(t, control)
		text := systemdUnit(u)
		got, err := parseSystemdUnit(text)
		if err != nil || !same(got, u) {
			t.Fatalf("%+v became %+v: %v\n%s", u, got, err, text)
		}
		if strings.Contains(text, "{{") || strings.Count(text, "\n") != strings.Count(systemdUnit(Unit{Exe: "/x"}), "\n")+len(u.Env) {
			t.Fatalf("a value got out of its line, or is a template:\n%s", text)
		}
	})
}

func TestLaunchAgentReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, log := anyUnit(t, awkward(0)), "/"+awkward(0).Draw(t, "log")
		text, err := launchAgent(u, log)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseLaunchAgent(text)
		if err != nil || !same(got, u) || strings.Contains(text, "{{") {
			t.Fatalf("%+v became %+v: %v\n%s", u, got, err, text)
		}
		v, err := parsePlist(text)
		if root, _ := v.(map[string]any); err != nil || root["StandardErrorPath"] != log || root["Label"] != launchLabel {
			t.Fatalf("%v: %v", err, v)
		}
	})
}

// What systemd itself does with each escape was seen once (TestInstalled in
// cmd/e2e runs a program in such a folder); this is what it was shown.
func TestSystemdEscapes(t *testing.T) {
	u := Unit{Exe: "/opt/a b/100%/reeve", Args: []string{"service", "run", `$HOME "q" 'p' \n`}, Env: map[string]string{"REEVE_STATE": `/s $t %h "x"`}}
	for _, want := range []string{
		`ExecStart="/opt/a b/100%%/reeve" "service" "run" "$$HOME \"q\" 'p' \\n"` + "\n",
		`Environment="REEVE_STATE=/s $t %%h \"x\""` + "\n",
		"\nKillMode=process\n", "\nType=notify\n", "\nRestart=on-failure\nRestartSec=1\n", "\nWantedBy=default.target\n",
	} {
		if text := systemdUnit(u); !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	unit, rest, _ := strings.Cut(systemdUnit(u), "[Service]")
	if !strings.Contains(unit, "StartLimitBurst=") || strings.Contains(rest, "StartLimit") {
		t.Error("start limits belong into [Unit]")
	}
	for _, word := range []string{"Protect", "Private", "NoNewPrivileges", "Sandbox", "Restrict"} {
		if strings.Contains(rest, word) {
			t.Errorf("agents would inherit %s", word)
		}
	}
	// systemd takes no program whose name has one of these.
	for _, exe := range []string{`/a"b`, `/a'b`, `/a\b`, "/a$b", "/a\nb"} {
		if text := systemdUnit(Unit{Exe: exe}); !strings.Contains(text, "ExecStart="+viaShell+" ") {
			t.Errorf("%q is run without a shell:\n%s", exe, text)
		}
	}
}

// What a person wrote is understood as far as it goes.
func TestParseEdited(t *testing.T) {
	u, err := parseSystemdUnit("[Service]\nEnvironment=A=1 'B=2 3'\n#ExecStart=no\nExecStart=/usr/bin/old -x\n ExecStart = \n" + `ExecStart=/usr/bin/reeve --x 'a b'c "d\x41" %%h` + "\n")
	if want := (Unit{"/usr/bin/reeve", []string{"--x", "a bc", "dA", "%h"}, map[string]string{"A": "1", "B": "2 3"}}); err != nil || !same(u, want) {
		t.Errorf("%+v: %v", u, err)
	}
	for _, bad := range []string{"", "[Service]\n", "ExecStart=/a\nExecStart=\n", "ExecStart=\"open\n", `ExecStart=/a \q`, `ExecStart=/a \`, `ExecStart=/a \xzz`, `ExecStart=/a \xff`} {
		if u, err := parseSystemdUnit(bad); err == nil {
			t.Errorf("%q: %+v", bad, u)
		}
	}
}

func TestLaunchAgent(t *testing.T) {
	text, err := launchAgent(Unit{Exe: "/Applications/Reeve & Co.app/reeve", Args: []string{"service", "run"}}, "/Users/a/Library/Logs/x.log")
	if err != nil {
		t.Fatal(err)
	}
	v, err := parsePlist(text)
	root, _ := v.(map[string]any)
	keep, _ := root["KeepAlive"].(map[string]any)
	env, _ := root["EnvironmentVariables"].(map[string]any)
	if err != nil || root["RunAtLoad"] != true || root["AbandonProcessGroup"] != true || root["ProcessType"] != "Interactive" || keep["SuccessfulExit"] != false || len(keep) != 1 ||
		env["PATH"] != launchPath || !slices.Equal(root["LimitLoadToSessionType"].([]any), []any{"Aqua", "Background"}) {
		t.Errorf("%v: %v", err, v)
	}
	if _, err := launchAgent(Unit{Exe: "/a\x01b"}, "/log"); err == nil {
		t.Error("a control character was taken")
	}
	for _, bad := range []string{"", "<plist>", "<plist></plist>", "<plist><dict><key>a</key></dict></plist>", "<plist><dict><true/></dict></plist>", "<plist><date>1</date></plist>",
		"<plist><array><dict><key>a</key></dict></array></plist>", "<plist><dict/></plist>", "<plist><dict><key>ProgramArguments</key><array><true/></array></dict></plist>"} {
		if u, err := parseLaunchAgent(bad); err == nil {
			t.Errorf("%q: %+v", bad, u)
		}
	}
}

func TestUnitCheck(t *testing.T) {
	for _, bad := range []Unit{{Exe: "reeve"}, {Exe: "/a\xff"}, {Exe: "/a", Args: []string{"\x00"}}, {Exe: "/a", Env: map[string]string{"A": "\xff"}}} {
		if err := bad.check(); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	root := "/"
	if runtime.GOOS == "windows" {
		root = `C:\`
	}
	if err := (Unit{Exe: root + "a b\n", Args: []string{"é"}}).check(); err != nil {
		t.Error(err)
	}
}

// The launcher repairs like the other managers: not an orderly end, not what
// would only be repeated, and not for ever.
func TestTries(t *testing.T) {
	now := time.Unix(1, 0)
	var x tries
	for i := range launchLimit {
		x.started(now)
		if again := x.again(1, now); again != (i < launchLimit-1) {
			t.Errorf("try %d: %v", i+1, again)
		}
	}
	if now = now.Add(launchWindow); !x.again(1, now) {
		t.Error("a crash later on is another matter")
	}
	for _, code := range []int{0, 4, 7} {
		if (&tries{}).again(code, now) {
			t.Errorf("exit code %d is repaired", code)
		}
	}
}

// TestSessions holds the launcher to one process for each user who has a
// session, in one of those, wherever that begins and ends.
func TestSessions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sessions{}
		where := map[string]uint32{} // the model: where each user's process lives
		var now []session
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			if len(now) > 0 && rapid.Bool().Draw(t, "off") {
				i := rapid.IntRange(0, len(now)-1).Draw(t, "which")
				now = slices.Delete(slices.Clone(now), i, i+1)
			} else {
				id := uint32(rapid.IntRange(1, 5).Draw(t, "id"))
				if !slices.ContainsFunc(now, func(n session) bool { return n.id == id }) {
					now = append(now, session{id, rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user")})
				}
			}
			for user, id := range where {
				if !slices.Contains(now, session{id, user}) {
					delete(where, user) // the system ended it with the session
				}
			}
			for _, begin := range s.update(now) {
				if id, ok := where[begin.user]; ok {
					t.Fatalf("a second process of %s, in %d beside %d", begin.user, begin.id, id)
				}
				where[begin.user] = begin.id
			}
			for _, n := range now {
				if id, ok := where[n.user]; !ok || !slices.Contains(now, session{id, n.user}) {
					t.Fatalf("%s has the sessions %v and no process", n.user, now)
				}
			}
		}
	})
}
