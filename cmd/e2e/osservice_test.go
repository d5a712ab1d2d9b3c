//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestService installs the real service below a real systemd user manager that
// lives for this test: `make test-service`.
func TestService(t *testing.T) {
	if os.Getenv("REEVE_TEST_SERVICE") == "" {
		t.Skip("run it with `make test-service`")
	}
	if os.Getenv(managerVar) == "" {
		buildReleases(t)
	}
	underUserManager(t, "TestInstalled")
}

// The releases that the installed one is replaced with.
const (
	nextVersion = "7.0.0" // as this one, but later
	lastVersion = "8.0.0" // and with a newer database
)

// buildReleases makes the programs as they are shipped, of three versions.
func buildReleases(t *testing.T) {
	t.Helper()
	replace := func(file, old, new string) map[string]string {
		t.Helper()
		path, err := filepath.Abs(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), old) != 1 {
			t.Fatalf("%s does not have %q once", file, old)
		}
		changed := filepath.Join(t.TempDir(), filepath.Base(file))
		if err := os.WriteFile(changed, []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return map[string]string{path: changed}
	}
	const version, schema = "assets/version.go", "service/internal/store/migrate.go"
	last := replace(version, assets.Version, lastVersion)
	const first = `{Name: "first schema", Apply: func(*Tx) error { return nil }},`
	for path, changed := range replace(schema, first, first+strings.Replace(first, "first", "next", 1)) {
		last[path] = changed
	}
	for name, overlay := range map[string]map[string]string{assets.Version: nil, nextVersion: replace(version, assets.Version, nextVersion), lastVersion: last} {
		raw, err := json.Marshal(map[string]any{"Replace": overlay})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "overlay.json")
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("CGO_ENABLED", "0")
		if err := goBuild("-trimpath", "-ldflags", "-s -w", "-overlay", file, "-o", filepath.Join(bin, name, "reeve"), "../reeve"); err != nil {
			t.Fatal(err)
		}
	}
}

// installed is a machine whose service is the user manager's.
type installed struct {
	*machine
	v *view
}

// serviceStatus is what scripts read of `reeve service status --json`.
type serviceStatus struct {
	Service struct {
		wire.Service
		Registered bool         `json:"registered"`
		Running    bool         `json:"running"`
		Manager    string       `json:"manager"`
		AtLogon    bool         `json:"at_logon"`
		Restarts   int          `json:"restarts"`
		Checks     []wire.Check `json:"checks"`
	} `json:"service"`
	Changes []string `json:"changes"`
}

// status runs a command that prints how the service stands, and holds it to its
// exit code.
func (i *installed) status(code int, args ...string) serviceStatus {
	i.t.Helper()
	r := i.run(append([]string{"service"}, append(args, "--json")...)...)
	var s serviceStatus
	if err := json.Unmarshal([]byte(r.out), &s); err != nil || r.code != code {
		i.t.Fatalf("reeve service %v: exit %d, want %d: %v\n%s%s", args, r.code, code, err, r.out, r.err)
	}
	return s
}

// says fails unless a check of the status says so.
func (s serviceStatus) says(t *testing.T, ok bool, what ...string) {
	t.Helper()
	if !slices.ContainsFunc(s.Service.Checks, func(c wire.Check) bool {
		return c.OK == ok && !slices.ContainsFunc(what, func(w string) bool { return !strings.Contains(c.Message+" "+c.Fix, w) })
	}) {
		t.Errorf("no check says %q (ok: %v): %+v", what, ok, s.Service.Checks)
	}
}

// release puts the program of a version at the place of the installed one, as a
// package does.
func (i *installed) release(version string) {
	i.t.Helper()
	i.install(filepath.Join(bin, version, "reeve"), i.reeve)
}

