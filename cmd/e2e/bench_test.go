package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

// The figures of the shipped binary. Nothing here fails for being slow: the
// bars stand in the documentation, and a person reads both.

// shipped is a service of the shipped binary, with a state of its own.
type shipped struct {
	b      *testing.B
	dir    string
	env    []string
	socket string
	cmd    *exec.Cmd
}

func newShipped(b *testing.B) *shipped {
	b.Helper()
	if err := plain(); err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	s := &shipped{b: b, dir: dir, env: []string{"PATH=" + filepath.Join(bin, "plain") + ":" + os.Getenv("PATH"), "HOME=" + dir,
		"REEVE_STATE=" + filepath.Join(dir, "state"), "GIT_CONFIG_GLOBAL=/dev/null", "LANG=C.UTF-8"}}
	path, err := sock.Path(func(name string) string {
		for _, kv := range s.env {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	})
	if err != nil {
		b.Fatal(err)
	}
	s.socket = path
	b.Cleanup(s.end)
	return s
}

// start runs the service and returns how long it took to say that it serves.
func (s *shipped) start() time.Duration {
	s.b.Helper()
	s.cmd = exec.Command(filepath.Join(bin, "plain", "reeve"), "service", "run")
	s.cmd.Env, s.cmd.Dir = s.env, s.dir
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		s.b.Fatal(err)
	}
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		s.b.Fatal(err)
	}
	l := read(stderr)
	if !l.wait("serving", waitLimit) {
		s.b.Fatalf("the service did not come up:\n%s", l.text())
	}
	c := s.dial()
	took := time.Since(began)
	c.Close()
	return took
}

func (s *shipped) dial() *client.Client {
	s.b.Helper()
	c, err := client.Dial(context.Background(), s.socket, client.Options{Client: "bench"})
	if err != nil {
		s.b.Fatal(err)
	}
	return c
}

// end stops the service and its workers.
func (s *shipped) end() {
	if s.cmd == nil {
		return
	}
	c := s.dial()
	_, _ = client.Do[wire.ServiceStopResult](context.Background(), c, wire.MethodServiceStop, wire.ServiceStopParams{Workers: true})
	c.Close()
	limit := time.AfterFunc(waitLimit, func() { _ = s.cmd.Process.Kill() })
	_ = s.cmd.Wait()
	limit.Stop()
	s.cmd = nil
}

// status reads a number from /proc/<pid>/status: kB for sizes.
func status(b *testing.B, path, name string) int {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.Atoi(strings.Fields(v)[0])
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("%s has no %s", path, name)
	return 0
}

func rssAnon(b *testing.B, pid int) float64 {
	return float64(status(b, fmt.Sprintf("/proc/%d/status", pid), "RssAnon")) / 1024
}

// BenchmarkIdle is what a service, and the worker of a mission that waits, cost
// while nothing happens.
func BenchmarkIdle(b *testing.B) {
	for range b.N {
		s := newShipped(b)
		s.start()
		pid := s.cmd.Process.Pid
		settle(b, pid)
		b.ReportMetric(rssAnon(b, pid), "MiB-service")
		b.ReportMetric(wakeUps(b, pid, 5*time.Second), "wakeups/s-service")

		g := s.waiting()
		settle(b, g.PID)
		b.ReportMetric(rssAnon(b, g.PID), "MiB-guard")
		b.ReportMetric(rssAnon(b, g.Keeper.PID), "MiB-keeper")
		b.ReportMetric(rssAnon(b, g.PID)+rssAnon(b, g.Keeper.PID), "MiB-worker")
		// For some time after a turn its runtime gives memory back.
		least := wakeUps(b, g.PID, 5*time.Second)
		for range 5 {
			least = min(least, wakeUps(b, g.PID, 5*time.Second))
		}
		b.ReportMetric(least, "wakeups/s-guard")
		b.ReportMetric(rssAnon(b, pid), "MiB-service-with-one")
		s.end()
	}
	b.ReportMetric(0, "ns/op")
}

