// Package client speaks to the service on its local socket: calls, and topics
// followed across restarts.
package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

// ErrNotRunning says that nobody listens on the socket.
var ErrNotRunning = errors.New("the service is not running; start it with: reeve service run")

// ErrClosed is what calls get when the connection ended before their answer. It
// comes with a *wire.Error when the service refused the connection itself.
var ErrClosed = errors.New("the connection to the service ended")

// MismatchError says that the two programs have no protocol version in common.
type MismatchError struct {
	Server string // the service's release, "unknown" if it didn't say
	App    string // this program's, from Options
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("the service is version %s and this program is version %s, which can't work together; install both from one release and restart the service", e.Server, e.App)
}

// Options of a connection.
type Options struct {
	// Client names the program, such as "reeve-desktop"; others are shown it
	// as the one who answered.
	Client string
	// Version is the program's own release, for MismatchError.
	Version string
}

// negotiateTimeout bounds how long a service may take to say who it is.
const negotiateTimeout = 5 * time.Second

// lastWords bounds how long a connection that takes no more requests is read.
const lastWords = 2 * time.Second

// Client is one connection. Its methods may be used from many goroutines.
type Client struct {
	nc       net.Conn
	identity wire.NegotiateResult
	seen     atomic.Int64 // when something was last read, UnixNano
	onEvent  atomic.Pointer[func(wire.Event)]
	done     chan struct{} // closed when the reader ended

	writing sync.Mutex // held over one write

	mu    sync.Mutex
	next  uint64
	calls map[string]chan frame
	err   error // why the connection ended
}

// frame is a response or an event.
type frame struct {
	Version int             `json:"version"`
	ID      string          `json:"id"`
	OK      bool            `json:"ok"`
	Result  json.RawMessage `json:"result"`
	Error   string          `json:"error"`
	Code    wire.Code       `json:"code"`
	Details json.RawMessage `json:"details"`

	Event   string          `json:"event"`
	Topic   string          `json:"topic"`
	Session string          `json:"session"`
	Cursor  *wire.Cursor    `json:"cursor"`
	Data    json.RawMessage `json:"data"`
}

// Dial connects to the service at path and negotiates. Its errors wrap
// ErrNotRunning when nobody is there, and are a *MismatchError when the two
// can't understand each other.
func Dial(ctx context.Context, path string, o Options) (*Client, error) {
	nc, err := sock.Dial(ctx, path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("%w (%w)", ErrNotRunning, err)
		}
		return nil, err
	}
	return open(ctx, nc, o)
}

// open negotiates on a connection, which it owns from then on.
func open(ctx context.Context, nc net.Conn, o Options) (*Client, error) {
	c := &Client{nc: nc, done: make(chan struct{}), calls: map[string]chan frame{}}
	c.seen.Store(time.Now().UnixNano())
	go c.read()
	ctx, cancel := context.WithTimeout(ctx, negotiateTimeout)
	defer cancel()
	err := c.call(ctx, wire.MinVersion, wire.MethodNegotiate, wire.NegotiateParams{Client: o.Client}, &c.identity)
	if err == nil && (c.identity.ProtocolVersion < wire.MinVersion || c.identity.ProtocolVersion > wire.MaxVersion) {
		err = &MismatchError{Server: orUnknown(c.identity.AppVersion), App: orUnknown(o.Version)}
	}
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Code == wire.CodeUnsupportedVersion {
		var d struct {
			App string `json:"app_version"`
		}
		if raw, ok := refused.Details.(json.RawMessage); ok {
			_ = json.Unmarshal(raw, &d)
		}
		err = &MismatchError{Server: orUnknown(d.App), App: orUnknown(o.Version)}
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("talk to the service: %w", err)
	}
	return c, nil
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Identity is which incarnation of the service this is.
func (c *Client) Identity() wire.NegotiateResult { return c.identity }

// Handle sets who gets the events. It is called on the goroutine that reads:
// in order, one at a time, and it must make no Call. Set it before watching.
func (c *Client) Handle(f func(wire.Event)) { c.onEvent.Store(&f) }

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection and waits for the reader to end. It must not be
// called from the event handler.
func (c *Client) Close() {
	_ = c.nc.Close()
	<-c.done
}

// Call runs a method and decodes its result into result, unless that is nil.
// A refusal comes back as a *wire.Error whose Details are a json.RawMessage.
// When ctx ends first the service may still carry out what was asked.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.call(ctx, c.identity.ProtocolVersion, method, params, result)
}

