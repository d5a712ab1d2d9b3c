package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

// fakeManager is a service manager in memory. What it starts are real processes
// of the test's own service.
type fakeManager struct {
	t      *testing.T
	r      Registration
	env    []string // of what it starts
	refuse error    // what Start answers
	did    []string
	ended  chan struct{} // of what was started; nil: nothing was
}

func (w *world) managed() *fakeManager {
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	w.exe = exe
	f := &fakeManager{t: w.t, r: Registration{Manager: "systemd", File: "/home/me/.config/systemd/user/reeve.service", State: "stopped"},
		env: append(os.Environ(), "REEVE_STATE="+w.vars["REEVE_STATE"], serveVar+"=yes")}
	w.manager = Manager{
		Look: func(context.Context) (Registration, error) { return f.look(), nil },
		Install: func(_ context.Context, u Unit) error {
			f.did = append(f.did, "install")
			f.r.Registered, f.r.AtLogon, f.r.Edited, f.r.Exe, f.r.Args, f.r.Env = true, true, false, u.Exe, u.Args, u.Env
			return nil
		},
		Uninstall: func(context.Context) error {
			f.did = append(f.did, "uninstall")
			f.r = Registration{Manager: "systemd", File: f.r.File, State: "stopped"}
			return nil
		},
		Start: func(context.Context) error { f.did = append(f.did, "start"); return f.start() },
		Stop: func(context.Context) error {
			f.did = append(f.did, "stop")
			f.r.State, f.r.PID = "stopped", 0
			return nil
		},
	}
	w.t.Cleanup(func() {
		if f.ended != nil {
			<-f.ended
		}
	})
	return f
}

func (f *fakeManager) start() error {
	if f.refuse != nil {
		return f.refuse
	}
	cmd := exec.Command(f.r.Exe, f.r.Args...)
	cmd.Env = f.env
	if err := cmd.Start(); err != nil {
		return err
	}
	// 42 is what the test's service says of itself.
	f.r.State, f.r.PID, f.ended = "running", 42, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait()
	}(f.ended)
	return nil
}

// look is how it stands now: an orderly end is not repaired.
func (f *fakeManager) look() Registration {
	select {
	case <-f.ended:
		f.r.State, f.r.PID, f.ended = "stopped", 0, nil
	default:
	}
	return f.r
}

func (f *fakeManager) took() []string {
	out := f.did
	f.did = nil
	return out
}

// Registered, started by the manager, and ended; each command may be repeated.
func TestServiceInstall(t *testing.T) {
	w := newWorld(t, nil)
	w.expect(ExitFailed, "", "This program knows no service manager. Start the service with `reeve service start`.", "service", "install")
	f := w.managed()
	f.refuse = errors.New("the job failed")
	w.expect(ExitFailed, "", "Start the service: the job failed", "service", "install")
	if got := f.took(); !slices.Equal(got, []string{"install", "start", "uninstall"}) {
		t.Errorf("an installation that failed did %v", got)
	}
	f.refuse = nil
	w.expect(ExitOK, "The service is registered with systemd: it is started at each log-on, and again after a crash.\nService running", "", "service", "install")
	w.expect(ExitOK, "The service is registered with systemd already.\n", "", "service", "install")
	w.expect(ExitOK, "The service runs already.\n", "", "service", "start")
	if got := f.took(); !slices.Equal(got, []string{"install", "start", "install"}) {
		t.Errorf("it did %v", got)
	}
	if want := w.vars["REEVE_STATE"]; f.r.Env["REEVE_STATE"] != want || f.r.Exe != w.exe || !slices.Equal(f.r.Args, []string{"service", "run"}) {
		t.Errorf("registered: %+v, want the state %s", f.r, want)
	}
	out, _ := w.expect(ExitOK, `"registered":true`, "", "service", "status", "--json")
	if !strings.Contains(out, `"at_logon":true`) || !strings.Contains(out, `"manager":"systemd"`) {
		t.Errorf("status: %s", out)
	}
	w.expect(ExitOK, "The service has ended.", "", "service", "stop")
	w.expect(ExitOK, "The service does not run.", "", "service", "stop")
	// One that the manager is about to start again is stopped, too.
	f.r.State = "starting"
	w.expect(ExitOK, "The service does not run.", "", "service", "stop")
	if got := f.took(); !slices.Equal(got, []string{"stop"}) {
		t.Errorf("it did %v", got)
	}
	w.expect(ExitOK, "The service is no longer registered, and does not run.\nThe journal and the transcripts are kept in", "", "service", "uninstall")
	w.expect(ExitOK, "The service was not registered, and does not run.", "", "service", "uninstall")
	if len(w.purged) > 0 {
		t.Errorf("%v was removed", w.purged)
	}
}

