package osservice

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"github.com/kardianos/service"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// Names in the registry and with the Service Control Manager.
const (
	unitKey      = `Software\Reeve\Service` // of the user: what is registered
	runKey       = `Software\Microsoft\Windows\CurrentVersion\Run`
	runValue     = "Reeve"
	launcherName = "ReeveLauncher"
)

// launcherArgs make the program the launcher.
var launcherArgs = []string{"service", "launch"}

// Look says how the service stands with the manager. It changes nothing.
func Look(context.Context) (Registration, error) {
	r := Registration{Manager: "windows", State: StateStopped, File: `HKEY_CURRENT_USER\` + unitKey}
	u, err := readUnit(registry.CURRENT_USER, unitKey)
	if errors.Is(err, registry.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read what is registered: %w", err)
	}
	r.Registered = true
	r.fill(u)
	if _, works := launcherExe(); works {
		r.AtLogon = true
		return r, nil
	}
	k, err := registry.OpenKey(registry.CURRENT_USER, runKey, registry.QUERY_VALUE)
	if err != nil {
		return r, nil // so that nothing is started at log-on
	}
	defer k.Close()
	line, _, err := k.GetStringValue(runValue)
	r.AtLogon = err == nil
	r.Edited = err == nil && line != runLine(u)
	return r, nil
}

// Install registers u and has it started at each log-on; it starts nothing now.
// Repeating it changes nothing, and when it fails everything is as before.
//
// The launcher runs as the system, so it is only made from a program that no
// ordinary user can replace. Where that is not so, or without admin rights, a
// log-on entry of this user does instead.
func Install(_ context.Context, u Unit) (err error) {
	if err := u.check(); err != nil {
		return err
	}
	old, was := readUnit(registry.CURRENT_USER, unitKey)
	defer func() {
		switch {
		case err == nil:
		case was == nil:
			err = errors.Join(err, writeUnit(old))
		default:
			_ = registry.DeleteKey(registry.CURRENT_USER, unitKey)
		}
	}()
	if err := writeUnit(u); err != nil {
		return fmt.Errorf("register the service: %w", err)
	}
	if _, works := launcherExe(); works {
		return dropRun()
	}
	if protected(u.Exe) {
		_ = dropLauncher(u.Exe) // one whose program is gone
		s, err := byKardianos(u)
		if err != nil {
			return err
		}
		if s.Install() == nil {
			if err := s.Start(); err != nil {
				return errors.Join(fmt.Errorf("start the launcher: %w", err), s.Uninstall())
			}
			return dropRun()
		}
	}
	k, _, err := registry.CreateKey(registry.CURRENT_USER, runKey, registry.SET_VALUE)
	if err != nil {
		return fmt.Errorf("make a log-on entry: %w", err)
	}
	defer k.Close()
	if err := k.SetStringValue(runValue, runLine(u)); err != nil {
		return fmt.Errorf("make a log-on entry: %w", err)
	}
	return nil
}

// Uninstall takes the registration of this user away. The launcher is left while
// other users may need it; who may remove it is told by the installer.
func Uninstall(context.Context) error {
	if err := dropRun(); err != nil {
		return err
	}
	if err := registry.DeleteKey(registry.CURRENT_USER, unitKey); err != nil && !errors.Is(err, registry.ErrNotExist) {
		return fmt.Errorf("remove what is registered: %w", err)
	}
	_ = registry.DeleteKey(registry.CURRENT_USER, filepath.Dir(unitKey)) // fails unless it is empty
	return nil
}

// RemoveLauncher clears the way for an uninstaller that is about to remove the
// program exe: it ends the desktop beside exe, which holds no work that could be
// lost, and removes the launcher that serves all users, which takes admin rights.
// Services that run go on.
func RemoveLauncher(exe string) error {
	return errors.Join(endDesktop(filepath.Dir(exe)), dropLauncher(exe))
}

// desktop is the name of the program with the windows. An upgrade that finds it
// running gives it another ending.
const desktop = "reeve-desktop.exe"

// endDesktop ends the desktops that run from dir, as far as this user may.
func endDesktop(dir string) error {
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return fmt.Errorf("look for the desktop: %w", err)
	}
	defer windows.CloseHandle(snap)
	var failed error
	e := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(snap, &e); err == nil; err = windows.Process32Next(snap, &e) {
		if name := strings.ToLower(windows.UTF16ToString(e.ExeFile[:])); !strings.HasPrefix(name, desktop) {
			continue
		}
		if err := endFrom(dir, e.ProcessID); err != nil {
			failed = errors.Join(failed, fmt.Errorf("end the desktop, process %d: %w", e.ProcessID, err))
		}
	}
	return failed
}

// endFrom ends the process if its program lies in dir, and waits for its end.
func endFrom(dir string, pid uint32) error {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.PROCESS_TERMINATE|windows.SYNCHRONIZE, false, pid)
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
		return nil // it has ended
	}
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	buf := make([]uint16, windows.MAX_LONG_PATH)
	n := uint32(len(buf))
	if err := windows.QueryFullProcessImageName(h, 0, &buf[0], &n); err != nil {
		return err
	}
	if !strings.EqualFold(filepath.Dir(windows.UTF16ToString(buf[:n])), filepath.Clean(dir)) {
		return nil
	}
	if err := windows.TerminateProcess(h, 0); err != nil {
		return err
	}
	_, err = windows.WaitForSingleObject(h, 5000)
	return err
}

// dropLauncher takes the launcher away if it is of the program exe or of one
// that is gone. Without such a launcher nothing happens.
func dropLauncher(exe string) error {
	if has, works := launcherExe(); has == "" || works && !strings.EqualFold(filepath.Clean(has), filepath.Clean(exe)) {
		return nil
	}
	state, err := launcherState()
	if err != nil || state == service.StatusUnknown {
		return err
	}
	s, err := byKardianos(Unit{Exe: `C:\`})
	if err != nil {
		return err
	}
	if state == service.StatusRunning {
		if err := s.Stop(); err != nil {
			return fmt.Errorf("end the launcher: %w", err)
		}
	}
	if err := s.Uninstall(); err != nil {
		return fmt.Errorf("remove the launcher: %w", err)
	}
	return nil
}

// Start starts the service of this user below a launcher of its own, which
// repairs it. Who reaches the state first has it.
func Start(context.Context) error {
	u, err := readUnit(registry.CURRENT_USER, unitKey)
	if errors.Is(err, registry.ErrNotExist) {
		return ErrNotRegistered
	}
	if err != nil {
		return fmt.Errorf("read what is registered: %w", err)
	}
	cmd := exec.Command(u.Exe, launcherArgs...)
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the launcher: %w", err)
	}
	return cmd.Process.Release()
}

// Stop is for the service itself: no manager holds it here.
func Stop(context.Context) error { return nil }

// launcherExe is the launcher's program, or "" where none is installed. It works
// while that program is there.
func launcherExe() (exe string, works bool) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\`+launcherName, registry.QUERY_VALUE)
	if err != nil {
		return "", false
	}
	defer k.Close()
	line, _, err := k.GetStringValue("ImagePath")
	if err != nil {
		return "", false
	}
	args, err := windows.DecomposeCommandLine(line)
	if err != nil || len(args) == 0 {
		return "", false
	}
	_, err = os.Stat(args[0])
	return args[0], err == nil
}

// launcherState is StatusUnknown where no launcher is installed.
func launcherState() (service.Status, error) {
	s, err := byKardianos(Unit{Exe: `C:\`})
	if err != nil {
		return service.StatusUnknown, err
	}
	state, err := s.Status()
	if errors.Is(err, service.ErrNotInstalled) {
		return service.StatusUnknown, nil
	}
	return state, err
}

func byKardianos(u Unit) (service.Service, error) {
	return service.New(nothing{}, &service.Config{
		Name: launcherName, DisplayName: "Reeve launcher", Executable: u.Exe, Arguments: launcherArgs,
		Description: "Starts Reeve's service for each user who registered it, at that user's first session.",
		Option:      service.KeyValue{service.OnFailure: service.OnFailureRestart, "OnFailureDelayDuration": "1s", "OnFailureResetPeriod": 60},
	})
}

// protected says whether the program lies where only administrators write.
func protected(exe string) bool {
	for _, name := range []string{"ProgramFiles", "ProgramW6432", "ProgramFiles(x86)"} {
		dir := os.Getenv(name)
		if rel, err := filepath.Rel(dir, exe); dir != "" && err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// runLine is the command of the log-on entry.
func runLine(u Unit) string {
	line := syscall.EscapeArg(u.Exe)
	for _, a := range launcherArgs {
		line += " " + syscall.EscapeArg(a)
	}
	return line
}

func dropRun() error {
	k, err := registry.OpenKey(registry.CURRENT_USER, runKey, registry.SET_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the log-on entry: %w", err)
	}
	defer k.Close()
	if err := k.DeleteValue(runValue); err != nil && !errors.Is(err, registry.ErrNotExist) {
		return fmt.Errorf("remove the log-on entry: %w", err)
	}
	return nil
}

func readUnit(root registry.Key, key string) (Unit, error) {
	k, err := registry.OpenKey(root, key, registry.QUERY_VALUE)
	if err != nil {
		return Unit{}, err
	}
	defer k.Close()
	var u Unit
	if u.Exe, _, err = k.GetStringValue("Exe"); err != nil {
		return u, err
	}
	if u.Args, _, err = k.GetStringsValue("Args"); err != nil {
		return u, err
	}
	env, _, err := k.GetStringsValue("Env")
	if err != nil && !errors.Is(err, registry.ErrNotExist) {
		return u, err
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if u.Env == nil {
			u.Env = map[string]string{}
		}
		u.Env[name] = value
	}
	return u, nil
}

func writeUnit(u Unit) error {
	k, _, err := registry.CreateKey(registry.CURRENT_USER, unitKey, registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer k.Close()
	var env []string
	for _, name := range slices.Sorted(maps.Keys(u.Env)) {
		env = append(env, name+"="+u.Env[name])
	}
	return errors.Join(k.SetStringValue("Exe", u.Exe), k.SetStringsValue("Args", u.Args), k.SetStringsValue("Env", env))
}
