package osservice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kardianos/service"
)

// callLimit bounds one question to the manager. Starting has the unit's own
// limit beside it.
const callLimit = 2 * time.Minute

// Look says how the service stands with the manager. It changes nothing.
func Look(ctx context.Context) (Registration, error) {
	r := Registration{State: StateStopped}
	path, err := unitPath()
	if err != nil {
		return r, err
	}
	r.File = path
	if none := noManager(); none != nil {
		r.Why, r.Fix = none.Why, none.Fix
		_, err := os.Lstat(path)
		r.Registered = err == nil
	} else {
		r.Manager = "systemd"
		if err := r.show(ctx); err != nil {
			return r, err
		}
	}
	text, err := os.ReadFile(r.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return r, fmt.Errorf("read what is registered: %w", err)
	}
	r.Registered = true
	u, err := parseSystemdUnit(string(text))
	r.fill(u)
	r.Edited = err != nil || systemdUnit(u) != string(text)
	return r, nil
}

// noManager says why there is no user manager that could be asked, or nil.
func noManager() *NoManagerError {
	byHand := "Start the service with `reeve service start`; docs/service.md says how OpenRC, runit and others start it by themselves."
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return &NoManagerError{"This system is not run by systemd.", byHand}
	}
	if _, err := exec.LookPath("systemctl"); err != nil {
		return &NoManagerError{"There is no systemctl on the PATH.", byHand}
	}
	own := "/run/user/" + strconv.Itoa(os.Getuid())
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return &NoManagerError{"This session has no systemd user manager (XDG_RUNTIME_DIR is not set), as after su or sudo.",
			"Log in as this user, or run `loginctl enable-linger` and set XDG_RUNTIME_DIR=" + own + "."}
	}
	if _, err := os.Stat(filepath.Join(dir, "systemd", "private")); err != nil {
		return &NoManagerError{"No systemd user manager runs in this session.", "Log in as this user, or run `loginctl enable-linger`. " + byHand}
	}
	return nil
}

// show asks the manager for what it knows.
func (r *Registration) show(ctx context.Context) error {
	out, err := systemctl(ctx, "show", unitName+".service", "-p",
		"LoadState,FragmentPath,DropInPaths,NeedDaemonReload,UnitFileState,ActiveState,MainPID,ExecMainCode,ExecMainStatus,NRestarts,StatusText")
	if err != nil {
		return err
	}
	v := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		v[name] = value
	}
	if v["FragmentPath"] != "" {
		r.File = v["FragmentPath"]
	}
	r.Overrides = strings.Fields(v["DropInPaths"])
	r.AtLogon = v["UnitFileState"] == "enabled"
	r.PID, _ = strconv.Atoi(v["MainPID"])
	r.Restarts, _ = strconv.Atoi(v["NRestarts"])
	r.Said = v["StatusText"]
	if v["ExecMainCode"] == "1" { // it ended by itself, not by a signal
		r.Exit, _ = strconv.Atoi(v["ExecMainStatus"])
	}
	switch v["ActiveState"] {
	case "active", "reloading":
		r.State = StateRunning
	case "activating":
		r.State = StateStarting
	case "deactivating":
		r.State = StateStopping
	case "failed":
		r.State = StateFailed
		// Every other failure is repaired until there were too many.
		r.GaveUp = r.Exit != 4 && r.Exit != 7
	}
	return nil
}

// Install registers u and has it started at each log-on; it starts nothing now.
// What was registered before is replaced. Repeating it changes nothing, and when
// it fails everything is as before.
func Install(ctx context.Context, u Unit) error {
	if err := u.check(); err != nil {
		return err
	}
	if none := noManager(); none != nil {
		return none
	}
	path, err := unitPath()
	if err != nil {
		return err
	}
	text := systemdUnit(u)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read what is registered: %w", err)
	}
	had := err == nil
	if had && string(old) == text {
		if err := reload(ctx); err != nil { // it may have been edited and put back
			return err
		}
		_, err := systemctl(ctx, "enable", unitName+".service")
		return err
	}
	before := path + ".before"
	if had {
		if err := os.Rename(path, before); err != nil {
			return fmt.Errorf("put the old registration aside: %w", err)
		}
	}
	if err := write(ctx, u, path, text); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
		defer cancel()
		if had {
			err = errors.Join(err, os.Rename(before, path))
		} else {
			_ = os.Remove(path)
			_ = os.Remove(wantsLink(path))
		}
		return errors.Join(err, reload(undo))
	}
	if had {
		_ = os.Remove(before)
	}
	return nil
}