// A service of another state stays another's: it is neither started nor removed
// from here, and registering this one says what that changes.
func TestServiceOfAnotherState(t *testing.T) {
	w := newWorld(t, populated())
	f := w.managed()
	f.r.Registered, f.r.AtLogon, f.r.Exe, f.r.Args, f.r.State = true, true, "/old/reeve", []string{"service", "run"}, "running"
	f.r.Env = map[string]string{"REEVE_STATE": "/home/me/other"}
	w.expect(ExitOK, "The service that systemd starts has another state: ~/other.", "", "service", "status")
	w.expect(ExitRefused, "", "The registered service has another state: ~/other. Set REEVE_STATE to that", "service", "uninstall")
	out, _ := w.expect(ExitOK, "The program was /old/reeve and is now ", "", "service", "install")
	for _, want := range []string{"The state was ~/other and is now ", "The service with that state was ended; its workers go on"} {
		if !strings.Contains(out, want) {
			t.Errorf("install lacks %q:\n%s", want, out)
		}
	}
	if got := f.took(); !slices.Equal(got, []string{"install", "stop"}) {
		t.Errorf("it did %v", got)
	}
}

// The reason for a failed start is the service's own, and its exit code.
func TestManagedStartFails(t *testing.T) {
	w := newWorld(t, nil)
	f := w.managed()
	f.r.Registered, f.r.AtLogon, f.r.Exe, f.r.Env = true, true, w.exe, map[string]string{"REEVE_STATE": w.vars["REEVE_STATE"]}
	f.refuse, f.r.State, f.r.Exit, f.r.Said = errors.New("the job failed"), "failed", 4, "use Reeve 8.0.0 or newer"
	w.expect(ExitRefused, "", "The service ended at once. Use Reeve 8.0.0 or newer.", "service", "start")
	w.expect(ExitUnreachable, "", "The service ended in error (exit code 4). It said: Use Reeve 8.0.0 or newer.", "service", "status")
}

// What runs is not ended unasked, and what was written is not removed unasked.
func TestServiceUninstallAsks(t *testing.T) {
	b := populated()
	b.live = 2
	w := newWorld(t, b)
	f := w.managed()
	f.r.Registered, f.r.AtLogon, f.r.Exe, f.r.Env = true, true, w.exe, map[string]string{"REEVE_STATE": w.vars["REEVE_STATE"]}
	w.expect(ExitRefused, "", "2 missions run, and would be ended. See `reeve ls`; then run `reeve service uninstall --stop-missions`.", "service", "uninstall")
	w.expect(ExitUsage, "", "Add --yes.", "service", "uninstall", "--purge")
	w.terminal, w.stdin = true, "n\n"
	w.expect(ExitDenied, "2 missions run. End them and uninstall?", "Nothing was changed.", "service", "uninstall")
	w.expect(ExitDenied, "for good?", "Nothing was changed.", "service", "uninstall", "--purge")
	if got := f.took(); len(got)+len(w.purged) > 0 {
		t.Errorf("it did %v, removed %v", got, w.purged)
	}
	w.stdin = "y\n"
	b.with(func() {
		b.secrets = []wire.Credential{{Name: "IN_KEYCHAIN", In: wire.InKeychain}, {Name: "IN_FILE", In: wire.InFile}}
	})
	w.expect(ExitOK, "Removed from the keychain: IN_KEYCHAIN.\n", "", "service", "uninstall", "--purge-keychain")
	b.with(func() {
		if len(b.secrets) != 1 || b.secrets[0].Name != "IN_FILE" {
			t.Errorf("kept: %+v", b.secrets)
		}
	})
	w.terminal = false
	out, _ := w.expect(ExitOK, `"state_kept":false`, "", "service", "uninstall", "--purge", "--yes", "--json")
	if state := w.vars["REEVE_STATE"]; !slices.Equal(w.purged, []string{state}) || !strings.Contains(out, state+"/mine") {
		t.Errorf("removed %v: %s", w.purged, out)
	}
}

