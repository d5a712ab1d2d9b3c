package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestScripts runs the command line as a person or a program would: each
// script of testdata/script on a machine of its own, in folders whose names are
// as bad as names get. Beside the usual commands of testscript there are:
//
//	reeve ARG...               run reeve; it has to exit with 0
//	exits CODE ARG...          run reeve; it has to exit with CODE
//	refused CODE ARG...        the same, and check that it said why in one paragraph,
//	                           printed nothing else, and changed nothing
//	service                    start the machine's service
//	gone                       wait for the end of the service
//	repo DIR...                make git checkouts with one commit
//	propose NAME DIR SCOPE     propose a mission of the demo agent; sets $NAME (mission),
//	                           $NAME_ask and $NAME_digest (the approval of its start)
//	begin NAME DIR SCOPE       propose, and allow the start by its digest
//	asked NAME MISSION TEXT    wait for a new request about TEXT of a mission that runs, or for
//	                           any that has it, starts included (-);
//	                           sets $NAME, $NAME_digest and $NAME_mission
//	later NAME ARG...          run reeve beside the script
//	ends NAME CODE             wait for it; it has to exit with CODE
//	terminal CODE TYPED ARG... run reeve on a terminal and type (\n, ^D), once it asks
//	phase MISSION PHASE...     wait for one of the phases; of a mission that was in it before,
//	                           first wait until something is there that is new
//	until MISSION PATH VALUE   wait until the mission has VALUE there
//	eventually PATTERN ARG...  run reeve, which has to exit with 0, until its output matches
//	lose MISSION               kill the guard of a mission in its first turn, and wait until
//	                           that is noticed
//	passes DURATION            move the clock of the service and its guards
//	ended MISSION              fail unless nothing of the mission is left
//	[!] json PATH [VALUE]      the last output is one JSON object; PATH (a.0.b, a.len) exists
//	                           there, and is VALUE, or matches it when it is /in slashes/
//	set NAME PATH              put what stands at PATH of the last output in $NAME
//	lines PATH...              every line of the last output is a JSON object with these
//	chain FILE HEAD            its lines are an audit log that holds, and ends with HEAD
//	count N TEXT               the last output has TEXT so many times
//	visible [prose]            nothing in the last output could hide anything; prose may
//	                           hold joiners, which emoji and some scripts need
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	if err := plain(); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel() // each waits for its own machine most of the time
			s := &script{machine: newMachine(t), beside: map[string]func() result{}, found: map[string]bool{}}
			s.env = append(s.env, "PATH="+filepath.Join(bin, "plain")+":"+os.Getenv("PATH"))
			work := filepath.Join(s.dir, "-work")
			if err := os.Mkdir(work, 0o755); err != nil {
				t.Fatal(err)
			}
			testscript.RunT(once{t}, testscript.Params{
				Files: []string{file}, WorkdirRoot: work, RequireExplicitExec: true,
				Setup: func(e *testscript.Env) error {
					s.env = append(s.env, "WORK="+e.WorkDir)
					e.Vars = append(append([]string{}, s.env...), "BIN="+bin, "STATE="+s.state)
					e.Cd = e.WorkDir
					return nil
				},
				Cmds: s.commands(),
			})
			if s.view != nil && s.cmd != nil {
				s.consistent()
			}
		})
	}
}

// plain builds reeve as it is shipped, once: scripts and measurements run it.
// The service and its guards run with the race detector all the same.
var plain = sync.OnceValue(func() error {
	dir := filepath.Join(bin, "plain")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "reeve"), "../reeve")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build reeve: %w\n%s", err, out)
	}
	return nil
})

// once is a testing.T that has already one subtest for each script.
type once struct{ *testing.T }

func (o once) Run(_ string, fn func(testscript.T)) { fn(o) }
func (o once) Parallel()                           {}
func (o once) Verbose() bool                       { return testing.Verbose() }

