package osservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
)

// Launch runs the launcher until ctx or the Service Control Manager ends it:
// below that for every user who registered the service, else for this one.
func Launch(ctx context.Context) error {
	err := svc.Run(launcherName, &launcher{})
	if !errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return err
	}
	// It is not the manager who runs this, but a log-on entry or `Start`.
	leaveConsole()
	u, err := readUnit(registry.CURRENT_USER, unitKey)
	if err != nil {
		return fmt.Errorf("read what is registered: %w", err)
	}
	keep(ctx, func() (int, error) {
		cmd := exec.CommandContext(ctx, u.Exe, u.Args...)
		cmd.Env = os.Environ()
		for name, value := range u.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW}
		err := cmd.Run()
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			return ended.ExitCode(), nil
		}
		return 0, err
	})
	return nil
}

var (
	kernel32              = windows.NewLazySystemDLL("kernel32.dll")
	procGetConsoleProcess = kernel32.NewProc("GetConsoleProcessList")
	procFreeConsole       = kernel32.NewProc("FreeConsole")
)

// leaveConsole closes the window that Windows opens for a log-on entry of a
// console program, and that would stay for the session. A console that others
// use is not left.
func leaveConsole() {
	var pids [2]uint32
	if n, _, _ := procGetConsoleProcess.Call(uintptr(unsafe.Pointer(&pids[0])), uintptr(len(pids))); n == 1 {
		_, _, _ = procFreeConsole.Call()
	}
}

// keep runs a service again and again, as tries allows.
func keep(ctx context.Context, run func() (code int, err error)) {
	var t tries
	for ctx.Err() == nil {
		t.started(time.Now())
		code, err := run()
		if err != nil || !t.again(code, time.Now()) {
			return
		}
		select {
		case <-time.After(launchWait):
		case <-ctx.Done():
		}
	}
}

// launcher is the program of the Service Control Manager. It starts one process
// for each user who registered the service, at that user's first session.
type launcher struct {
	ctx   context.Context
	users sessions
	wg    sync.WaitGroup // the keepers of the processes
}

// Execute is what the Service Control Manager calls.
func (l *launcher) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ctx, cancel := context.WithCancel(context.Background())
	defer l.wg.Wait()
	defer cancel()
	l.ctx, l.users = ctx, sessions{}
	status <- svc.Status{State: svc.StartPending}
	l.look()
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown | svc.AcceptSessionChange}
	for r := range requests {
		switch r.Cmd {
		case svc.Interrogate:
			status <- r.CurrentStatus
		case svc.SessionChange:
			// What the notification points to may be gone by now.
			l.look()
		case svc.Stop, svc.Shutdown:
			status <- svc.Status{State: svc.StopPending}
			return false, 0
		default:
			l.look() // asked for by an administrator
		}
	}
	return false, 0
}

// look starts what the sessions that there are now need.
func (l *launcher) look() {
	for _, s := range l.users.update(sessionsNow()) {
		l.wg.Go(func() { keep(l.ctx, func() (int, error) { return runIn(l.ctx, s) }) })
	}
}

// Who is logged on, and where. Tests put others in their place, as under Wine
// nobody is.
var (
	sessionsNow = present
	userOf      = userIn
)

// present lists the sessions in which somebody is logged on.
func present() (out []session) {
	var list *windows.WTS_SESSION_INFO
	var n uint32
	if windows.WTSEnumerateSessions(0, 0, 1, &list, &n) != nil {
		return nil
	}
	defer windows.WTSFreeMemory(uintptr(unsafe.Pointer(list)))
	for _, s := range unsafe.Slice(list, n) {
		if token, user, err := userIn(s.SessionID); err == nil {
			_ = token.Close()
			out = append(out, session{s.SessionID, user})
		}
	}
	return out
}

// userIn says who is logged on in the session. Who asks closes the token.
func userIn(id uint32) (windows.Token, string, error) {
	var token windows.Token
	if err := windows.WTSQueryUserToken(id, &token); err != nil {
		return 0, "", err
	}
	user, err := token.GetTokenUser()
	if err != nil {
		_ = token.Close()
		return 0, "", err
	}
	return token, user.User.Sid.String(), nil
}

// runIn runs the service of the session's user as that user and waits for its
// end. The end of ctx leaves it running, as the end of every manager does.
func runIn(ctx context.Context, s session) (code int, err error) {
	token, user, err := userOf(s.id)
	if err != nil {
		return 0, err
	}
	defer token.Close()
	if user != s.user {
		return 0, errors.New("the session is another user's by now")
	}
	u, err := readUnit(registry.USERS, user+`\`+unitKey)
	if err != nil {
		return 0, err // this user did not register it
	}
	env, err := token.Environ(false)
	if err != nil {
		return 0, err
	}
	for name, value := range u.Env {
		env = append(env, name+"="+value)
	}
	cmd := exec.Command(u.Exe, u.Args...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Token: syscall.Token(token), HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
		return cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