func (i *installed) systemctl(args ...string) string {
	i.t.Helper()
	out, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput()
	if err != nil {
		i.t.Fatalf("systemctl --user %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// kill ends the service as a crash does, and waits for the next generation.
func (i *installed) kill(sig syscall.Signal, then uint64) {
	i.t.Helper()
	s := i.status(0, "status").Service
	began := time.Now()
	if err := syscall.Kill(s.PID, sig); err != nil {
		i.t.Fatal(err)
	}
	i.v.generation(then)
	i.t.Logf("after %v the service was back in %v", sig, time.Since(began).Round(10*time.Millisecond))
	if now := i.status(0, "status").Service; now.PID == s.PID || i.systemctl("show", "-P", "MainPID", "reeve") == "0" {
		i.t.Errorf("%+v was %+v", now, s)
	}
}

// TestInstalled is one life of an installed service.
func TestInstalled(t *testing.T) {
	if os.Getenv(managerVar) == "" {
		t.Skip("there is no user manager for tests: see TestService")
	}
	i := &installed{machine: newMachine(t)}
	// Everything at its usual place, with this manager; the program where no
	// file format likes it.
	i.home = os.Getenv("HOME")
	i.state = filepath.Join(i.home, ".local", "state", "reeve")
	i.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + i.home, "LANG=C.UTF-8", "TERM=dumb", "GIT_CONFIG_GLOBAL=/dev/null"}
	for _, name := range []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"} {
		i.env = append(i.env, name+"="+os.Getenv(name))
	}
	folder := filepath.Join(i.dir, `b $HOME %h {{in}} \x`)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	i.reeve = filepath.Join(folder, "reeve")
	i.release(assets.Version)
	unit := filepath.Join(i.home, ".config", "systemd", "user", "reeve.service")
	t.Cleanup(func() {
		if t.Failed() {
			for _, args := range [][]string{{"--user", "status", "--no-pager", "-l", "reeve"}, {"--user", "cat", "reeve"}} {
				out, _ := exec.Command("systemctl", args...).CombinedOutput()
				t.Logf("systemctl %v:\n%s", args, out)
			}
			log, _ := os.ReadFile(filepath.Join(i.state, "logs", "service.log"))
			t.Logf("service.log:\n%s", log)
		}
		i.run("service", "uninstall", "--stop-missions", "--purge", "--yes")
	})

	// Nothing is there, and every command says so without an error where it can.
	i.status(3, "status").says(t, true, "not registered", "reeve service install")
	for _, args := range [][]string{{"service", "stop"}, {"service", "uninstall"}} {
		if r := i.run(args...); r.code != 0 {
			t.Errorf("reeve %v with nothing there: exit %d %s", args, r.code, r.err)
		}
	}
	before := i.files(i.home)

	s := i.status(0, "install")
	if x := s.Service; !x.Registered || !x.Running || !x.AtLogon || x.Manager != "systemd" || x.Generation != 1 || x.Version != assets.Version || len(s.Changes) > 0 {
		t.Errorf("installed: %+v", s)
	}
	s.says(t, true, "at log-on and after a crash")
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		if out, err := exec.Command("systemd-analyze", "--user", "verify", unit).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
	}
	if again := i.status(0, "install"); again.Service.PID != s.Service.PID || len(again.Changes) > 0 {
		t.Errorf("installed again: %+v", again)
	}
	if again := i.status(0, "start"); again.Service.PID != s.Service.PID {
		t.Errorf("started again: %+v", again)
	}

	// A crash: back by itself, with the worker untouched.
	i.v = i.watch()
	mi, g := i.v.scoped(i.repo("repo"))
	working := func() {
		t.Helper()
		got := do[wire.MissionResult](i.v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission
		if got.Phase != "working" || got.Attempt != mi.Attempt || !alive(g.PID) {
			t.Fatalf("the mission: %s in %s, its guard lives: %v", got.Phase, got.Attempt, alive(g.PID))
		}
	}
	i.kill(syscall.SIGKILL, 2)
	working()
	if s := i.status(0, "status"); s.Service.Restarts != 1 {
		t.Errorf("restarts: %+v", s)
	}

	// Edited by hand, and written anew.
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unit, []byte(strings.Replace(string(text), "RestartSec=1", "RestartSec=100", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	i.status(0, "status").says(t, false, "edited by hand")
	if s := i.status(0, "install"); len(s.Changes) != 1 || !strings.Contains(s.Changes[0], "undone") {
		t.Errorf("changes: %q", s.Changes)
	}
	if now, err := os.ReadFile(unit); err != nil || string(now) != string(text) {
		t.Errorf("the unit is not as it was: %v\n%s", err, now)
	}

	// A service that hangs is replaced. The file beside the unit is the person's. A
	// machine that is busy may have it stand still for seconds, which is no hang.
	over := unit + ".d/hang.conf"
	if err := os.Mkdir(filepath.Dir(over), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(over, []byte("[Service]\nWatchdogSec=15\nTimeoutAbortSec=1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	i.systemctl("daemon-reload")
	i.status(0, "restart").says(t, true, "changed by", over)
	i.v.generation(3)
	i.kill(syscall.SIGSTOP, 4)
	working()
	if err := os.RemoveAll(filepath.Dir(over)); err != nil {
		t.Fatal(err)
	}
	i.systemctl("daemon-reload")

	// An upgrade in place, with the mission live.
	i.release(nextVersion)
	i.status(0, "status").says(t, false, nextVersion, "reeve service restart")
	if s := i.status(0, "restart").Service; s.Version != nextVersion || s.Generation != 5 || s.Live != 1 {
		t.Errorf("after the upgrade: %+v", s)
	}
	i.v.generation(5)
	working()

	// One with a newer database, and back: the old program says which one to use.
	i.release(lastVersion)
	i.status(0, "restart")
	i.v.generation(6)
	i.release(nextVersion)
	r := i.run("service", "restart")
	if r.code != 4 || !strings.Contains(r.err, lastVersion) {
		t.Errorf("a downgrade: exit %d %s", r.code, r.err)
	}
	i.status(3, "status").says(t, false, "exit code 4", lastVersion)
	if r := i.run("service", "start"); r.code != 4 || !strings.Contains(r.err, lastVersion) {
		t.Errorf("start: exit %d %s", r.code, r.err)
	}
	i.release(lastVersion)
	i.status(0, "start")
	i.v.generation(7)
	working()

	// One that a person runs is told apart, and handed over.
	if r := i.run("service", "stop"); r.code != 0 || !strings.Contains(r.out, "1 worker goes on") {
		t.Errorf("stop: exit %d %s%s", r.code, r.out, r.err)
	}
	if state := i.systemctl("show", "-P", "ActiveState", "reeve"); state != "inactive" {
		t.Errorf("stopped, the unit is %s", state)
	}
	i.machine.start()
	i.v.generation(8)
	i.status(0, "status").says(t, false, "started by hand", "reeve service restart")
	i.status(0, "install").says(t, false, "started by hand")
	if s := i.status(0, "restart"); s.Service.Generation != 9 {
		t.Errorf("handed over: %+v", s.Service)
	} else {
		s.says(t, true, "at log-on and after a crash")
	}
	<-i.exited
	i.cmd = nil
	i.v.generation(9)
	working()

	// A program that always fails is given up, and tried again when asked to.
	fails := filepath.Join(i.dir, "fails")
	if err := os.WriteFile(fails, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	i.install(fails, i.reeve)
	if err := syscall.Kill(i.status0().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// At the second look the manager has judged.
	late := time.Now().Add(waitLimit)
	for i.systemctl("show", "-P", "ActiveState", "reeve") != "failed" {
		if time.Now().After(late) {
			t.Fatal("it is not given up")
		}
		time.Sleep(100 * time.Millisecond)
	}
	ours := i.reeve
	i.reeve = filepath.Join(bin, lastVersion, "reeve")
	i.status(3, "status").says(t, false, "gave the service up", "reeve service start")
	if err := os.Remove(ours); err != nil {
		t.Fatal(err)
	}
	i.status(3, "status").says(t, false, "is gone", "reeve service install")
	i.reeve = ours
	i.release(lastVersion)
	i.status(0, "start")
	i.v.generation(10)
	working()

	// The machine is started anew: the manager ends with all that is below it,
	// and the next one starts the service at log-on.
	if out, err := exec.Command("systemctl", "--user", "exit").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, pid := range []int{g.PID, g.Keeper.PID} {
		mustEnd(t, pid)
	}
	i.manager()
	i.v.generation(11)
	lost := i.v.lost(mi.ID)
	if lost.Recovery != "approval_required" || len(lost.Left) > 0 {
		t.Fatalf("after the restart of the machine: %+v", lost)
	}
	asked := do[wire.MissionStartResult](i.v, wire.MethodMissionRecover, recovery(lost))
	i.v.answer(asked.Approval, wire.AnswerParams{Allow: true})
	i.v.wait("the recovered mission to work", func() bool {
		x := i.v.missions[mi.ID]
		return x.Phase == "working" && x.Attempt != mi.Attempt
	})

	// Away with it, but not with a mission that runs.
	if r := i.run("service", "uninstall"); r.code != 4 || !strings.Contains(r.err, "--stop-missions") {
		t.Errorf("uninstall with a live mission: exit %d %s", r.code, r.err)
	}
	if r := i.run("service", "uninstall", "--stop-missions"); r.code != 0 || !strings.Contains(r.out, "kept in") {
		t.Errorf("uninstall: exit %d %s%s", r.code, r.out, r.err)
	}
	if state := i.systemctl("show", "-P", "LoadState", "reeve"); state != "not-found" {
		t.Errorf("the unit is %s", state)
	}
	if out := i.systemctl("list-units", "--all", "--plain", "--no-legend", "reeve*"); out != "" {
		t.Errorf("units are left:\n%s", out)
	}
	i.gone(func(string) bool { return false }) // what was told to end may be a moment from its end
	for _, f := range i.files(i.home) {
		if !slices.Contains(before, f) && !strings.HasPrefix(f, i.state) {
			t.Errorf("a file is left outside the state: %s", f)
		}
	}
	if r := i.run("service", "uninstall", "--purge"); r.code != 2 {
		t.Errorf("purge without --yes: exit %d %s", r.code, r.err)
	}
	if r := i.run("service", "uninstall", "--purge", "--yes"); r.code != 0 {
		t.Errorf("purge: exit %d %s", r.code, r.err)
	}
	if _, err := os.Stat(i.state); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state: %v, %v", err, i.files(i.state))
	}
	if _, err := os.Stat(filepath.Join(i.dir, "repo", "notes.txt")); err != nil {
		t.Errorf("the checkout was touched: %v", err)
	}
}

// status0 is the service that answers.
func (i *installed) status0() wire.Service {
	i.t.Helper()
	return do[wire.Service](i.v, wire.MethodServiceStatus, nil)
}

// manager starts the next user manager, as a log-on does.
func (i *installed) manager() {
	i.t.Helper()
	cmd := exec.Command("sh", "-c", `echo $$ >/sys/fs/cgroup/cgroup.procs && exec /lib/systemd/systemd --user --log-target=console`)
	if err := cmd.Start(); err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		_ = exec.Command("systemctl", "--user", "exit").Run()
		_ = cmd.Wait()
	})
}

// files lists the files below dir.
func (i *installed) files(dir string) []string {
	var out []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			out = append(out, path)
		}
		return nil
	})
	return out
}