// script is one machine and what its script has seen.
type script struct {
	*machine
	view   *view
	beside map[string]func() result
	found  map[string]bool // the requests that asked has returned
}

// asked waits for a pending request about want, of a mission or of any (-). One
// that was answered by a command may still be shown as pending: it is no new one.
func (s *script) asked(mission, want string) wire.Approval {
	var found wire.Approval
	s.view.wait("a request about "+want, func() bool {
		for _, a := range s.view.approvals {
			if s.found[a.ID] || !s.view.reached(a) {
				continue
			}
			// The start that was just allowed may still stand there, and its scope
			// names what the agent will ask for.
			of := mission == "-" || a.Mission == mission && a.Kind != string(approval.MissionStart)
			if a.State == "pending" && of && strings.Contains(string(a.Subject), want) {
				found = a
				return true
			}
		}
		return false
	})
	s.found[found.ID] = true
	return found
}

func (s *script) later(ts *testscript.TestScript, name string, args []string) {
	cmd := exec.Command(filepath.Join(bin, "plain", "reeve"), args...)
	cmd.Env, cmd.Dir = s.env, ts.MkAbs(".")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	ts.Check(cmd.Start())
	end := sync.OnceValue(func() result {
		limit := time.AfterFunc(waitLimit, func() { _ = cmd.Process.Kill() })
		defer limit.Stop()
		_ = cmd.Wait()
		return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
	})
	s.beside[name] = end
	ts.Defer(func() { _ = cmd.Process.Signal(os.Interrupt); end() })
}

