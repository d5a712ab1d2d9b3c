package guard

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/runlog"
)

const (
	maxUnread   = 4 << 20          // bytes that wait for a slow peer
	writeWithin = 10 * time.Second // for one line, to others than the owner
	// maxUseBehind is how many lines may wait when what is used is told.
	maxUseBehind = 1000
)

// peer is one connection. Its lock comes after guard.mu.
type peer struct {
	conn net.Conn
	who  sock.Peer
	log  string        // the path of the session log
	gone chan struct{} // closed when nothing more is read from it
	wake chan struct{}

	mu      sync.Mutex
	version int  // of the guard protocol: that of its first line
	spoke   bool // it has sent one
	queue   []queued
	bytes   int
	owner   bool // it has all the time it wants: its process is watched
	ending  bool // what is queued is written, then the connection ends
	// behind: the entries after sent were too many to wait in memory; they
	// are read from the log. newest is the last entry there is.
	behind       bool
	sent, newest uint64
}

// queued is a line that waits; seq is that of an entry, 0 for an answer.
type queued struct {
	line []byte
	seq  uint64
}

// reply queues an answer.
func (p *peer) reply(r wire.Response) {
	r.Version = p.protocol()
	line, err := wire.Encode(r)
	if err != nil {
		return // no result of a guard is that long
	}
	p.send(queued{line: line})
}

// speak fixes the protocol of the connection with its first line. It says
// whether a line of this version can be understood.
func (p *peer) speak(version int, known []int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.spoke && slices.Contains(known, version) {
		p.spoke, p.version = true, version
	}
	return p.spoke && version == p.version
}

func (p *peer) protocol() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

// entryLine is an entry as it is sent.
func (p *peer) entryLine(e wire.Entry) ([]byte, error) {
	return wire.Encode(wire.Event{Version: p.protocol(), Event: wire.EvGuardEntry, Data: rawJSON(e)})
}

// sendUse queues what is used now. A peer that is slow misses it: the next
// figures hold all that these tell.
func (p *peer) sendUse(r wire.Resources) {
	line, err := wire.Encode(wire.Event{Version: p.protocol(), Event: wire.EvGuardResources, Data: rawJSON(r)})
	if err != nil {
		return // it is never that long
	}
	p.mu.Lock()
	slow := p.behind || len(p.queue) > maxUseBehind
	old := p.version < 2
	p.mu.Unlock()
	if !slow && !old {
		p.send(queued{line: line})
	}
}

// sendEvent queues an entry, which is in the log already.
func (p *peer) sendEvent(e wire.Entry) {
	line, err := p.entryLine(e)
	if err != nil {
		_ = p.conn.Close() // it is in the log; a gap must not look like none
		return
	}
	p.send(queued{line, e.Seq})
}

// own gives the connection to the owner.
func (p *peer) own() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owner = true
}

// send queues a line. Entries that become too many are dropped: the writer
// reads them from the log when it comes to them. So an owner that is slow, or
// stood still for a while, misses nothing, and the guard never waits for it. A
// peer that does not even read its answers is cut off.
func (p *peer) send(q queued) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending {
		return
	}
	if q.seq != 0 {
		p.newest = q.seq
	}
	if q.seq == 0 || !p.behind {
		p.queue = append(p.queue, q)
		p.bytes += len(q.line)
	}
	if p.bytes > maxUnread {
		p.dropEntriesLocked()
	}
	if p.bytes > maxUnread {
		p.ending, p.behind, p.queue = true, false, nil
		_ = p.conn.Close()
	}
	p.poke()
}

func (p *peer) dropEntriesLocked() {
	var answers []queued
	p.bytes = 0
	for _, q := range p.queue {
		switch {
		case q.seq == 0:
			answers = append(answers, q)
			p.bytes += len(q.line)
		case !p.behind:
			p.behind, p.sent = true, q.seq-1
		}
	}
	p.queue = answers
}

// finish writes what is queued and ends the connection.
func (p *peer) finish() {
	p.mu.Lock()
	p.ending = true
	_ = p.conn.SetWriteDeadline(time.Now().Add(writeWithin)) // of a write that waits, too
	p.mu.Unlock()
	p.poke()
}

func (p *peer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *peer) write() {
	defer p.conn.Close()
	var missed *runlog.Reader // open while the peer is behind
	defer func() {
		if missed != nil {
			_ = missed.Close()
		}
	}()
	for {
		p.mu.Lock()
		batch, ending, behind := p.queue, p.ending, p.behind
		p.queue, p.bytes = nil, 0
		p.mu.Unlock()
		for _, q := range batch {
			if p.put(q.line) != nil {
				return
			}
		}
		switch {
		case len(batch) > 0:
		case behind:
			var err error
			if missed, err = p.catchUp(missed); err != nil {
				return
			}
		case ending:
			return
		default:
			<-p.wake
		}
	}
}

// put writes one line. Only the owner may take its time, and only while the
// guard lives.
func (p *peer) put(line []byte) error {
	p.mu.Lock()
	limit := time.Time{}
	if !p.owner || p.ending {
		limit = time.Now().Add(writeWithin)
	}
	_ = p.conn.SetWriteDeadline(limit)
	p.mu.Unlock()
	_, err := p.conn.Write(line)
	return err
}

// catchUp sends the next entry that was dropped, from the log. The reader is
// nil once the last of them is sent.
func (p *peer) catchUp(r *runlog.Reader) (*runlog.Reader, error) {
	if r == nil {
		var err error
		if r, err = runlog.Open(p.log); err != nil {
			return nil, err
		}
		if err := r.Seek(p.sent + 1); err != nil {
			return r, err
		}
	}
	rec, err := r.Next()
	var damage *runlog.CorruptError
	if errors.As(err, &damage) {
		return r, nil // it shows as a gap
	}
	if err != nil {
		return r, err // what is announced is in the log, so this is no end
	}
	line, err := p.entryLine(wire.Entry{Log: r.LogID(), Seq: rec.Seq, At: rec.Time.Round(0).UTC(), Kind: rec.Kind, Data: rec.Data})
	if err == nil {
		err = p.put(line)
	}
	if err != nil {
		return r, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = rec.Seq
	if p.sent < p.newest {
		return r, nil
	}
	p.behind = false // what comes now is queued again
	return nil, r.Close()
}
