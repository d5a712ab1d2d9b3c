//go:build unix

package sock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Path is where the service listens and its clients look: with REEVE_STATE
// below that, else in the user's runtime directory, else below the state
// directory. A runtime directory of another user (as a root shell may have in
// its environment) is passed over. Nothing is created.
func Path(getenv func(string) string) (string, error) {
	if getenv("REEVE_STATE") == "" {
		runDir := filepath.Join("/run/user", strconv.Itoa(os.Getuid()))
		for _, dir := range []string{getenv("XDG_RUNTIME_DIR"), runDir} {
			if filepath.IsAbs(dir) && ownDir(dir) {
				return filepath.Join(dir, "reeve", "reeve.sock"), nil
			}
		}
	}
	state, err := StateDir(getenv)
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "run", "reeve.sock"), nil
}

// Beside is where another program of the same user and state listens.
func Beside(path, name string) string { return filepath.Join(filepath.Dir(path), name+".sock") }

func ownDir(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Getuid()
}

// Listener accepts connections on a path of which it is the only owner.
type Listener struct {
	*net.UnixListener
	path     string
	at       string // where the socket is: path, or its short substitute
	lock     *os.File
	dev, ino uint64
}

// newSuffix marks a socket that is bound but not yet at its place. A socket
// path must have room for it.
const newSuffix = ".new"

// Listen makes the caller the one listener on path. The directory is created
// with mode 0700 if it is missing, and must be private otherwise. A socket that
// is left over is replaced only when a connection to it is refused. When
// someone listens the error is an *InUseError.
//
// A lock file beside the socket is held as long as the Listener lives, so that
// of several programs that start at once exactly one wins. A path that is too
// long for the system is replaced by a short one, which Dial finds as well.
func Listen(path string) (*Listener, error) {
	l, err := listen(path)
	if err != nil {
		var used *InUseError
		if errors.As(err, &used) {
			return nil, err
		}
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l, nil
}

func listen(path string) (_ *Listener, err error) {
	at, err := place(path)
	if err != nil {
		return nil, err
	}
	if err := makeDir(filepath.Dir(at)); err != nil {
		return nil, err
	}
	lock, err := lockFile(at + ".lock")
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &InUseError{Path: path, PID: ownerOf(at)}
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	if err := proveFree(path, at); err != nil {
		return nil, err
	}

	// The socket gets its mode before its name, so that there is no moment at
	// which it could be reached with another one. What a crash left under the
	// passing name is ours to remove: we hold the lock.
	fresh := at + newSuffix
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ul, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ul.SetUnlinkOnClose(false)
	defer func() {
		if err != nil {
			_ = ul.Close()
			_ = os.Remove(fresh)
		}
	}()
	if err := os.Chmod(fresh, 0o600); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(fresh, &st); err != nil {
		return nil, err
	}
	if err := os.Rename(fresh, at); err != nil {
		return nil, err
	}
	return &Listener{UnixListener: ul, path: path, at: at, lock: lock, dev: uint64(st.Dev), ino: st.Ino}, nil
}

// Path is the path that Listen was given.
func (l *Listener) Path() string { return l.path }

// Close stops listening and removes the socket, if the one at the path is
// still the one that was bound. The lock is given up last.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	var st unix.Stat_t
	if unix.Lstat(l.at, &st) == nil && uint64(st.Dev) == l.dev && st.Ino == l.ino {
		err = errors.Join(err, os.Remove(l.at))
	}
	return errors.Join(err, l.lock.Close())
}

// place is where the socket of path really lies.
func place(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", errors.New("the socket's path must be absolute")
	}
	const room = len(unix.RawSockaddrUnix{}.Path) - 1
	if len(path)+len(newSuffix) <= room {
		return path, nil
	}
	// Fixed, since TMPDIR of the service and of a client may differ.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s", os.Getuid(), filepath.Clean(path)))
	return filepath.Join("/tmp", "reeve-"+hex.EncodeToString(sum[:8]), "reeve.sock"), nil
}

// makeDir creates dir for the user alone, or proves that it is so.
func makeDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return os.Chmod(dir, 0o700) // a umask may have taken bits away
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkDir(dir)
}

func checkDir(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a directory; move it away", dir)
	case int(st.Uid) != os.Getuid():
		return fmt.Errorf("%s belongs to user %d, not to you; have it removed", dir, st.Uid)
	case st.Mode&0o077 != 0:
		return fmt.Errorf("%s can be used by others (mode %#o); run: chmod 700 %q", dir, st.Mode&0o777, dir)
	}
	return nil
}

// lockFile takes the lock, or fails with EWOULDBLOCK when someone has it. The
// file stays for ever: removing it would let two programs hold "the" lock.
func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}

// proveFree returns nil when nothing is at the place, or a socket that refuses
// connections. Whatever else a connection brings, even silence, says that the
// socket has an owner.
func proveFree(path, at string) error {
	var st unix.Stat_t
	err := unix.Lstat(at, &st)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "lstat", Path: at, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fmt.Errorf("%s exists and is not a socket; move it away", at)
	}
	fd, err := knock(at)
	if err == nil {
		_ = unix.Close(fd)
	}
	if err == unix.ECONNREFUSED || err == unix.ENOENT {
		return nil
	}
	if err == unix.EACCES || err == unix.EPERM {
		return fmt.Errorf("%s is a socket that you may not use: %w; remove it", at, err)
	}
	return &InUseError{Path: path, PID: ownerOf(at)}
}

// knock connects without waiting. A listener that is stopped has a backlog
// that takes the connection or, when full, answers EAGAIN.
func knock(at string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	if err = unix.SetNonblock(fd, true); err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: at})
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// ownerOf asks the kernel for the process that listens, 0 if it won't say.
func ownerOf(at string) int {
	fd, err := knock(at)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	p, err := peerOfFD(fd)
	if err != nil {
		return 0
	}
	if p.Pidfd != nil {
		_ = p.Pidfd.Close()
	}
	return p.PID
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	at, err := place(path)
	if err != nil {
		return nil, err
	}
	if at != path {
		// Others can make directories where the substitute lies.
		if err := checkDir(filepath.Dir(at)); err != nil {
			return nil, err
		}
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", at)
}

func serverOf(c net.Conn) (Peer, error) { return peerOf(c) }

func peerOf(c net.Conn) (Peer, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return Peer{}, fmt.Errorf("%T is no connection of a local socket", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var p Peer
	if cerr := raw.Control(func(fd uintptr) { p, err = peerOfFD(int(fd)) }); cerr != nil {
		return Peer{}, cerr
	}
	return p, err
}

func userID() (string, error) { return strconv.Itoa(os.Getuid()), nil }
