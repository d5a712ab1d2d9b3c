package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
)

// ErrTooOld says that a guard speaks only a protocol that this service has
// forgotten. It can't be commanded: it goes on until its own deadline, and
// EndUnadopted, which needs no protocol, ends it.
var ErrTooOld = errors.New("the guard belongs to a Reeve too old for this one")

// ErrGone says that the guard of an attempt has ended.
var ErrGone = errors.New("the guard has ended")

// Limits of the entries that a Client holds for a slow reader. Beyond them it
// reads nothing more from the guard, whose log has what comes meanwhile.
const (
	maxBehind      = 50_000
	maxBehindBytes = 32 << 20
)

// Client is the service's connection to one guard. Its methods may be called
// from any goroutine. The one that reads Entries should go on reading while it
// waits for a method: answers come behind entries that nobody takes.
type Client struct {
	// Record is the guard's own, checked against the running process.
	Record wire.GuardRecord

	conn     net.Conn
	protocol int // of this connection
	wg       sync.WaitGroup
	out      chan wire.Entry
	use      chan wire.Resources // the newest; capacity 1
	quit     chan struct{}       // closed by Close

	mu         sync.Mutex // guards what follows
	generation uint64
	next       int
	calls      map[string]chan wire.Response
	queue      []wire.Entry
	queued     int // bytes
	wake       chan struct{}
	taken      chan struct{} // the queue was taken; capacity 1
	err        error         // why the connection ended; nil while it lives
	closed     bool
}

// Connect waits for the guard of the attempt directory dir to serve its
// socket (10 s at most), proves that the process there is the recorded one,
// and connects. It fails with ErrGone when that process has ended, and with
// ErrTooOld when its protocol is not spoken any more.
func Connect(ctx context.Context, dir string) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	begun := time.Now()
	for {
		c, err := connect(ctx, dir)
		if err == nil {
			return c, nil
		}
		// The record is written once the socket listens, so only its absence
		// can mean "not yet".
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to the guard in %s: it did not come up: %w", dir, err)
		case <-time.After(pollAfter(time.Since(begun))):
		}
	}
}

// closedLinger is how long a guard that serves its socket no more may take to end.
const closedLinger = time.Second

// pollAfter is how soon to look again for what was not there after that time: a
// tenth of it, since looking takes a few microseconds and somebody waits.
func pollAfter(waited time.Duration) time.Duration {
	return min(max(waited/10, time.Millisecond), 50*time.Millisecond)
}

// Connect is like the function, for the guard of this keeper: the process that
// serves has to be below it. A record that somebody else wrote would get what
// is handed over with the start.
func (p *Process) Connect(ctx context.Context, dir string) (*Client, error) {
	c, err := Connect(ctx, dir)
	if err != nil {
		return nil, err
	}
	line, err := proc.Ancestors(c.Record.PID)
	if err == nil && !slices.ContainsFunc(line, func(i proc.Info) bool { return i.ID == proc.ID(p.ID) }) {
		err = fmt.Errorf("%v is not below the keeper, %v; leave it alone and run reeve doctor", proc.ID(c.Record.Process), proc.ID(p.ID))
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect to the guard in %s: %w", dir, err)
	}
	return c, nil
}

func connect(ctx context.Context, dir string) (*Client, error) {
	rec, err := ReadRecord(dir)
	if err != nil {
		return nil, err
	}
	id := proc.ID(rec.Process)
	if id.State() == proc.Gone {
		return nil, fmt.Errorf("connect to the guard in %s (%v): %w", dir, id, ErrGone)
	}
	if rec.Protocol < wire.OldestGuardProtocol {
		return nil, fmt.Errorf("connect to the guard in %s (%v): it speaks protocol %d, this service %d to %d: %w", dir, id, rec.Protocol, wire.OldestGuardProtocol, wire.GuardProtocol, ErrTooOld)
	}
	conn, err := sock.Dial(ctx, rec.Socket)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		// A guard stops serving just before it ends. Only its end proves that it
		// did: a file that somebody removed takes no worker away.
		if waitFor(ctx, id, closedLinger) {
			return nil, fmt.Errorf("connect to the guard in %s (%v): %w", dir, id, ErrGone)
		}
		return nil, fmt.Errorf("connect to the guard in %s: %v runs, but nothing serves its socket %s any more", dir, id, rec.Socket)
	}
	if err != nil {
		if id.State() == proc.Gone {
			return nil, fmt.Errorf("connect to the guard in %s (%v): %w", dir, id, ErrGone)
		}
		return nil, fmt.Errorf("connect to the guard in %s: %w", dir, err)
	}
	if peer, err := sock.PeerOf(conn); err == nil {
		if peer.Pidfd != nil {
			_ = peer.Pidfd.Close()
		}
		// On Windows this end sees itself; there the pipe's owner was checked.
		if peer.PID != 0 && peer.PID != id.PID && !sameProcess(peer.PID) {
			_ = conn.Close()
			return nil, fmt.Errorf("connect to the guard in %s: process %d serves its socket, not %v; leave it alone and run reeve doctor", dir, peer.PID, id)
		}
	}
	c := &Client{
		Record: rec, conn: conn, protocol: min(rec.Protocol, wire.GuardProtocol), // a newer guard speaks ours, too
		out: make(chan wire.Entry), use: make(chan wire.Resources, 1), quit: make(chan struct{}),
		calls: make(map[string]chan wire.Response), wake: make(chan struct{}, 1), taken: make(chan struct{}, 1),
	}
	c.wg.Add(2)
	go c.read()
	go c.deliver()
	return c, nil
}

