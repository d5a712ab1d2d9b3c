// Package mcp is the MCP server that every worker's agent gets: reeve mcp, on
// standard input and output. It has no authority and no state of its own: each
// of its tools is run by the service, which knows by the kernel whose worker
// asks. The package's work is to speak for exactly one worker, to have each
// effect happen at most once across a restart of the service, and to tell the
// agent in plain words what became of it.
//
// A call goes tool → prepare (what changes something) → execute → complete, all
// over one connection to the service that is opened again whenever it ends.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reevehq/reeve/ipc/client"
)

// Options is what the server needs of its process.
type Options struct {
	// In and Out are the agent's side. Nothing else may be written to Out.
	In  io.ReadCloser
	Out io.WriteCloser
	// Getenv reads the environment that the guard set.
	Getenv func(string) string
	// Dir is the worker's checkout. A Codex worker without an environment has
	// its context file there.
	Dir string
	// Socket names the user's own socket, which such a worker uses.
	Socket  func() (string, error)
	Version string
	// Log must not write to Out. It is told no secret and no text of the agent.
	Log *slog.Logger
}

// Serve serves one agent until In ends or ctx is done. It fails at once when it
// can't tell for which worker it speaks.
func Serve(ctx context.Context, o Options) error { return serve(ctx, o, realClock) }

func serve(ctx context.Context, o Options, clk clock) error {
	from := &origin{getenv: o.Getenv, dir: o.Dir, socket: o.Socket}
	w, err := from.worker()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := newLink(clk, client.Options{Client: "reeve-mcp", Version: o.Version})
	defer l.close()
	b := newBridge(ctx, from, l, o.Log)
	defer b.acks.close()

	server := sdk.NewServer(&sdk.Implementation{Name: "reeve", Title: "Reeve", Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions, Capabilities: &sdk.ServerCapabilities{}, Logger: slog.New(slog.DiscardHandler),
	})
	for _, t := range tools {
		if t.question && w.hold == 0 {
			continue
		}
		t.add(server, func(call context.Context, input []byte) (string, error) {
			// An agent that is gone waits for nothing any more; its protocol
			// library leaves its calls alone.
			call, done := context.WithCancel(call)
			defer done()
			defer context.AfterFunc(ctx, done)()
			return b.call(call, t, input)
		})
	}
	err = server.Run(ctx, &sdk.IOTransport{Reader: endingReader{o.In, cancel}, Writer: o.Out})
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		return fmt.Errorf("serve the agent: %w", err)
	}
	return nil
}

// endingReader says when there will be nothing more to read.
type endingReader struct {
	io.ReadCloser
	end func()
}

func (r endingReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if err != nil {
		r.end()
	}
	return n, err
}

// clock is the time that passes while the bridge waits. Tests have their own.
type clock struct {
	// sleep returns when d has passed, or ctx's error when it ends before.
	sleep func(ctx context.Context, d time.Duration) error
	// limit gives a context that ends after d.
	limit func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

var realClock = clock{
	sleep: func(ctx context.Context, d time.Duration) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	},
	limit: context.WithTimeout,
}
