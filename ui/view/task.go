package view

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
)

// callLimit bounds one call to the service. Stopping a mission may take the
// time that its processes are given to end.
const callLimit = 60 * time.Second

var errNotConnected = errors.New(say.Key("there is no connection to the service; wait until it is back, or start it"))

// background runs f in a goroutine that ends with the program.
func (d *desk) background(f func(context.Context)) {
	d.tasks.Add(1)
	go func() {
		defer d.tasks.Done()
		f(d.ctx)
	}()
}

// task runs f in a goroutine that the program waits for, and hands its result
// to done on the UI goroutine.
func task[R any](d *desk, f func(context.Context) (R, error), done func(R, error)) {
	d.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		r, err := f(ctx)
		if d.ctx.Err() == nil {
			d.do(func() { done(r, err) })
		}
	})
}

// requestKey makes a mutation one that can be repeated without happening twice.
func requestKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// sentence says an error to a person.
func sentence(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return say.T("The service did not answer in time. Try again; if that does not help, restart the service.")
	}
	text := err.Error()
	if errors.Is(err, errNotConnected) {
		text = say.Word(errNotConnected.Error())
	}
	var refused *wire.Error
	if errors.As(err, &refused) {
		text = refused.Message
	}
	if text = strings.TrimSpace(model.Clean(text)); text == "" { // it may hold names of processes
		return say.T("It did not work, and nothing says why.")
	}
	text = capital(text)
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
