package view

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/reevehq/reeve/ipc/sock"
)

// What a later start can ask the running program to show.
const (
	ShowMain     = "main"
	ShowMission  = "mission"
	ShowApproval = "approval"
)

// Show is the one line that a later start of the program sends: {"show":"main"}
// or, with the id of a mission or an approval, what to open.
type Show struct {
	Show string `json:"show"`
	ID   string `json:"id,omitempty"`
}

// Instance is the claim to be the one desktop program of this user's state.
type Instance struct {
	l net.Listener
}

// errOther is what Claim gives when another program was raised instead.
var errOther = errors.New("the desktop program runs already")

// Raised reports whether err says that a running program was asked to show
// itself, so that this one can end.
func Raised(err error) bool { return errors.Is(err, errOther) }

// raiseLimit bounds the talk with a running program, retryDelay is how soon one
// that does not listen yet, or no more, is tried again.
const (
	raiseLimit = 3 * time.Second
	retryDelay = 50 * time.Millisecond
)

// Claim makes this the one program that listens on path, or asks the one that
// does to show s; then Raised holds for the error.
func Claim(ctx context.Context, path string, s Show) (*Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, raiseLimit)
	defer cancel()
	for {
		l, err := sock.Listen(path)
		if err == nil {
			return &Instance{l: l}, nil
		}
		if !errors.Is(err, sock.ErrInUse) {
			return nil, err
		}
		c, err := sock.Dial(ctx, path)
		if err == nil {
			return nil, raise(c, s)
		}
		// It has the path but does not listen: it begins or ends just now.
		select {
		case <-time.After(retryDelay):
		case <-ctx.Done():
			return nil, fmt.Errorf("ask the running desktop program to show itself: %w", err)
		}
	}
}

// raise asks the program at the other end of c, which it closes.
func raise(c net.Conn, s Show) error {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(raiseLimit))
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if _, err := c.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("ask the running desktop program to show itself: %w", err)
	}
	// It answers with an empty line once it took the wish.
	if _, err := bufio.NewReader(io.LimitReader(c, 16)).ReadString('\n'); err != nil {
		return fmt.Errorf("the running desktop program does not answer; end it and start again: %w", err)
	}
	return errOther
}

// Serve hands what later starts ask for to show, until ctx ends.
func (in *Instance) Serve(ctx context.Context, show func(Show)) {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = in.l.Close()
	})
	defer func() {
		if !stop() {
			<-closed // so that the path is free when this returns
		}
	}()
	var talks sync.WaitGroup
	defer talks.Wait()
	for {
		c, err := in.l.Accept()
		if err != nil {
			return
		}
		talks.Add(1)
		go func() {
			defer talks.Done()
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(raiseLimit))
			peer, err := sock.PeerOf(c)
			if peer.Pidfd != nil {
				_ = peer.Pidfd.Close()
			}
			if err != nil || !sock.SameUser(peer) {
				return
			}
			line, err := bufio.NewReader(io.LimitReader(c, 4096)).ReadBytes('\n')
			var s Show
			if err != nil || json.Unmarshal(line, &s) != nil {
				return
			}
			show(s)
			_, _ = c.Write([]byte("\n"))
		}()
	}
}

// Close ends the claim.
func (in *Instance) Close() { _ = in.l.Close() }