// What stays in the keychain is named before its names are gone for good, and
// after.
func TestPurgeNamesWhatStaysInTheKeychain(t *testing.T) {
	secrets := []wire.Credential{{Name: "A", In: wire.InKeychain}, {Name: "IN_FILE", In: wire.InFile}, {Name: "B", In: wire.InKeychain}}
	w := newWorld(t, &fake{secrets: slices.Clone(secrets)})
	w.terminal, w.stdin = true, "n\n"
	w.expect(ExitDenied, "In the keychain: A, B. Afterwards Reeve can't remove that; --purge-keychain does.\n", "Nothing was changed.", "service", "uninstall", "--purge")
	if out, _ := w.expect(ExitDenied, "for good?", "Nothing was changed.", "service", "uninstall", "--purge", "--purge-keychain"); strings.Contains(out, "Afterwards") {
		t.Errorf("what is to be removed is said to stay:\n%s", out)
	}
	w.terminal = false
	w.expect(ExitOK, "Still in the keychain: A, B. Reeve no longer knows of that; remove it with the passwords program of your desktop.\n", "", "service", "uninstall", "--purge", "--yes")
	// What was not there is not said to be removed.
	w = newWorld(t, &fake{secrets: slices.Clone(secrets), note: "The keychain had none."})
	w.expect(ExitOK, `"forgotten":[],"in_keychain":[]`, "The keychain had none.\nThe keychain had none.\n", "service", "uninstall", "--purge", "--yes", "--purge-keychain", "--json")
	w = newWorld(t, &fake{secrets: slices.Clone(secrets)})
	w.expect(ExitOK, `"in_keychain":[],`, "", "service", "uninstall", "--json")
}

// A service that can't be started is not "no service": another may have the
// state, and workers may go on without one.
func TestUninstallWithoutAService(t *testing.T) {
	w := newWorld(t, nil)
	f := w.managed()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	state := w.vars["REEVE_STATE"]
	w.exe, f.r.Registered, f.r.AtLogon, f.r.Exe, f.r.Env = exe, true, true, exe, map[string]string{"REEVE_STATE": state}
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "reeve.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(serveVar, "owned")
	for _, args := range [][]string{{"service", "uninstall"}, {"service", "uninstall", "--purge", "--yes"}} {
		w.expect(ExitOwned, "", "A service with pid 1 already runs.", args...)
	}
	t.Setenv(serveVar, "damaged")
	w.outlived = []string{"41", "42"}
	w.expect(ExitRefused, "", "Workers that outlived the service go on (41, 42)", "service", "uninstall", "--purge", "--yes")
	if got := f.took(); len(got)+len(w.purged) > 0 {
		t.Errorf("it did %v, removed %v", got, w.purged)
	}
	w.expect(ExitFailed, `"outlived":["41","42"]`, "Workers that outlived the service go on (41, 42)", "service", "uninstall", "--json")
	w.outlived = nil
	f.r.Registered, f.r.AtLogon, f.r.Exe, f.r.Env = true, true, exe, map[string]string{"REEVE_STATE": state}
	w.expect(ExitOK, "no longer registered", "The database is damaged.", "service", "uninstall", "--purge", "--yes")
	if !slices.Equal(w.purged, []string{state}) {
		t.Errorf("removed %v", w.purged)
	}
}

