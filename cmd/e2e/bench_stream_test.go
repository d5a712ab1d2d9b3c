package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// BenchmarkAttach reads a transcript of 100 MiB from its start, and in turns
// with it the same bytes that another process copies from a file to a socket.
// The memory is that of the service: before, at most while it streams, after.
func BenchmarkAttach(b *testing.B) {
	s := newShipped(b)
	s.start()
	c := s.dial()
	m := s.until(c, s.begin(c, "repo", "demo:burst 10").ID, func(m wire.Mission) bool { return m.Phase == "completed" })
	c.Close()
	grow(b, filepath.Join(s.dir, "state", "attempts", m.Attempt, "log"), 100<<20)

	// The bytes as they come, for the other process to copy.
	same := filepath.Join(s.dir, "same")
	keep, err := os.Create(same)
	if err != nil {
		b.Fatal(err)
	}
	s.attach(m, keep)
	if err := keep.Close(); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(s.dir, "copy.sock")
	copier := exec.Command("/proc/self/exe")
	copier.Env = []string{"REEVE_E2E_COPY=" + path, "REEVE_E2E_FILE=" + same}
	out, err := copier.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := copier.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = copier.Process.Signal(syscall.SIGTERM); _ = copier.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it listens
		b.Fatal(err)
	}

	pid := s.cmd.Process.Pid
	settle(b, pid)
	before := rssAnon(b, pid)
	most := before
	var firsts, wholes, bares []time.Duration
	for range b.N * 5 {
		watched := make(chan struct{})
		peak := make(chan float64)
		go func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for top := 0.0; ; {
				select {
				case <-tick.C:
					top = max(top, rssAnon(b, pid))
				case <-watched:
					peak <- top
					return
				}
			}
		}()
		first, whole := s.attach(m, nil)
		close(watched)
		most = max(most, <-peak)
		firsts, wholes = append(firsts, first), append(wholes, whole)
		bares = append(bares, bareCopy(b, path))
	}
	info, err := os.Stat(same)
	if err != nil {
		b.Fatal(err)
	}
	best := slices.Min(wholes)
	b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
	b.ReportMetric(ms(slices.Min(firsts)), "ms-first-screen")
	b.ReportMetric(ms(best), "ms-whole")
	b.ReportMetric(100*slices.Min(bares).Seconds()/best.Seconds(), "%-of-copy")
	b.ReportMetric(most-before, "MiB-more-while-streaming")
	b.ReportMetric(rssAnon(b, pid)-before, "MiB-more-afterwards")
	b.ReportMetric(0, "ns/op")
}

// attach reads a whole session. It returns when the first piece had come and
// when all had.
func (s *shipped) attach(m wire.Mission, keep io.Writer) (first, whole time.Duration) {
	s.b.Helper()
	nc, err := net.Dial("unix", s.socket)
	if err != nil {
		s.b.Fatal(err)
	}
	defer nc.Close()
	at := time.Now()
	if _, err := fmt.Fprintf(nc, `{"version":2,"id":"1","method":"session.attach","params":{"session":%q}}`+"\n", m.ID); err != nil {
		s.b.Fatal(err)
	}
	r := bufio.NewReaderSize(nc, 1<<20)
	chunk, end := []byte(`"event":"`+wire.EvSnapshotChunk+`"`), []byte(`"event":"`+wire.EvSnapshotEnd+`"`)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			s.b.Fatal(err)
		}
		head := line[:min(100, len(line))]
		if first == 0 && bytes.Contains(head, chunk) {
			first = time.Since(at)
		}
		if keep != nil {
			if _, err := keep.Write(line); err != nil {
				s.b.Fatal(err)
			}
		}
		if bytes.Contains(head, end) {
			return first, time.Since(at)
		}
	}
}

