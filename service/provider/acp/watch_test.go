package acp

import (
	"context"
	"encoding/json"
	"testing"
)

// An agent may rest and go on by itself before its prompt is over.
func TestRestsTwice(t *testing.T) {
	c := &conn{turn: &turn{seen: seen{rest: make(chan struct{})}}}
	for range 2 {
		c.working(true)
		c.working(false)
	}
	select {
	case <-c.turn.rest:
	default:
		t.Error("it rests, and nobody hears of it")
	}
}

// What a call was given is kept until the call is over.
func TestInputsAreForgotten(t *testing.T) {
	c := &conn{turn: &turn{}, watch: func(context.Context, *conn) (func(), error) { return nil, nil }}
	in := json.RawMessage(`{"a":1}`)
	c.input("c", in)
	if len(c.turn.inputs["c"]) == 0 {
		t.Error("nothing is kept")
	}
	c.forget(c.turn, "c")
	c.input("c", in) // it is told again
	if len(c.turn.inputs["c"]) != 0 {
		t.Error("it is kept for ever")
	}
}
