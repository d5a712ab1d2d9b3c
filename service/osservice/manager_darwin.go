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

// callLimit bounds one call of launchctl.
const callLimit = time.Minute

// Look says how the service stands with the manager. It changes nothing.
func Look(ctx context.Context) (Registration, error) {
	r := Registration{Manager: "launchd", State: StateStopped}
	path, log, err := agentPaths()
	if err != nil {
		return r, err
	}
	r.File = path
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read what is registered: %w", err)
	}
	r.Registered, r.AtLogon = true, true
	u, err := parseLaunchAgent(string(text))
	r.fill(u)
	want, wrong := launchAgent(u, log)
	r.Edited = err != nil || wrong != nil || want != string(text)
	out, err := launchctl(ctx, "print", domain(ctx)+"/"+launchLabel)
	if err != nil {
		return r, nil // it is not loaded
	}
	r.printed(out)
	return r, nil
}

// printed reads what launchctl print says of the agent. Its words are for
// people, so that what is not understood is left out.
func (r *Registration) printed(out string) {
	for line := range strings.Lines(out) {
		// What is nested is about something else.
		if strings.HasPrefix(line, "\t\t") {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch name {
		case "state":
			if value == "running" {
				r.State = StateRunning
			}
		case "pid":
			r.PID, _ = strconv.Atoi(value)
		case "runs":
			if n, _ := strconv.Atoi(value); n > 1 {
				r.Restarts = n - 1
			}
		case "last exit code":
			code, _, _ := strings.Cut(value, ":")
			r.Exit, _ = strconv.Atoi(code)
		}
	}
	if r.State == StateStopped && r.Exit != 0 {
		r.State = StateFailed
	}
}

// Install registers u and has it started at each log-on; it starts nothing now.
// What was registered before is replaced. Repeating it changes nothing, and when
// it fails everything is as before.
func Install(_ context.Context, u Unit) error {
	if err := u.check(); err != nil {
		return err
	}
	path, log, err := agentPaths()
	if err != nil {
		return err
	}
	text, err := launchAgent(u, log)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read what is registered: %w", err)
	}
	had := err == nil
	if had && string(old) == text {
		return nil
	}
	before := path + ".before"
	if had {
		if err := os.Rename(path, before); err != nil {
			return fmt.Errorf("put the old registration aside: %w", err)
		}
	}
	err = writeAgent(u, path, text)
	switch {
	case err != nil && had:
		return errors.Join(err, os.Rename(before, path))
	case err != nil:
		_ = os.Remove(path)
		return err
	case had:
		_ = os.Remove(before)
	}
	return nil
}

func writeAgent(u Unit, path, text string) error {
	s, err := byKardianos(u, text)
	if err != nil {
		return err
	}
	if err := s.Install(); err != nil {
		return fmt.Errorf("write the launch agent: %w", err)
	}
	got, err := os.ReadFile(path)
	if err == nil && string(got) != text {
		err = fmt.Errorf("%s was not written whole", path)
	}
	return err
}

// Uninstall takes the registration away. The service must have ended. Repeating
// it changes nothing.
func Uninstall(ctx context.Context) error {
	path, log, err := agentPaths()
	if err != nil {
		return err
	}
	_, _ = launchctl(ctx, "bootout", domain(ctx)+"/"+launchLabel) // fails when it is not loaded
	for _, name := range []string{path, log} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what is registered: %w", err)
		}
	}
	return nil
}

// Start has the manager start the service as it is registered now.
func Start(ctx context.Context) error {
	path, _, err := agentPaths()
	if err != nil {
		return err
	}
	d := domain(ctx)
	r, err := Look(ctx)
	if err != nil || r.PID != 0 {
		return err
	}
	// What is loaded may be of an earlier registration.
	_, _ = launchctl(ctx, "bootout", d+"/"+launchLabel)
	if _, err := launchctl(ctx, "enable", d+"/"+launchLabel); err != nil {
		return err
	}
	_, err = launchctl(ctx, "bootstrap", d, path) // RunAtLoad starts it
	return err
}

// Stop has the manager end the service. An orderly end is not repaired.
func Stop(ctx context.Context) error {
	_, err := launchctl(ctx, "kill", "SIGTERM", domain(ctx)+"/"+launchLabel)
	return err
}

// Launch is for Windows.
func Launch(context.Context) error { return errLaunch }

// RemoveLauncher is for Windows.
func RemoveLauncher(string) error { return errLaunch }

// domain is where agents of this user live: that of the graphical session where
// there is one.
func domain(ctx context.Context) string {
	uid := strconv.Itoa(os.Getuid())
	if _, err := launchctl(ctx, "print", "gui/"+uid); err == nil {
		return "gui/" + uid
	}
	return "user/" + uid
}

func launchctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/launchctl", args...)
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		what := strings.TrimSpace(said.String())
		if what == "" {
			what = err.Error()
		}
		return "", fmt.Errorf("launchctl %s: %s", strings.Join(args, " "), what)
	}
	return out.String(), nil
}

// agentPaths are where kardianos/service writes the agent, and where launchd
// keeps what the service prints.
func agentPaths() (agent, log string, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", "", fmt.Errorf("find the folder of launch agents: %w", err)
	}
	lib := filepath.Join(home, "Library")
	return filepath.Join(lib, "LaunchAgents", launchLabel+".plist"), filepath.Join(lib, "Logs", "reeve-service.log"), nil
}

func byKardianos(u Unit, text string) (service.Service, error) {
	return service.New(nothing{}, &service.Config{
		Name: launchLabel, Executable: u.Exe,
		Option: service.KeyValue{"UserService": true, "LaunchdConfig": text},
	})
}