// write makes the unit file and enables it.
func write(ctx context.Context, u Unit, path, text string) error {
	s, err := byKardianos(u, text)
	if err != nil {
		return err
	}
	if err := s.Install(); err != nil {
		// It keeps for itself what systemctl said, so that is asked again.
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("write the unit file: %w", err)
		}
		if err := reload(ctx); err != nil {
			return err
		}
		if _, err := systemctl(ctx, "enable", unitName+".service"); err != nil {
			return err
		}
	}
	got, err := os.ReadFile(path)
	if err == nil && string(got) != text {
		err = fmt.Errorf("%s was not written whole", path)
	}
	if err != nil {
		return fmt.Errorf("write the unit file: %w", err)
	}
	return nil
}

// Uninstall takes the registration away. The service must have ended. Repeating
// it changes nothing.
func Uninstall(ctx context.Context) error {
	path, err := unitPath()
	if err != nil {
		return err
	}
	_, err = os.Lstat(path)
	here := err == nil
	if noManager() != nil {
		if here {
			_ = os.Remove(wantsLink(path))
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove the unit file: %w", err)
			}
		}
		return nil
	}
	r := Registration{}
	if err := r.show(ctx); err != nil {
		return err
	}
	switch {
	case !here && r.File != "":
		return fmt.Errorf("the unit %s was not made by `reeve service install`; disable it with systemctl --user disable --now %s", r.File, unitName)
	case !here:
		return nil
	}
	if _, err := systemctl(ctx, "stop", unitName+".service"); err != nil {
		return err
	}
	s, err := byKardianos(Unit{Exe: "/"}, "")
	if err != nil {
		return err
	}
	if err := s.Uninstall(); err != nil {
		return fmt.Errorf("remove the unit %s: %w", path, err)
	}
	_, _ = systemctl(ctx, "reset-failed", unitName+".service") // fails when there is nothing to forget
	return nil
}

// Start has the manager start the service, also one that it gave up, and returns
// when the service says that it is ready.
func Start(ctx context.Context) error {
	_, _ = systemctl(ctx, "reset-failed", unitName+".service") // fails when there is nothing to forget
	_, err := systemctl(ctx, "start", unitName+".service")
	return err
}

// Stop has the manager end the service.
func Stop(ctx context.Context) error {
	_, err := systemctl(ctx, "stop", unitName+".service")
	return err
}

// Launch is for Windows.
func Launch(context.Context) error { return errLaunch }

// RemoveLauncher is for Windows.
func RemoveLauncher(string) error { return errLaunch }

func reload(ctx context.Context) error {
	_, err := systemctl(ctx, "daemon-reload")
	return err
}

func systemctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", append([]string{"--user", "--no-pager", "--quiet"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		what := strings.TrimSpace(said.String())
		if ctx.Err() != nil {
			what = "no answer in time"
		}
		if what == "" {
			what = err.Error()
		}
		return "", fmt.Errorf("systemctl --user %s: %s", strings.Join(args, " "), what)
	}
	return out.String(), nil
}

// unitPath is where kardianos/service writes the unit.
func unitPath() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the folder of user units: %w", err)
	}
	return filepath.Join(home, ".config", "systemd", "user", unitName+".service"), nil
}

func wantsLink(path string) string {
	return filepath.Join(filepath.Dir(path), "default.target.wants", filepath.Base(path))
}

func byKardianos(u Unit, text string) (service.Service, error) {
	if service.Platform() != "linux-systemd" { // it would write elsewhere
		return nil, &NoManagerError{"This system is not run by systemd.", "Start the service with `reeve service start`."}
	}
	return service.New(nothing{}, &service.Config{
		Name: unitName, Executable: u.Exe,
		Option: service.KeyValue{"UserService": true, "SystemdScript": text},
	})
}