// Claim takes the guard over for a generation of the service. Entries after
// the result's LastSeq follow in Entries. A generation that is not above every
// earlier one gets stale_generation.
func (c *Client) Claim(ctx context.Context, token string, generation uint64) (wire.ClaimResult, error) {
	var res wire.ClaimResult
	self, err := proc.Self()
	if err != nil {
		return res, fmt.Errorf("claim the guard: %w", err)
	}
	err = c.call(ctx, wire.GuardClaim, wire.ClaimParams{Token: token, Generation: generation, Owner: wire.Process(self)}, &res)
	if err == nil {
		c.mu.Lock()
		c.generation = generation
		c.mu.Unlock()
	}
	return res, err
}

// Start hands over how the provider is run. Nothing is started yet.
//
// Here and below the generation of the claim is filled in, and a command id if
// there is none. Give an id of your own to repeat a command after a lost
// reply: the repeat returns the first result.
//
// A guard of protocol 1 knows no limits, so a start with limits fails there:
// what a person allowed has to hold.
func (c *Client) Start(ctx context.Context, p wire.StartParams) error {
	if c.protocol < 2 && p.Limits != (wire.Limits{}) {
		return fmt.Errorf("%s: the guard is of an earlier Reeve (protocol %d) and can't keep the mission's limits; start the mission again once the program was updated", wire.GuardStart, c.protocol)
	}
	c.stamp(&p.Command)
	return c.call(ctx, wire.GuardStart, p, nil)
}

// Turn begins a turn. It returns once the turn is in the log; everything else,
// a provider that cannot be opened included, is said by entries, and the last
// of them is turn.finished.
func (c *Client) Turn(ctx context.Context, p wire.TurnParams) error {
	c.stamp(&p.Command)
	return c.call(ctx, wire.GuardTurn, p, nil)
}

// Interrupt ends the turn in flight and returns when it has ended: usually at
// once, in 4 s when the provider does not react, in 15 s when what it left
// resists. Without a turn it does nothing.
func (c *Client) Interrupt(ctx context.Context, p wire.InterruptParams) error {
	c.stamp(&p.Command)
	return c.call(ctx, wire.GuardInterrupt, p, nil)
}

// Resolve answers a pending permission. It returns when the answer is in the
// log and the provider has it, or says that the request is gone.
func (c *Client) Resolve(ctx context.Context, p wire.ResolveParams) (wire.ResolveResult, error) {
	c.stamp(&p.Command)
	var res wire.ResolveResult
	err := c.call(ctx, wire.GuardResolve, p, &res)
	return res, err
}

// Stop ends the turn, every process of the worker, and the guard. It returns
// when the tree is empty (12 s at most) or names what is left.
func (c *Client) Stop(ctx context.Context, p wire.GuardStopParams) (wire.GuardStopResult, error) {
	c.stamp(&p.Command)
	var res wire.GuardStopResult
	err := c.call(ctx, wire.GuardStop, p, &res)
	return res, err
}

// Entries delivers what the guard logs after the claim, in order and without
// gaps. It is closed when the connection ends, after the last entry; Err then
// says why. What comes later is in the log.
func (c *Client) Entries() <-chan wire.Entry { return c.out }

// Resources delivers what the worker uses, the newest alone. Nothing comes
// from a guard that does not measure: see Measures.
func (c *Client) Resources() <-chan wire.Resources { return c.use }