// Do is Call with the result as a value.
func Do[R any](ctx context.Context, c *Client, method string, params any) (R, error) {
	var r R
	err := c.Call(ctx, method, params, &r)
	return r, err
}

func (c *Client) call(ctx context.Context, version int, method string, params, result any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	req := wire.Request{Version: version, Method: method}
	if params != nil {
		raw, err := json.Marshal(params)
		if err != nil {
			return fmt.Errorf("%s: encode the parameters: %w", method, err)
		}
		req.Params = raw
	}
	answer := make(chan frame, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return fmt.Errorf("%s: %w", method, c.err)
	}
	c.next++
	req.ID = strconv.FormatUint(c.next, 10)
	c.calls[req.ID] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, req.ID)
		c.mu.Unlock()
	}()
	line, err := wire.Encode(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if err := c.write(ctx, line); errors.Is(err, ErrClosed) {
		// What the service said last tells why. It may not have been read yet.
		_ = c.nc.SetReadDeadline(time.Now().Add(lastWords))
	} else if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case f := <-answer:
		return f.result(method, result)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	case <-c.done:
	}
	select {
	case f := <-answer: // it came just before the end
		return f.result(method, result)
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%s: %w", method, c.err)
}

// write sends one line. When ctx ends in the middle of it the connection is
// closed, as nothing could follow half a line.
func (c *Client) write(ctx context.Context, line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = c.nc.Close() })
	_, err := c.nc.Write(line)
	if !stop() && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrClosed, err)
	}
	return nil
}

func (f frame) result(method string, into any) error {
	if !f.OK {
		e := &wire.Error{Code: f.Code, Message: f.Error}
		if f.Details != nil {
			e.Details = f.Details
		}
		return e
	}
	if into == nil || len(f.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(f.Result, into); err != nil {
		return fmt.Errorf("%s: read the answer: %w", method, err)
	}
	return nil
}

func (c *Client) read() {
	defer close(c.done)
	defer func() { _ = c.nc.Close() }()
	lines := wire.NewLineReader(c.nc)
	for {
		line, err := lines.Next()
		var f frame
		if err == nil {
			err = json.Unmarshal(line, &f)
		}
		if err != nil {
			c.fail(fmt.Errorf("%w (%w)", ErrClosed, err))
			return
		}
		c.seen.Store(time.Now().UnixNano())
		if f.Event != "" {
			if h := c.onEvent.Load(); h != nil {
				(*h)(wire.Event{Version: f.Version, Event: f.Event, Topic: f.Topic, Session: f.Session, Cursor: f.Cursor, Data: f.Data})
			}
			continue
		}
		if f.ID == "" && !f.OK {
			// The service refuses the connection itself and tells why.
			c.fail(fmt.Errorf("%w: %w", ErrClosed, &wire.Error{Code: f.Code, Message: f.Error}))
			return
		}
		c.mu.Lock()
		answer := c.calls[f.ID]
		delete(c.calls, f.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- f
		}
	}
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// ReadBlob reads a value that was too large for its message, and checks that
// it is the one that was named.
func ReadBlob(ctx context.Context, c *Client, ref wire.BlobRef) ([]byte, error) {
	var data []byte
	for {
		p, err := Do[wire.BlobReadResult](ctx, c, wire.MethodBlobRead, wire.BlobReadParams{Digest: ref.Blob, Offset: int64(len(data))})
		if err != nil {
			return nil, err
		}
		data = append(data, p.Data...)
		switch {
		case int64(len(data)) > ref.Bytes || (p.EOF || len(p.Data) == 0) && int64(len(data)) < ref.Bytes:
			return nil, fmt.Errorf("read blob %s: it has not the %d bytes that were announced", ref.Blob, ref.Bytes)
		case int64(len(data)) < ref.Bytes:
			continue
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != ref.Blob {
			return nil, fmt.Errorf("read blob %s: its content has another SHA-256; the stored file is damaged", ref.Blob)
		}
		return data, nil
	}
}