// terminal runs reeve on a pseudo-terminal and types once it asks (y/N).
func (s *script) terminal(ts *testscript.TestScript, typed string, args []string) (int, string) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	ts.Check(err)
	defer master.Close()
	ts.Check(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	ts.Check(err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	ts.Check(err)
	cmd := exec.Command(filepath.Join(bin, "plain", "reeve"), args...)
	cmd.Env, cmd.Dir = s.env, ts.MkAbs(".")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = tty.Close()
	ts.Check(err)
	limit := time.AfterFunc(waitLimit, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	var out strings.Builder
	// What is typed before reeve waits for it is thrown away, as it should be; so
	// it is typed until reeve has taken it.
	var again <-chan time.Time
	more := make(chan string)
	go func() {
		defer close(more)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			more <- string(buf[:n])
			if err != nil { // the other end is closed
				return
			}
		}
	}()
	for reading := true; reading; {
		select {
		case text, open := <-more:
			out.WriteString(text)
			reading = open
			if again == nil && strings.HasSuffix(out.String(), "] ") {
				tick := time.NewTicker(50 * time.Millisecond)
				defer tick.Stop()
				again = tick.C
			}
		case <-again:
			_, _ = master.WriteString(typed)
		}
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), strings.ReplaceAll(out.String(), "\r\n", "\n")
}

func (s *script) commands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*testscript.TestScript, []string){
		"reeve": func(ts *testscript.TestScript, args []string) { s.exits(ts, 0, args) },
		"exits": func(ts *testscript.TestScript, args []string) { s.exits(ts, number(ts, args[0]), args[1:]) },
		"refused": func(ts *testscript.TestScript, args []string) {
			s.refused(ts, number(ts, args[0]), args[1:])
		},
		"service": func(ts *testscript.TestScript, _ []string) {
			s.start()
			s.view = s.watch()
			ts.Setenv("SERVICE_PID", strconv.Itoa(s.cmd.Process.Pid))
		},
		"gone": func(*testscript.TestScript, []string) {
			select {
			case <-s.exited:
			case <-time.After(waitLimit):
				s.t.Fatal("the service does not end")
			}
			s.cmd = nil
			s.view.f.Close()
		},
		"repo": func(ts *testscript.TestScript, args []string) {
			for _, dir := range args {
				rel, err := filepath.Rel(s.dir, ts.MkAbs(dir))
				ts.Check(err)
				s.repo(rel)
			}
		},
		"propose": func(ts *testscript.TestScript, args []string) { s.propose(ts, args[0], args[1], args[2]) },
		"begin": func(ts *testscript.TestScript, args []string) {
			s.propose(ts, args[0], args[1], args[2])
			s.exits(ts, 0, []string{"allow", ts.Getenv(args[0] + "_ask"), "--digest", ts.Getenv(args[0] + "_digest")})
		},
		"asked": func(ts *testscript.TestScript, args []string) {
			a := s.asked(args[1], args[2])
			ts.Setenv(args[0], a.ID)
			ts.Setenv(args[0]+"_digest", a.Digest)
			ts.Setenv(args[0]+"_mission", a.Mission)
		},
		"later": func(ts *testscript.TestScript, args []string) { s.later(ts, args[0], args[1:]) },
		"ends": func(ts *testscript.TestScript, args []string) {
			r := s.beside[args[0]]()
			fmt.Fprint(ts.Stdout(), r.out)
			fmt.Fprint(ts.Stderr(), r.err)
			if want := number(ts, args[1]); r.code != want {
				ts.Fatalf("it exits with %d, not %d\n%s%s", r.code, want, r.out, r.err)
			}
		},
		"terminal": func(ts *testscript.TestScript, args []string) {
			code, out := s.terminal(ts, strings.NewReplacer(`\n`, "\n", "^D", "\x04").Replace(args[1]), args[2:])
			fmt.Fprint(ts.Stdout(), out)
			fmt.Fprint(ts.Stderr(), "")
			if want := number(ts, args[0]); code != want {
				ts.Fatalf("reeve %q exits with %d, not %d:\n%s", args[2:], code, want, out)
			}
		},
		"phase": func(_ *testscript.TestScript, args []string) { s.view.phase(args[0], args[1:]...) },
		"until": func(_ *testscript.TestScript, args []string) {
			s.view.wait(fmt.Sprintf("%s to be %s", args[1], args[2]), func() bool {
				v, ok := at(generic(s.view.missions[args[0]]), args[1])
				return ok && text(v) == args[2]
			})
		},
		"eventually": func(ts *testscript.TestScript, args []string) {
			want := regexp.MustCompile("(?m)" + args[0])
			again := time.NewTicker(tick)
			defer again.Stop()
			for late := time.Now().Add(waitLimit); ; <-again.C {
				s.exits(ts, 0, args[1:])
				if want.MatchString(ts.ReadFile("stdout")) {
					return
				}
				if time.Now().After(late) {
					ts.Fatalf("reeve %q does not come to print %q", args[1:], args[0])
				}
			}
		},
		"lose": func(_ *testscript.TestScript, args []string) {
			s.view.phase(args[0], "working")
			m := do[wire.MissionResult](s.view, wire.MethodMissionGet, wire.IDParams{ID: args[0]}).Mission
			s.view.f.Watch(wire.TopicSession + m.Session)
			s.view.lose(m)
		},
		"passes": func(ts *testscript.TestScript, args []string) {
			d, err := time.ParseDuration(args[0])
			ts.Check(err)
			s.setClock(d)
		},
		"ended": func(ts *testscript.TestScript, args []string) {
			m := do[wire.MissionResult](s.view, wire.MethodMissionGet, wire.IDParams{ID: args[0]}).Mission
			if m.CheckoutOwned || len(m.Left) > 0 {
				ts.Fatalf("after the end: owned=%v left=%v", m.CheckoutOwned, m.Left)
			}
			if g := s.guardOf(m.Attempt); alive(g.PID) || alive(g.Keeper.PID) {
				ts.Fatalf("the guard still runs")
			}
			service := func(p string) bool { return strings.Contains(p, "reeve service") }
			for _, p := range s.processes() {
				if !service(p) && !strings.Contains(p, "reeve guard --git") && !git(p) {
					ts.Fatalf("still runs: %s", p)
				}
			}
			s.gone(service)
		},
		"set": func(ts *testscript.TestScript, args []string) {
			v, ok := at(object(ts), args[1])
			if !ok {
				ts.Fatalf("there is no %s", args[1])
			}
			ts.Setenv(args[0], text(v))
		},
		"lines": func(ts *testscript.TestScript, args []string) {
			n := 0
			for line := range strings.Lines(ts.ReadFile("stdout")) {
				n++
				v, err := decode([]byte(line))
				if err != nil {
					ts.Fatalf("line %d is no JSON: %v\n%s", n, err, line)
				}
				for _, path := range args {
					if _, ok := at(v, path); !ok {
						ts.Fatalf("line %d has no %s: %s", n, path, line)
					}
				}
			}
			if n == 0 {
				ts.Fatalf("there are no lines")
			}
		},
		"chain": chain,
		"count": func(ts *testscript.TestScript, args []string) {
			if n := strings.Count(ts.ReadFile("stdout"), args[1]); n != number(ts, args[0]) {
				ts.Fatalf("%q stands there %d times", args[1], n)
			}
		},
		"visible": func(ts *testscript.TestScript, args []string) {
			for _, name := range []string{"stdout", "stderr"} {
				out := ts.ReadFile(name)
				if len(args) > 0 {
					out = strings.NewReplacer("\u200c", "", "\u200d", "").Replace(out)
				}
				if bad := hiding(out); bad != "" {
					ts.Fatalf("%s has %s", name, bad)
				}
			}
		},
	}
	out := map[string]func(*testscript.TestScript, bool, []string){"json": jsonAt}
	for name, fn := range all {
		out[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg {
				ts.Fatalf("%s can't be negated", name)
			}
			fn(ts, args)
		}
	}
	return out
}

