package child

import (
	"sync"

	"github.com/reevehq/reeve/service/provider"
)

// Events is the ordered stream of a Conn. Emit blocks while the reader is slow,
// so nothing that the reader itself calls may emit.
type Events struct {
	mu     sync.Mutex
	ch     chan provider.Event
	closed bool
}

// NewEvents returns an open stream.
func NewEvents() *Events { return &Events{ch: make(chan provider.Event, 256)} }

// Chan is what the Conn gives to its reader.
func (e *Events) Chan() <-chan provider.Event { return e.ch }

// Emit appends an event. After Close it does nothing.
func (e *Events) Emit(ev provider.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.ch <- ev
	}
}

// Close ends the stream; what was emitted stays readable.
func (e *Events) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		close(e.ch)
	}
}
