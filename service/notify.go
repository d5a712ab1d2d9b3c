package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/store"
)

// Run runs the service until ctx ends or a client stops it. It returns nil
// after an orderly end, *RunningError when another one owns the state, and
// *StateError when this program can't use it. A systemd that started it is told
// when it is ready, that it is well, and why it ended.
func Run(ctx context.Context, o Options) error {
	m := managerOf(os.Getenv)
	err := run(ctx, o, m)
	var newer *store.NewerError
	if errors.As(err, &newer) {
		err = &StateError{err}
	}
	if err != nil {
		m.tell("STATUS=" + err.Error())
	}
	return err
}

// StateError says that the state is of a newer program, so that trying again
// would end the same.
type StateError struct{ Err error }

func (e *StateError) Error() string { return e.Err.Error() }

// Unwrap is the reason.
func (e *StateError) Unwrap() error { return e.Err }

// manager is the systemd that started this service, if one did. This is all
// that there is of sd_notify: a datagram of lines, which needs no library.
type manager struct {
	socket string        // "" where nobody listens
	every  time.Duration // how long it waits for a sign of life; 0: it doesn't
}

// managerOf reads what sd_notify(3) and sd_watchdog_enabled(3) describe.
func managerOf(getenv func(string) string) manager {
	m := manager{socket: getenv("NOTIFY_SOCKET")}
	if pid := getenv("WATCHDOG_PID"); m.socket == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return m
	}
	if us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 {
		m.every = time.Duration(us) * time.Microsecond
	}
	return m
}

// tell sends assignments, each kept to one line. Nobody listening is no fault of
// the service, so nothing comes of an error.
func (m manager) tell(lines ...string) {
	if m.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte(strings.Join(lines, "\n")))
}

// watchdog gives a sign of life until ctx ends, as long as well says so. A
// service that hangs gives none, and the manager starts another one; its workers
// go on meanwhile.
func (m manager) watchdog(ctx context.Context, well func(context.Context) error) {
	if m.every == 0 {
		return
	}
	tick := time.NewTicker(m.every / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		checking, cancel := context.WithTimeout(ctx, m.every/3)
		if well(checking) == nil {
			m.tell("WATCHDOG=1")
		}
		cancel()
	}
}

// well says whether the service answers on its socket and what it answers with
// is not held by anybody for ever.
func (s *Service) well(ctx context.Context) error {
	c, err := sock.Dial(ctx, s.o.Socket)
	if err != nil {
		return err
	}
	defer c.Close()
	if d, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(d)
	}
	line, err := json.Marshal(wire.Request{Version: wire.MinVersion, ID: "well", Method: wire.MethodNegotiate, Params: json.RawMessage(`{"client":"watchdog"}`)})
	if err != nil {
		return err
	}
	if _, err := c.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("ask the own socket: %w", err)
	}
	if _, err := wire.NewLineReader(c).Next(); err != nil {
		return fmt.Errorf("hear from the own socket: %w", err)
	}
	s.status()
	return nil
}
