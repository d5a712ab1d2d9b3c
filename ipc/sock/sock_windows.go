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
	name := pipes + "reeve-" + sid
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

// Beside is where another program of the same user and state listens.
func Beside(path, name string) string { return path + "-" + name }

// pipes is where all pipes are.
const pipes = `\\.\pipe\`

// place is the pipe of a path. One that is named like a file, as those of the
// guards are, stands for a pipe of this user's, since sockets are no files here.
func place(path string) (string, error) {
	if len(path) > len(pipes) && strings.EqualFold(path[:len(pipes)], pipes) {
		return path, nil
	}
	if !filepath.IsAbs(path) {
		return "", errors.New("the socket's path must be absolute")
	}
	sid, err := userID()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.ToLower(filepath.Clean(path))))
	return pipes + "reeve-" + sid + "-" + hex.EncodeToString(sum[:16]), nil
}

// Listener accepts connections on a pipe of which it is the only owner.
type Listener struct {
	net.Listener
	path  string
	first interface{ Close() error }
}

// Listen makes the caller the one listener on the pipe, which only this user
// may open and which remote clients cannot. go-winio asks for the first
// instance, so a second listener fails with an *InUseError.
func Listen(path string) (*Listener, error) {
	sid, err := userID()
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	at, err := place(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	inst, err := claim(at)
	if err != nil {
		return nil, refused(path, err)
	}
	l, err := winio.ListenPipe(at, &winio.PipeConfig{
		SecurityDescriptor: "D:P(A;;GA;;;" + sid + ")",
		InputBufferSize:    64 << 10,
		OutputBufferSize:   64 << 10,
	})
	if err != nil {
		_ = inst.Close()
		return nil, refused(path, err)
	}
	inst.occupy()
	return &Listener{Listener: l, path: path, first: inst}, nil
}

// refused tells a name that is taken from other errors.
func refused(path string, err error) error {
	for _, taken := range []error{windows.ERROR_ACCESS_DENIED, windows.ERROR_PIPE_BUSY, windows.ERROR_ALREADY_EXISTS} {
		if errors.Is(err, taken) {
			return &InUseError{Path: path}
		}
	}
	return fmt.Errorf("listen on %s: %w", path, err)
}

// Path is the path that Listen was given.
func (l *Listener) Path() string { return l.path }

// Close stops listening, and gives the name up.
func (l *Listener) Close() error { return errors.Join(l.Listener.Close(), l.first.Close()) }

func dial(ctx context.Context, path string) (net.Conn, error) {
	at, err := place(path)
	if err != nil {
		return nil, err
	}
	return winio.DialPipeContext(ctx, at)
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