func number(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	ts.Check(err)
	return n
}

// exits runs reeve and demands its exit code. What it printed is left for the
// commands that look at the last output.
func (s *script) exits(ts *testscript.TestScript, want int, args []string) {
	err := ts.Exec("reeve", args...)
	code := 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("reeve %v: %v", args, err)
	}
	if code != want {
		ts.Fatalf("reeve %q exits with %d, not %d", args, code, want)
	}
	// A Go program that panics or races exits with 2 or 66; neither may pass
	// for a refusal.
	if e := ts.ReadFile("stderr"); strings.Contains(e, "goroutine ") || strings.Contains(e, "DATA RACE") {
		ts.Fatalf("reeve %q crashed", args)
	}
}

// paragraph is what a refusal looks like: what is wrong and how to mend it.
var paragraph = regexp.MustCompile("^reeve: [^\n]*[.`)a-z0-9]\n$")

func (s *script) refused(ts *testscript.TestScript, code int, args []string) {
	before := s.everything()
	s.exits(ts, code, args)
	out, errs := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	switch {
	case out != "":
		ts.Fatalf("a refusal printed on standard output: %q", out)
	case !paragraph.MatchString(errs):
		ts.Fatalf("this is no sentence: %q", errs)
	case hiding(errs) != "":
		ts.Fatalf("the refusal has %s", hiding(errs))
	}
	if after := s.everything(); after != before {
		ts.Fatalf("a refusal changed something:\n%s\nnow\n%s", before, after)
	}
}

// everything is what the service knows of missions and approvals.
func (s *script) everything() string {
	if s.cmd == nil {
		return ""
	}
	missions, err := try[wire.MissionListResult](s.view, wire.MethodMissionList, nil)
	approvals, err2 := try[wire.ApprovalListResult](s.view, wire.MethodApprovalList, wire.ApprovalListParams{All: true})
	if err := errors.Join(err, err2); err != nil {
		s.t.Fatal(err)
	}
	for i := range missions.Missions {
		m := &missions.Missions[i] // what follows changes by itself, or is shown a little later than what it follows from
		m.RemainingSeconds, m.Resources, m.Activity, m.NextTurnAt = 0, nil, nil, nil
	}
	return fmt.Sprint(text(missions), text(approvals))
}

