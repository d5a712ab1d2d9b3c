package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// bareSocket listens on a socket of no protocol.
func bareSocket(b *testing.B, serve func(net.Conn)) string {
	path := filepath.Join(b.TempDir(), "e")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer nc.Close(); serve(nc) })
		}
	})
	b.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return path
}

// BenchmarkRoundTrip measures service.status beside an echo of one line, in
// turns.
func BenchmarkRoundTrip(b *testing.B) {
	f := newFake()
	_, path := serve(b, f)
	c, err := client.Dial(context.Background(), path, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	echo, err := net.Dial("unix", bareSocket(b, func(nc net.Conn) {
		r := bufio.NewReader(nc)
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if _, err := nc.Write(line); err != nil {
				return
			}
		}
	}))
	if err != nil {
		b.Fatal(err)
	}
	defer echo.Close()
	back := bufio.NewReader(echo)
	line := []byte(strings.Repeat("x", 60) + "\n")
	var ours, bare []time.Duration
	b.ResetTimer()
	for range b.N {
		at := time.Now()
		if err := c.Call(context.Background(), wire.MethodServiceStatus, nil, nil); err != nil {
			b.Fatal(err)
		}
		mid := time.Now()
		if _, err := echo.Write(line); err != nil {
			b.Fatal(err)
		}
		if _, err := back.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
		ours, bare = append(ours, mid.Sub(at)), append(bare, time.Since(mid))
	}
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		o, e := quantile(ours, q), quantile(bare, q)
		b.ReportMetric(float64(o.Microseconds()), name+"-µs")
		b.ReportMetric(float64((o - e).Microseconds()), name+"-above-echo-µs")
		b.ReportMetric(float64(o)/float64(e), name+"-ratio")
	}
}

func quantile(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[int(float64(len(d)-1)*q)]
}

// BenchmarkFanOut sends 50,000 events to 32 attached clients, and the same
// bytes in the same frames to 32 bare sockets, each with a writer of its own.
// "live" goes on when the clients have what was sent 1,000 events ago, so that
// every event travels as such; "burst" publishes as fast as it can, so that most
// come as snapshots. With a stalled client it is done beside one more, which
// reads nothing. The best of three runs counts.
func BenchmarkFanOut(b *testing.B) {
	const events, clients, window = 50_000, 32, 500
	text, _ := json.Marshal(wire.Text{Text: strings.Repeat("x", 100)})
	entry := func(seq int) wire.Entry {
		return wire.Entry{Log: testLog, Seq: uint64(seq), At: time.Unix(0, 0).UTC(), Kind: wire.KindText, Data: text}
	}
	frames := make([][]byte, events)
	size := 0
	for i := range frames {
		frames[i] = sessionFrame("s1", entry(i+1))
		size += len(frames[i])
	}
	ours := func(b *testing.B, live, stalled bool) time.Duration {
		f := newFake()
		s, path := serve(b, f)
		defer s.Close(wire.ClosingShutdown)
		if stalled {
			p := dial(b, path)
			defer p.nc.Close()
			p.send(wire.MethodSessionAttach, wire.AttachParams{Session: "s1"})
		}
		var readers sync.WaitGroup
		arrived := make([]sync.WaitGroup, events/window)
		for i := range arrived {
			arrived[i].Add(clients)
		}
		for range clients {
			p := dial(b, path)
			defer p.nc.Close()
			p.call(wire.MethodSessionAttach, wire.AttachParams{Session: "s1"})
			p.until(wire.EvSnapshotEnd, "session:s1")
			readers.Go(func() {
				if live {
					countLines(b, p.nc, events, func(n int) {
						if n%window == 0 {
							arrived[n/window-1].Done()
						}
					})
				} else {
					readUntil(b, p.nc, fmt.Appendf(nil, `"seq":%d,`, events))
				}
			})
		}
		at := time.Now()
		for i := range events {
			if w := i / window; live && i%window == 0 && w >= 2 {
				arrived[w-2].Wait()
			}
			e := entry(i + 1)
			f.mu.Lock()
			f.logs["s1"] = append(f.logs["s1"], e)
			f.mu.Unlock()
			f.hub.PublishEntry("s1", e)
		}
		readers.Wait()
		return time.Since(at)
	}
	bare := func(b *testing.B) time.Duration {
		var conns []net.Conn
		ready := make(chan net.Conn, clients)
		hold := make(chan struct{})
		path := bareSocket(b, func(nc net.Conn) { ready <- nc; <-hold })
		defer close(hold)
		var readers, writers sync.WaitGroup
		for range clients {
			nc, err := net.Dial("unix", path)
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			conns = append(conns, <-ready)
			readers.Go(func() { countLines(b, nc, events, func(int) {}) })
		}
		at := time.Now()
		for _, nc := range conns {
			writers.Go(func() {
				for _, f := range frames {
					if _, err := nc.Write(f); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		writers.Wait()
		readers.Wait()
		return time.Since(at)
	}
	for _, mode := range []string{"live", "burst"} {
		b.Run(mode, func(b *testing.B) {
			for range b.N {
				raw, free, beside := time.Hour, time.Hour, time.Hour
				for range 3 {
					raw = min(raw, bare(b))
					free = min(free, ours(b, mode == "live", false))
					beside = min(beside, ours(b, mode == "live", true))
				}
				b.ReportMetric(free.Seconds(), "s")
				b.ReportMetric(raw.Seconds(), "bare-s")
				b.ReportMetric(100*raw.Seconds()/free.Seconds(), "%-of-bare")
				b.ReportMetric(100*(beside.Seconds()/free.Seconds()-1), "%-slower-with-a-stalled-one")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// countLines reads that many lines and tells of each.
func countLines(b *testing.B, nc net.Conn, want int, tell func(int)) {
	buf := make([]byte, 64<<10)
	for seen := 0; seen < want; {
		n, err := nc.Read(buf)
		if err != nil {
			b.Error(err)
			return
		}
		for range bytes.Count(buf[:n], []byte{'\n'}) {
			seen++
			tell(seen)
		}
	}
}

// readUntil reads until mark has come.
func readUntil(b *testing.B, nc net.Conn, mark []byte) {
	buf := make([]byte, 64<<10)
	keep := 0
	for {
		n, err := nc.Read(buf[keep:])
		if err != nil {
			b.Error(err)
			return
		}
		if bytes.Contains(buf[:keep+n], mark) {
			return
		}
		tail := buf[max(0, keep+n-len(mark)) : keep+n]
		keep = copy(buf, tail)
	}
}
