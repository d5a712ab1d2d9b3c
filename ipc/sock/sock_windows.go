package sock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

// Path is the name of the pipe on which the service listens: one per user, and
// one per state directory when REEVE_STATE is set.
func Path(getenv func(string) string) (string, error) {
	sid, err := userID()
	if err != nil {
		return "", fmt.Errorf("name the pipe: %w", err)
	}
	name := `\\.\pipe\reeve-` + sid
	if getenv("REEVE_STATE") == "" {
		return name, nil
	}
	state, err := StateDir(getenv)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.ToLower(filepath.Clean(state))))
	return name + "-" + hex.EncodeToString(sum[:4]), nil
}

// Listener accepts connections on a pipe of which it is the only owner.
type Listener struct {
	net.Listener
	path string
}

// Listen makes the caller the one listener on the pipe, which only this user
// may open and which remote clients cannot. go-winio asks for the first
// instance, so a second listener fails with an *InUseError.
func Listen(path string) (*Listener, error) {
	sid, err := userID()
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := winio.ListenPipe(path, &winio.PipeConfig{
		SecurityDescriptor: "D:P(A;;GA;;;" + sid + ")",
		InputBufferSize:    64 << 10,
		OutputBufferSize:   64 << 10,
	})
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_PIPE_BUSY) ||
		errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return nil, &InUseError{Path: path}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return &Listener{Listener: l, path: path}, nil
}

// Path is the path that Listen was given.
func (l *Listener) Path() string { return l.path }

func dial(ctx context.Context, path string) (net.Conn, error) {
	return winio.DialPipeContext(ctx, path)
}

func peerOf(c net.Conn) (Peer, error) { return endOf(c, windows.GetNamedPipeClientProcessId) }

func serverOf(c net.Conn) (Peer, error) { return endOf(c, windows.GetNamedPipeServerProcessId) }

func endOf(c net.Conn, ask func(windows.Handle, *uint32) error) (Peer, error) {
	h, ok := c.(interface{ Fd() uintptr })
	if !ok {
		return Peer{}, fmt.Errorf("%T is no connection of a pipe", c)
	}
	var pid uint32
	if err := ask(windows.Handle(h.Fd()), &pid); err != nil {
		return Peer{}, err
	}
	p, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return Peer{}, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer windows.CloseHandle(p)
	var token windows.Token
	if err := windows.OpenProcessToken(p, windows.TOKEN_QUERY, &token); err != nil {
		return Peer{}, fmt.Errorf("open the token of process %d: %w", pid, err)
	}
	defer token.Close()
	user, err := token.GetTokenUser()
	if err != nil {
		return Peer{}, err
	}
	return Peer{UID: user.User.Sid.String(), PID: int(pid)}, nil
}

var userID = sync.OnceValues(func() (string, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", fmt.Errorf("read this user's SID: %w", err)
	}
	return user.User.Sid.String(), nil
})
