package server

import (
	"testing"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

// However many connections of one process wait, that of another one is judged
// next.
func TestQueueIsFair(t *testing.T) {
	q := newQueue()
	of := func(pid int) *conn { return &conn{peer: sock.Peer{PID: pid}} }
	for range 4096 {
		q.push(of(1))
	}
	var first *conn
	for i := range maxJudging {
		c := q.next()
		if c == nil || c.peer.PID != 1 {
			t.Fatalf("connection %d: %+v", i, c)
		}
		first = c
	}
	if c := q.next(); c != nil {
		t.Fatalf("more than %d are judged at once", maxJudging)
	}
	q.push(of(2))
	q.push(of(3))
	for pid := 2; pid <= 3; pid++ {
		q.judged(first)
		if c := q.next(); c == nil || c.peer.PID != pid {
			t.Fatalf("%+v is next, not that of process %d", c, pid)
		}
	}
	q.push(of(4))
	for range 4096 - maxJudging - 1 {
		if c := q.crowd(); c == nil || c.peer.PID != 1 {
			t.Fatalf("%+v has to go", c)
		}
	}
	if c := q.crowd(); c != nil || q.waiting != 2 || len(q.turns) != 2 {
		t.Errorf("%+v has to go; %d wait of %v", c, q.waiting, q.turns)
	}
}

// A process that connects again and again keeps nobody out: the rest of its
// connections is refused, and the others wait behind those of everybody else.
func TestAStormKeepsNobodyOut(t *testing.T) {
	f := newFake()
	f.pid = 1
	judging, goOn := make(chan int, 1024), make(chan struct{})
	f.judging = func(p sock.Peer) {
		judging <- p.PID
		if p.PID == 1 {
			<-goOn
		}
	}
	s, path := serve(t, f)
	defer close(goOn)
	storm := make([]*peer, maxJudging+s.max+20)
	for i := range storm {
		storm[i] = dial(t, path)
	}
	for _, p := range storm[maxJudging+s.max:] {
		if l := p.get(); l.Code != wire.CodeLimitExceeded {
			t.Fatalf("%+v", l.Response)
		}
	}
	for range maxJudging {
		<-judging
	}
	f.next(Actor{})
	person := dial(t, path)
	id := person.send(wire.MethodServiceStatus, nil)
	for came := false; !came; {
		s.mu.Lock()
		came = len(s.queue.of[2]) > 0
		s.mu.Unlock()
	}
	goOn <- struct{}{}
	if pid := <-judging; pid != 2 {
		t.Fatalf("process %d is judged next", pid)
	}
	if l := person.get(); l.ID != id || !l.OK {
		t.Errorf("%+v", l.Response)
	}
}

// A worker that has all its places is not judged again to be told so.
func TestAFullWorkerIsNotJudged(t *testing.T) {
	f := newFake()
	judged := make(chan int, 1024)
	f.judging = func(p sock.Peer) { judged <- p.PID }
	s, path := serve(t, f)
	f.next(Actor{Worker: true, Mission: "m1"})
	var peers []*peer
	for range maxOfOne {
		p := dial(t, path)
		p.call(wire.MethodNegotiate, nil)
		peers = append(peers, p)
	}
	for range 3 {
		if l := dial(t, path).get(); l.Code != wire.CodeLimitExceeded {
			t.Errorf("one more: %+v", l.Response)
		}
	}
	if n := len(judged); n != maxOfOne {
		t.Errorf("%d were judged", n)
	}
	_ = peers[0].nc.Close()
	for free := false; !free; {
		s.mu.Lock()
		free = s.known[f.pid].n < maxOfOne
		s.mu.Unlock()
	}
	if l := dial(t, path).call(wire.MethodNegotiate, nil); !l.OK {
		t.Errorf("after one has left: %+v", l.Response)
	}
}