// Every way in which a registration can be wrong is told, with what to do.
func TestRegistrationChecks(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "reeve")
	if err := os.WriteFile(exe, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	a := &app{Env: Env{Version: "1.0.0", Exe: exe, Getenv: func(name string) string {
		return map[string]string{"HOME": "/home/me", "REEVE_STATE": "/s"}[name]
	}}}
	running := &wire.Service{PID: 42, Version: "1.0.0"}
	fine := Registration{Manager: "systemd", Registered: true, AtLogon: true, File: "/u", Exe: exe, State: "running", PID: 42, Env: map[string]string{"REEVE_STATE": "/s"}}
	for name, c := range map[string]struct {
		change    func(*Registration)
		s         *wire.Service
		ok        bool
		says, fix string
	}{
		"fine":           {func(*Registration) {}, running, true, "systemd starts the service at log-on and after a crash.", ""},
		"not registered": {func(r *Registration) { r.Registered = false }, running, true, "not registered with systemd", "reeve service install"},
		"no manager":     {func(r *Registration) { r.Registered, r.Manager, r.Why, r.Fix = false, "", "No systemd.", "Do that." }, running, true, "No systemd.", "Do that."},
		"nobody looks":   {func(r *Registration) { r.Manager, r.Why, r.Fix = "", "No systemd.", "Do that." }, nil, false, "nobody looks after it", "Do that."},
		"another state":  {func(r *Registration) { r.Env = nil }, running, true, "has another state", "reeve service install"},
		"gone":           {func(r *Registration) { r.Exe = "/gone/reeve" }, running, false, "is gone: /gone/reeve", "reeve service install"},
		"moved":          {func(r *Registration) { r.Exe = "/bin/sh" }, running, false, "/bin/sh is registered, and this is", "reeve service install"},
		"edited":         {func(r *Registration) { r.Edited = true }, running, false, "/u was edited by hand", "reeve service install"},
		"overridden":     {func(r *Registration) { r.Overrides = []string{"/u.d/x.conf"} }, running, true, "changed by /u.d/x.conf", ""},
		"disabled":       {func(r *Registration) { r.AtLogon = false }, running, false, "not started at log-on", "reeve service install"},
		"by hand":        {func(r *Registration) { r.PID = 0 }, running, false, "started by hand", "reeve service restart"},
		"gave up":        {func(r *Registration) { r.State, r.GaveUp, r.Said = "failed", true, "no room" }, nil, false, "gave the service up, because it ended in error again and again. It said: No room.", "reeve service start"},
		"failed":         {func(r *Registration) { r.State, r.Exit = "failed", 7 }, nil, false, "exit code 7", "reeve service logs"},
		"starting":       {func(r *Registration) { r.State = "starting" }, nil, false, "does not answer yet", "reeve service logs"},
		"hangs":          {func(*Registration) {}, nil, false, "runs the service with pid 42, but it does not answer", "reeve service stop"},
	} {
		r := fine
		c.change(&r)
		got := a.registrationChecks(r, c.s)
		if len(got) != 1 || got[0].OK != c.ok || !strings.Contains(got[0].Message, c.says) || !strings.Contains(got[0].Fix, c.fix) || c.fix == "" && got[0].Fix != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	a.Manager.Look = func(context.Context) (Registration, error) { return fine, nil }
	older := *running
	older.Version = "0.9.0"
	if got := a.describe(t.Context(), &older).Checks; len(got) != 2 || got[1].OK || !strings.Contains(got[1].Message, "version 0.9.0 and this program is 1.0.0") || !strings.Contains(got[1].Fix, "reeve service restart") {
		t.Errorf("of another version: %+v", got)
	}
}

// A service that this program can't talk to is ended by the manager, which
// needs no protocol; without one the person is told.
func TestStrangerIsStoppedByItsManager(t *testing.T) {
	w := newWorld(t, nil)
	path, err := sock.Path(w.getenv)
	if err != nil {
		t.Fatal(err)
	}
	l, err := sock.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, err := wire.NewLineReader(c).Next()
			var q wire.Request
			if err == nil && json.Unmarshal(line, &q) == nil {
				_, _ = fmt.Fprintf(c, `{"version":1,"id":%q,"ok":false,"code":"unsupported_version","error":"no","details":{"app_version":"9.0.0"}}`+"\n", q.ID)
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-served })
	f := w.managed()
	w.expect(ExitUnreachable, "", "The service is version 9.0.0", "service", "stop")
	f.r.Registered, f.r.AtLogon, f.r.Exe, f.r.State, f.r.Env = true, true, w.exe, "running", map[string]string{"REEVE_STATE": w.vars["REEVE_STATE"]}
	w.expect(ExitOK, "The service has ended.", "", "service", "stop")
	if got := f.took(); !slices.Equal(got, []string{"stop"}) {
		t.Errorf("it did %v", got)
	}
}

// Who loses workers by logging out is told by status, too, whether the service
// runs or is yet to be started; programs find it among the checks.
func TestStatusTellsOfLingering(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only systemd ends what a user left behind")
	}
	for _, f := range []*fake{nil, populated()} {
		w := newWorld(t, f)
		w.vars["XDG_RUNTIME_DIR"] = t.TempDir()
		if err := os.MkdirAll(filepath.Join(w.vars["XDG_RUNTIME_DIR"], "systemd", "private"), 0o700); err != nil {
			t.Fatal(err)
		}
		// Whether it is on is this machine's matter.
		_, out, errs := w.run("service", "status")
		if n := strings.Count(out+errs, "when you log out") + strings.Count(out+errs, "When you log out"); n != 1 {
			t.Errorf("told %d times:\n%s%s", n, out, errs)
		}
		_, out, _ = w.run("service", "status", "--json")
		if !strings.Contains(out, `{"name":"logging out","ok":true,"message":`) {
			t.Errorf("not in JSON: %s", out)
		}
	}
}
