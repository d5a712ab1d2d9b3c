package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
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

	"github.com/reevehq/reeve/ipc/wire"
)

// BenchmarkBridge is what a worker's bridge gets, asked by a process of the
// worker as a bridge would: verifying its session beside a bare echo, and pairs
// of prepare and complete beside raw fdatasyncs, in turns.
func BenchmarkBridge(b *testing.B) {
	s := newShipped(b)
	s.start()
	path := filepath.Join(s.dir, "echo.sock")
	echo := exec.Command("/proc/self/exe")
	echo.Env = []string{"REEVE_E2E_ECHO=" + path}
	out, err := echo.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := echo.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = echo.Process.Signal(syscall.SIGTERM); _ = echo.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it listens
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	c := s.dial()
	defer c.Close()
	figures := filepath.Join(s.dir, "figures")
	script := fmt.Sprintf("REEVE_E2E_BRIDGE='%s' exec '%s'\n", shellQuoteInside(s.dir), shellQuoteInside(self))
	if err := os.WriteFile(filepath.Join(s.dir, "worker.sh"), []byte(script), 0o600); err != nil {
		b.Fatal(err)
	}
	m := s.begin(c, "repo", "demo:command sh ../worker.sh")
	s.until(c, m.ID, func(m wire.Mission) bool { return m.Pending == 1 })
	list := ask[wire.ApprovalListResult](b, c, wire.MethodApprovalList, wire.ApprovalListParams{Mission: m.ID})
	a := list.Approvals[0]
	ask[wire.ApprovalResult](b, c, wire.MethodApprovalAnswer, wire.AnswerParams{ID: a.ID, Digest: a.Digest, Allow: true})
	s.until(c, m.ID, func(m wire.Mission) bool { return m.Phase == "completed" })
	raw, err := os.ReadFile(figures)
	if err != nil {
		b.Fatal(err)
	}
	var f bridgeFigures
	if err := json.Unmarshal(raw, &f); err != nil || f.Failed != "" {
		b.Fatal(err, f.Failed)
	}
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		at := func(d []time.Duration) float64 { return float64(d[int(float64(len(d)-1)*q)].Nanoseconds()) / 1000 }
		b.ReportMetric(at(f.Verify), "µs-"+name)
		b.ReportMetric(at(f.Echo), "µs-"+name+"-echo")
		b.ReportMetric(at(f.Verify)-at(f.Echo), "µs-"+name+"-above")
	}
	pairs, syncs := float64(len(f.Pair))/sum(f.Pair).Seconds(), float64(len(f.Sync))/sum(f.Sync).Seconds()
	b.ReportMetric(pairs, "pairs/s")
	b.ReportMetric(syncs, "fdatasyncs/s")
	b.ReportMetric(pairs*pairSyncs/syncs, "x-raw")
	b.ReportMetric(0, "ns/op")
}

// pairSyncs is how many times the journal has to sync for a prepare and a
// complete: twice for each commit.
const pairSyncs = 4

func sum(list []time.Duration) (all time.Duration) {
	for _, d := range list {
		all += d
	}
	return all
}

// bridgeFigures are what the worker measured, sorted.
type bridgeFigures struct {
	Verify, Echo, Pair, Sync []time.Duration
	Failed                   string
}

// init is the worker's bridge: BenchmarkBridge has the agent run this program so.
func init() {
	dir := os.Getenv("REEVE_E2E_BRIDGE")
	if dir == "" {
		return
	}
	var f bridgeFigures
	if err := f.measure(dir); err != nil {
		f.Failed = err.Error()
	}
	raw, err := json.Marshal(f)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "figures"), raw, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// measure is a whole session of a bridge.
func (f *bridgeFigures) measure(dir string) error {
	env := func(name string) string { return os.Getenv("REEVE_" + name) }
	nc, err := net.Dial("unix", env("SUPERVISOR_DAEMON_SOCKET"))
	if err != nil {
		return err
	}
	bare, err := net.Dial("unix", filepath.Join(dir, "echo.sock"))
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		return err
	}
	ours, bares := bufio.NewReaderSize(nc, wire.MaxLine), bufio.NewReader(bare)
	trip := func(method string, params, result any) (time.Duration, error) {
		p, err := json.Marshal(params)
		if err != nil {
			return 0, err
		}
		line, err := wire.Encode(wire.Request{Version: 2, ID: "1", Method: method, Params: p})
		if err != nil {
			return 0, err
		}
		at := time.Now()
		if _, err := nc.Write(line); err != nil {
			return 0, err
		}
		got, err := ours.ReadSlice('\n')
		took := time.Since(at)
		var r wire.Response
		if err == nil {
			err = json.Unmarshal(got, &r)
		}
		if err == nil && !r.OK {
			err = fmt.Errorf("%s: %s", method, r.Error)
		}
		if err == nil && result != nil {
			err = json.Unmarshal(r.Result, result)
		}
		return took, err
	}
	var n wire.NegotiateResult
	if _, err := trip(wire.MethodNegotiate, nil, &n); err != nil {
		return err
	}
	c := wire.Coordinates{Entry: env("SUPERVISOR_ENTRY_ID"), Attempt: env("SUPERVISOR_WORK_ATTEMPT_ID"), Execution: env("SUPERVISOR_EXECUTION_GENERATION_ID")}
	w := wire.WorkerSession{Room: env("SUPERVISOR_ROOM_ID"), Session: env("SUPERVISOR_AGENT_SESSION_ID"), APIURL: env("API_URL")}
	var lent wire.BorrowResult
	if _, err := trip(wire.MethodBorrow, wire.BorrowParams{Coordinates: c, Room: w.Room, Session: w.Session, Generation: n.Generation, APIURL: w.APIURL}, &lent); err != nil {
		return err
	}
	w.Token = lent.Credential
	bind := wire.BindParams{Coordinates: c, WorkerSession: w}
	if _, err := trip(wire.MethodBindWorker, bind, nil); err != nil {
		return err
	}
	same := strings.Repeat("x", 400) + "\n"
	for range 3000 {
		took, err := trip(wire.MethodVerifyWorker, bind, nil)
		if err != nil {
			return err
		}
		at := time.Now()
		if _, err := io.WriteString(bare, same); err != nil {
			return err
		}
		if _, err := bares.ReadSlice('\n'); err != nil {
			return err
		}
		f.Verify, f.Echo = append(f.Verify, took), append(f.Echo, time.Since(at))
	}
	block := make([]byte, 4<<10)
	for i := range 300 {
		var e wire.PrepareResult
		p := wire.PrepareParams{Mutation: true, ToolParams: wire.ToolParams{
			Coordinates: c, Generation: n.Generation, RequestID: wire.MCPRequestID(fmt.Sprint(i)), Tool: "bench", Input: json.RawMessage(`{"text":"one of many"}`),
		}}
		first, err := trip(wire.MethodPrepareEffect, p, &e)
		if err != nil {
			return err
		}
		second, err := trip(wire.MethodCompleteEffect, wire.CompleteParams{Coordinates: c, Generation: n.Generation, Effect: e.Effect, Result: json.RawMessage(`{}`)}, nil)
		if err != nil {
			return err
		}
		f.Pair = append(f.Pair, first+second)
		for range pairSyncs {
			at := time.Now()
			if _, err := file.Write(block); err != nil {
				return err
			}
			if err := syscall.Fdatasync(int(file.Fd())); err != nil {
				return err
			}
			f.Sync = append(f.Sync, time.Since(at))
		}
	}
	slices.Sort(f.Verify)
	slices.Sort(f.Echo)
	return nil
}