// repo makes a checkout with one commit.
func (s *shipped) repo(name string) string {
	s.b.Helper()
	dir := filepath.Join(s.dir, name)
	for _, args := range [][]string{{"git", "init", "-q", dir}, {"git", "-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = s.env
		if out, err := cmd.CombinedOutput(); err != nil {
			s.b.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// begin starts a mission of the demo agent in a checkout of its own.
func (s *shipped) begin(c *client.Client, repo, scope string) wire.Mission {
	s.b.Helper()
	m := &machine{home: s.dir}
	p := ask[wire.MissionStartResult](s.b, c, wire.MethodMissionStart, m.demoTerms(s.repo(repo), scope))
	ask[wire.ApprovalResult](s.b, c, wire.MethodApprovalAnswer, wire.AnswerParams{ID: p.Approval.ID, Digest: p.Approval.Digest, Allow: true})
	return p.Mission
}

func ask[R any](b *testing.B, c *client.Client, method string, params any) R {
	b.Helper()
	r, err := client.Do[R](context.Background(), c, method, params)
	if err != nil {
		b.Fatalf("%s: %v", method, err)
	}
	return r
}

// until looks at a mission until ok holds.
func (s *shipped) until(c *client.Client, id string, ok func(wire.Mission) bool) wire.Mission {
	s.b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		m := ask[wire.MissionResult](s.b, c, wire.MethodMissionGet, wire.IDParams{ID: id}).Mission
		if ok(m) {
			return m
		}
		if m.EndedAt != nil || m.Phase == "blocked" {
			s.b.Fatalf("the mission is %s: %+v", m.Phase, m.Failure)
		}
	}
	panic("unreachable")
}

// waiting runs a mission until it waits, and returns its guard.
func (s *shipped) waiting() wire.GuardRecord {
	s.b.Helper()
	c := s.dial()
	defer c.Close()
	id := s.begin(c, "repo", "demo:wait\ndemo:burst 10").ID
	m := s.until(c, id, func(m wire.Mission) bool { return m.Phase == "waiting" && m.Turn > 0 })
	return guardRecord(s.b, filepath.Join(s.dir, "state"), m.Attempt)
}

func guardRecord(b *testing.B, state, attempt string) wire.GuardRecord {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(state, "attempts", attempt, "guard.json"))
	if err != nil {
		b.Fatal(err)
	}
	var r wire.GuardRecord
	if err := json.Unmarshal(text, &r); err != nil {
		b.Fatal(err)
	}
	return r
}

// settle returns when a process has used no processor time for two seconds.
func settle(b *testing.B, pid int) {
	b.Helper()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	before := ""
	for range 20 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')'):]))
		now := f[12] + " " + f[13]
		if now == before {
			return
		}
		before = now
		<-tick.C
	}
}

// wakeUps counts how often the threads of a process gave the processor back,
// which is once for each time that they woke.
func wakeUps(b *testing.B, pid int, during time.Duration) float64 {
	b.Helper()
	count := func() (n int) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		for _, t := range tasks {
			n += status(b, t, "voluntary_ctxt_switches")
		}
		return n
	}
	before := count()
	timer := time.NewTimer(during)
	<-timer.C
	return float64(count()-before) / during.Seconds()
}

// BenchmarkRoundTrip is service.status beside a bare echo of one line by another
// process, in turns.
func BenchmarkRoundTrip(b *testing.B) {
	s := newShipped(b)
	s.start()
	nc, err := net.Dial("unix", s.socket)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
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
	bare, err := net.Dial("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	trip := func(c net.Conn, r *bufio.Reader, line string) time.Duration {
		at := time.Now()
		if _, err := io.WriteString(c, line); err != nil {
			b.Fatal(err)
		}
		if _, err := r.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
		return time.Since(at)
	}
	ours, bares := bufio.NewReader(nc), bufio.NewReader(bare)
	line := `{"version":2,"id":"1","method":"service.status"}` + "\n"
	var a, e []time.Duration
	for range b.N * 5000 { // one alone says nothing
		a = append(a, trip(nc, ours, line))
		e = append(e, trip(bare, bares, line))
	}
	slices.Sort(a)
	slices.Sort(e)
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		at := func(d []time.Duration) float64 { return float64(d[int(float64(len(d)-1)*q)].Nanoseconds()) / 1000 }
		b.ReportMetric(at(a), "µs-"+name)
		b.ReportMetric(at(e), "µs-"+name+"-echo")
		b.ReportMetric(at(a)-at(e), "µs-"+name+"-above")
	}
	b.ReportMetric(0, "ns/op")
}

// init is the bare echo: BenchmarkRoundTrip runs this program so.
func init() {
	path := os.Getenv("REEVE_E2E_ECHO")
	if path == "" {
		return
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening")
	nc, err := l.Accept()
	if err == nil {
		r := bufio.NewReader(nc)
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				break
			}
			if _, err := nc.Write(line); err != nil {
				break
			}
		}
	}
	os.Exit(0)
}