// Measures says whether the guard measures what its worker uses, and keeps
// limits. One of protocol 1 does not.
func (c *Client) Measures() bool { return c.protocol >= 2 }

// Err says why the connection ended, nil while it lives and after Close.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || errors.Is(c.err, io.EOF) {
		return nil
	}
	return c.err
}

// Close ends the connection. The guard goes on without an owner.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	close(c.quit)
	err := c.conn.Close()
	c.wg.Wait()
	return err
}

func (c *Client) stamp(cmd *wire.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cmd.Generation == 0 {
		cmd.Generation = c.generation
	}
	if cmd.CommandID == "" {
		cmd.CommandID = newID("c-")
	}
}

func (c *Client) call(ctx context.Context, method string, params, result any) error {
	raw, err := encode(params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	answer := make(chan wire.Response, 1)
	c.mu.Lock()
	if c.err != nil || c.closed {
		c.mu.Unlock()
		return c.lost(method)
	}
	c.next++
	id := strconv.Itoa(c.next)
	c.calls[id] = answer
	line, err := wire.Encode(wire.Request{Version: c.protocol, ID: id, Method: method, Params: raw})
	if err == nil {
		if at, ok := ctx.Deadline(); ok {
			_ = c.conn.SetWriteDeadline(at)
		}
		_, err = c.conn.Write(line)
		_ = c.conn.SetWriteDeadline(time.Time{})
		if err != nil {
			_ = c.conn.Close() // a line that was cut cannot be followed by another
		}
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case r, ok := <-answer:
		if !ok {
			return c.lost(method)
		}
		if !r.OK {
			return &wire.Error{Code: r.Code, Message: r.Error}
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(r.Result, result); err != nil {
			return fmt.Errorf("%s: read the guard's answer: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: no answer from the guard: %w", method, ctx.Err())
	}
}

func (c *Client) lost(method string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.err
	if c.closed || err == nil {
		err = net.ErrClosed
	}
	return fmt.Errorf("%s: the connection to the guard has ended: %w", method, err)
}

// read takes lines off the connection, so that answers never wait behind
// entries that nobody reads.
func (c *Client) read() {
	defer c.wg.Done()
	lines := wire.NewLineReader(c.conn)
	for {
		line, err := lines.Next()
		if err == nil {
			err = c.take(line)
		}
		if err != nil {
			_ = c.conn.Close()
			c.mu.Lock()
			c.err = err
			for id, answer := range c.calls {
				close(answer)
				delete(c.calls, id)
			}
			c.mu.Unlock()
			c.poke()
			return
		}
	}
}

func (c *Client) take(line []byte) error {
	var m struct {
		wire.Response
		Event string          `json:"event"`
		Data  json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("read from the guard: %w", err)
	}
	if m.Event == "" {
		c.mu.Lock()
		if answer := c.calls[m.ID]; answer != nil {
			answer <- m.Response
			delete(c.calls, m.ID)
		}
		c.mu.Unlock()
		return nil
	}
	switch m.Event {
	case wire.EvGuardEntry:
	case wire.EvGuardResources:
		var r wire.Resources
		if err := json.Unmarshal(m.Data, &r); err != nil {
			return fmt.Errorf("read what the worker uses: %w", err)
		}
		select {
		case <-c.use:
		default:
		}
		c.use <- r // nobody else sends
		return nil
	default:
		return nil // of a later protocol
	}
	var e wire.Entry
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return fmt.Errorf("read an entry from the guard: %w", err)
	}
	for c.full() {
		select {
		case <-c.taken:
		case <-c.quit:
			return net.ErrClosed
		}
	}
	c.mu.Lock()
	c.queue = append(c.queue, e)
	c.queued += len(e.Data)
	c.mu.Unlock()
	c.poke()
	return nil
}

func (c *Client) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) >= maxBehind || c.queued >= maxBehindBytes
}

func (c *Client) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// deliver hands the queue to the reader of Entries.
func (c *Client) deliver() {
	defer c.wg.Done()
	defer close(c.out)
	for {
		c.mu.Lock()
		batch, ended := c.queue, c.err != nil
		c.queue, c.queued = nil, 0
		c.mu.Unlock()
		select {
		case c.taken <- struct{}{}:
		default:
		}
		for _, e := range batch {
			select {
			case c.out <- e:
			case <-c.quit:
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		if ended {
			return
		}
		select {
		case <-c.wake:
		case <-c.quit:
			return
		}
	}
}
