// Package sock is the local socket: where it is, how exactly one program comes
// to listen on it, and who is at the other end according to the kernel.
package sock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
)

// ErrInUse says that another program listens on the path, or holds it while it
// is too busy to answer. Its socket was left alone.
var ErrInUse = errors.New("another program listens there")

// InUseError is the ErrInUse that Listen returns; PID is the owner, 0 if the
// system would not say.
type InUseError struct {
	Path string
	PID  int
}

// Error says who has the path.
func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("listen on %s: %v", e.Path, ErrInUse)
	}
	return fmt.Sprintf("listen on %s: %v (process %d)", e.Path, ErrInUse, e.PID)
}

// Unwrap makes errors.Is(err, ErrInUse) hold.
func (e *InUseError) Unwrap() error { return ErrInUse }

// ErrForeign says that a program of another user serves the path. Nothing was
// sent to it.
var ErrForeign = errors.New("a program of another user listens there")

// Peer is the other end of a connection, as the kernel names it.
type Peer struct {
	// UID is the user: a decimal uid, on Windows a SID.
	UID string
	// PID is the process that connected (or listened); 0 if it cannot be seen,
	// as from another pid namespace.
	PID int
	// Pidfd is a handle on that process (Linux 6.5 and later), else nil. Who
	// asked for the Peer closes it.
	Pidfd *os.File
}

// PeerOf asks the kernel who is at the other end of c, which must come from
// Dial or from a Listener.
func PeerOf(c net.Conn) (Peer, error) {
	p, err := peerOf(c)
	if err != nil {
		return Peer{}, fmt.Errorf("ask the system who is connected: %w", err)
	}
	return p, nil
}

// SameUser says whether p is the user that this program runs as.
func SameUser(p Peer) bool {
	me, err := userID()
	return err == nil && p.UID != "" && p.UID == me
}

// Dial connects to path and refuses with ErrForeign when another user serves
// it. When nobody listens the error is one of fs.ErrNotExist or
// syscall.ECONNREFUSED.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	c, err := dial(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	p, err := serverOf(c)
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	if p.Pidfd != nil {
		_ = p.Pidfd.Close()
	}
	if !SameUser(p) {
		_ = c.Close()
		return nil, fmt.Errorf("connect to %s: %w (user %s)", path, ErrForeign, p.UID)
	}
	return c, nil
}

// PrivateState is the state directory that REEVE_STATE names, spelled as
// StateDir spells it, or "" for the user's ordinary one. What each instance has
// for itself elsewhere is named by it: two spellings of a directory are one
// instance.
func PrivateState(getenv func(string) string) (string, error) {
	if getenv("REEVE_STATE") == "" {
		return "", nil
	}
	return StateDir(getenv)
}

// StateDir is the directory of the user's private state: $REEVE_STATE if set,
// which must be absolute, else the platform's usual place. It is not created.
func StateDir(getenv func(string) string) (string, error) {
	if dir := getenv("REEVE_STATE"); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("REEVE_STATE is %q; set it to an absolute path", dir)
		}
		return filepath.Clean(dir), nil
	}
	switch runtime.GOOS {
	case "windows":
		if dir := getenv("LocalAppData"); filepath.IsAbs(dir) {
			return filepath.Join(dir, "Reeve"), nil
		}
		return "", errors.New("find the state directory: %LocalAppData% is not set; set it or REEVE_STATE")
	case "darwin":
		if home := getenv("HOME"); filepath.IsAbs(home) {
			return filepath.Join(home, "Library", "Application Support", "Reeve"), nil
		}
	default:
		if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
			return filepath.Join(dir, "reeve"), nil
		}
		if home := getenv("HOME"); filepath.IsAbs(home) {
			return filepath.Join(home, ".local", "state", "reeve"), nil
		}
	}
	return "", errors.New("find the state directory: HOME is not set to an absolute path; set it or REEVE_STATE")
}