func (s *script) propose(ts *testscript.TestScript, name, dir, scope string) {
	s.exits(ts, 0, []string{"start", "--provider", "acp:demo", "--folder", ts.MkAbs(dir), "--scope", scope, "--minutes", "15", "--propose", "--json"})
	o := object(ts)
	for suffix, path := range map[string]string{"": "mission.id", "_ask": "approval.id", "_digest": "approval.digest"} {
		v, ok := at(o, path)
		if !ok {
			ts.Fatalf("a proposal has no %s", path)
		}
		ts.Setenv(name+suffix, text(v))
	}
}

// consistent checks what must hold after everything.
func (s *script) consistent() {
	for _, c := range do[wire.CheckResult](s.view, wire.MethodServiceCheck, nil).Checks {
		if !c.OK {
			s.t.Errorf("doctor: %s: %s", c.Name, c.Message)
		}
	}
	if a := do[wire.AuditVerifyResult](s.view, wire.MethodAuditVerify, nil); !a.OK {
		s.t.Errorf("audit: %+v", a)
	}
}

// object decodes the last output, which must be one JSON object on one line.
func object(ts *testscript.TestScript) any {
	out := ts.ReadFile("stdout")
	if strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "{") {
		ts.Fatalf("the output is not one object on one line")
	}
	v, err := decode([]byte(out))
	ts.Check(err)
	return v
}

func decode(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// generic is a value as its JSON has it.
func generic(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	g, _ := decode(b)
	return g
}

func jsonAt(ts *testscript.TestScript, neg bool, args []string) {
	v, ok := at(object(ts), args[0])
	if len(args) == 1 {
		if ok == neg {
			ts.Fatalf("there is %s: %v", args[0], ok)
		}
		return
	}
	want := args[1]
	same := ok && text(v) == want
	if len(want) > 1 && want[0] == '/' && want[len(want)-1] == '/' {
		same = ok && regexp.MustCompile("(?s)"+want[1:len(want)-1]).MatchString(text(v))
	}
	if same == neg {
		ts.Fatalf("%s is %q", args[0], text(v))
	}
}

// at walks a decoded value along names and indexes with dots between them.
func at(v any, path string) (any, bool) {
	for key := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[key]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			if key == "len" {
				v = json.Number(strconv.Itoa(len(x)))
				continue
			}
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// hiding names the first rune that a terminal would obey, hide or reorder.
func hiding(s string) string {
	for i, r := range s {
		switch {
		case r == '\n' || r == '\t':
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD"):
			return fmt.Sprintf("an invalid byte at %d", i)
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp), r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0000 && r <= 0xE0FFF:
			return fmt.Sprintf("U+%04X at byte %d", r, i)
		}
	}
	return ""
}

// TestCommandsHaveScripts keeps the scripts complete: every command of the
// help, and every exit code, occurs in one.
func TestCommandsHaveScripts(t *testing.T) {
	var all strings.Builder
	files, _ := filepath.Glob("testdata/script/*.txtar")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	for code := range 8 {
		if code > 0 && !regexp.MustCompile(fmt.Sprintf(`(?m)^(exits|refused|terminal|ends \w+) %d\b`, code)).MatchString(all.String()) {
			t.Errorf("no script sees exit code %d", code)
		}
	}
	var names []string
	out, err := exec.Command(filepath.Join(bin, "reeve"), "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(out), "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		names = append(names, strings.Fields(line)[0])
	}
	if len(names) < 15 {
		t.Errorf("the help lists only %v", names)
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^(reeve|exits \d|refused \d) ` + name + `\b`).MatchString(all.String()) {
			t.Errorf("no script runs reeve %s", name)
		}
	}
}
