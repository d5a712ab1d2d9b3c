package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// Limits of what is asked of the service. A tool that the service runs has
// none: a person may think for hours.
const (
	requestLimit = 5 * time.Second
	verifyLimit  = 250 * time.Millisecond
	// outage is how long a call goes on trying while the service is away, as
	// during its update.
	outage = 30 * time.Second
)

// delay is how long the n-th new try waits, from 0.
func delay(n int) time.Duration {
	const first, most = 25 * time.Millisecond, 250 * time.Millisecond
	return min(first<<min(n, 8), most)
}

// link is the connection to the service: one at a time, made when it is needed
// and again when it ended.
type link struct {
	clock
	opts client.Options
	turn chan struct{} // holds a token; who has it may change what follows
	c    *client.Client
	path string
}

func newLink(clk clock, o client.Options) *link {
	l := &link{clock: clk, opts: o, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// get returns the connection to the service at path. It negotiates anew unless
// the last one lives.
func (l *link) get(ctx context.Context, path string) (*client.Client, error) {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { l.turn <- struct{}{} }()
	if l.c != nil {
		select {
		case <-l.c.Done():
		default:
			if l.path == path {
				return l.c, nil
			}
		}
		l.c.Close()
		l.c = nil
	}
	c, err := client.Dial(ctx, path, l.opts)
	if err != nil {
		return nil, err
	}
	l.c, l.path = c, path
	return c, nil
}

// close ends the connection; nothing may be asked any more.
func (l *link) close() {
	<-l.turn
	if l.c != nil {
		l.c.Close()
	}
}

// request is something to ask. Params gets the service's identity, as a request
// names the generation that it is meant for.
type request struct {
	method string
	params func(wire.NegotiateResult) any
	result any
	limit  time.Duration // of one try; 0: none
}

// fixed are params that don't depend on who answers.
func fixed(params any) func(wire.NegotiateResult) any {
	return func(wire.NegotiateResult) any { return params }
}

// once asks once and tells whom, nil if no service was reached.
func (l *link) once(ctx context.Context, path string, r request) (*client.Client, error) {
	if r.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = l.limit(ctx, r.limit)
		defer cancel()
	}
	c, err := l.get(ctx, path)
	if err != nil {
		return nil, err
	}
	return c, c.Call(ctx, r.method, r.params(c.Identity()), r.result)
}

// ask asks until there is an answer, and goes on for patience after a service
// was reached last. It may be another one by then: it knows the request by its
// coordinates and ids. The identity is that of the service which answered.
func (l *link) ask(ctx context.Context, path string, patience time.Duration, r request) (wire.NegotiateResult, error) {
	var seen uint64 // the generation that was reached last
	var out context.Context
	cancel := func() {}
	defer func() { cancel() }()
	lost := false // an answer, perhaps
	for n := 0; ; n++ {
		c, err := l.once(ctx, path, r)
		if err == nil {
			return c.Identity(), nil
		}
		if lost && refusal(err) != nil {
			err = &unclearError{err} // it refuses this try; the one before may have been done
		}
		if !again(err) || ctx.Err() != nil {
			return wire.NegotiateResult{}, err
		}
		lost = lost || c != nil && unanswered(err)
		fresh := c != nil && c.Identity().Generation > seen
		if fresh {
			seen = c.Identity().Generation
		}
		if out == nil || fresh { // the time that it is away begins now
			cancel()
			out, cancel = l.limit(ctx, patience)
			n = 0
		}
		if c != nil {
			c.Close() // the next try negotiates
		}
		if l.sleep(out, delay(n)) != nil {
			if ctx.Err() != nil {
				return wire.NegotiateResult{}, ctx.Err()
			}
			return wire.NegotiateResult{}, &awayError{patience, err}
		}
	}
}

// awayError says that the service did not come back in time.
type awayError struct {
	waited time.Duration
	err    error
}

func (e *awayError) Error() string {
	return fmt.Sprintf("Reeve's service has not answered for %v (%v). It restarts by itself; try again in a minute.", e.waited, e.err)
}

func (e *awayError) Unwrap() error { return e.err }

// unclearError is a refusal that comes after a try of the same request whose
// answer was lost. It says nothing of what became of that.
type unclearError struct{ err error }

func (e *unclearError) Error() string { return e.err.Error() }
func (e *unclearError) Unwrap() error { return e.err }

// complete asks within one budget of requestLimit, however often it has to
// negotiate anew in it.
func (l *link) complete(ctx context.Context, path string, r request) error {
	ctx, cancel := l.limit(ctx, requestLimit)
	defer cancel()
	for n := 0; ; n++ {
		c, err := l.once(ctx, path, r)
		if err == nil || !again(err) {
			return err
		}
		if c != nil {
			c.Close()
		}
		if l.sleep(ctx, delay(n)) != nil {
			return err
		}
	}
}

// again says whether the same request may have another outcome on the next
// connection: this one was lost, is silent or one too many, or the service was
// replaced or is about to be.
func again(err error) bool {
	var unclear *unclearError
	if errors.As(err, &unclear) {
		return false
	}
	var refused *wire.Error
	if errors.As(err, &refused) {
		return strings.HasPrefix(refused.Message, "Stale daemon generation") || refused.Code == wire.CodeShuttingDown ||
			refused.Code == wire.CodeLimitExceeded && errors.Is(err, client.ErrClosed)
	}
	return errors.Is(err, client.ErrNotRunning) || unanswered(err)
}

// unanswered says that the connection or the time ended before there was an
// answer of any kind.
func unanswered(err error) bool {
	var refused *wire.Error
	if errors.As(err, &refused) {
		return false
	}
	var errno syscall.Errno
	return errors.Is(err, client.ErrClosed) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &errno)
}

// refusal is the service's own no, by which the request has not happened and
// will not. It is nil for anything else: also for a fault in the service, which
// may have done it, and for a no that comes after a lost answer.
func refusal(err error) *wire.Error {
	var refused *wire.Error
	var unclear *unclearError
	if !errors.As(err, &refused) || errors.As(err, &unclear) || refused.Code == wire.CodeInternal || again(err) {
		return nil
	}
	return refused
}