func bareCopy(b *testing.B, path string) time.Duration {
	nc, err := net.Dial("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	at := time.Now()
	r := bufio.NewReaderSize(nc, 1<<20)
	for {
		if _, err := r.ReadSlice('\n'); err == io.EOF {
			return time.Since(at)
		} else if err != nil {
			b.Fatal(err)
		}
	}
}

// init is the bare copy: BenchmarkAttach runs this program so.
func init() {
	path := os.Getenv("REEVE_E2E_COPY")
	if path == "" {
		return
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening")
	for {
		nc, err := l.Accept()
		if err != nil {
			os.Exit(0)
		}
		f, err := os.Open(os.Getenv("REEVE_E2E_FILE"))
		if err == nil {
			_, err = io.Copy(nc, f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		_ = f.Close()
		_ = nc.Close()
	}
}

// grow appends text to a session log until it has that many bytes. The format
// is written here once more, as the shipped program reads it.
func grow(b *testing.B, path string, size int) {
	b.Helper()
	old, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	at := 8 + 4 // magic and version
	at += 1 + int(old[at]) + 4
	seq := uint64(0)
	for at < len(old) {
		n := int(binary.LittleEndian.Uint32(old[at:]))
		seq = binary.LittleEndian.Uint64(old[at+8:])
		at += 8 + n
	}
	words := strings.Repeat("The agent says something of no great interest, and goes on.\n", 70)
	data, err := json.Marshal(wire.Text{Turn: "t", Text: words[:4<<10]})
	if err != nil {
		b.Fatal(err)
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	var out []byte
	for len(out) < size {
		seq++
		p := binary.LittleEndian.AppendUint64(nil, seq)
		p = binary.LittleEndian.AppendUint64(p, uint64(time.Now().UnixNano()))
		p = append(p, byte(len(wire.KindText)))
		p = append(append(p, wire.KindText...), data...)
		out = binary.LittleEndian.AppendUint32(out, uint32(len(p)))
		out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(p, table))
		out = append(out, p...)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(out); err != nil {
		b.Fatal(err)
	}
}

// approvalsSeen passes on what waits, with the time at which it was seen.
type approvalsSeen struct{ seen chan seenApproval }

type seenApproval struct {
	wire.Approval
	at time.Time
}

func (h *approvalsSeen) Snapshot(string, []json.RawMessage, string) {}
func (h *approvalsSeen) State(client.State)                         {}
func (h *approvalsSeen) Delta(_ string, e wire.Event) {
	at := time.Now()
	var a wire.Approval
	if json.Unmarshal(e.Data, &a) == nil && a.State == "pending" && a.Kind == "tool_call" {
		h.seen <- seenApproval{a, at}
	}
}

// BenchmarkPermission is from the agent's announcement of a tool, right before
// it asks for it, until a client has the approval. On the path lie three syncs,
// one after the other: the guard's of its log, and two of the journal's commit.
// After each request three such syncs of a bare file are timed for comparison.
func BenchmarkPermission(b *testing.B) {
	const requests = 40
	s := newShipped(b)
	s.start()
	h := &approvalsSeen{seen: make(chan seenApproval, requests)}
	f := client.Follow(context.Background(), func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, s.socket, client.Options{Client: "bench"})
	}, []string{wire.TopicApprovals}, h)
	defer f.Close()
	c := s.dial()
	defer c.Close()
	file, err := os.Create(filepath.Join(s.dir, "state", "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	m := s.begin(c, "repo", strings.Repeat("demo:command true\n", requests))
	var shown []time.Time
	var syncs []time.Duration
	for range requests {
		a := <-h.seen
		shown = append(shown, a.at)
		syncs = append(syncs, threeSyncs(b, file))
		ask[wire.ApprovalResult](b, c, wire.MethodApprovalAnswer, wire.AnswerParams{ID: a.ID, Digest: a.Digest, Allow: true})
	}
	m = s.until(c, m.ID, func(m wire.Mission) bool { return m.Phase == "completed" })
	asked := s.times(c, m, wire.KindToolStarted)
	if len(asked) != requests {
		b.Fatalf("%d tools were begun", len(asked))
	}
	var above, all []time.Duration
	for i, at := range asked {
		took := shown[i].Sub(at)
		all, above = append(all, took), append(above, took-syncs[i])
	}
	for _, d := range [][]time.Duration{all, above, syncs} {
		slices.Sort(d)
	}
	b.ReportMetric(ms(all[requests/2]), "ms-p50")
	b.ReportMetric(ms(syncs[requests/2]), "ms-p50-of-three-syncs")
	b.ReportMetric(ms(above[requests/2]), "ms-above-syncs")
	b.ReportMetric(0, "ns/op")
}

func threeSyncs(b *testing.B, f *os.File) time.Duration {
	at := time.Now()
	for i := range 3 {
		if _, err := f.Write(make([]byte, 4<<10)); err != nil {
			b.Fatal(err)
		}
		var err error
		if i == 0 {
			err = f.Sync()
		} else {
			err = syscall.Fdatasync(int(f.Fd()))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(at)
}
