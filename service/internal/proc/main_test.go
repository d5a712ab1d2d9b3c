//go:build linux

package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// roleVar makes the test binary play one of the programs below instead of
// running tests. Its words are the role and its arguments.
const roleVar = "PROC_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := strings.Fields(os.Getenv(roleVar)); len(role) > 0 {
		os.Exit(play(role[0], role[1:]))
	}
	goleak.VerifyTestMain(m)
}

// self is a command that plays a role. It writes where the caller's output
// goes, so that an open pipe shows that someone still lives.
func self(role ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(exe)
	// Without the pause the race detector makes at the end of each program.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", roleVar+"="+strings.Join(role, " "))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

func play(role string, args []string) int {
	switch role {
	case "wait": // says that it is there, and waits for ever; "stubborn" ignores signals
		if slices.Contains(args, "stubborn") {
			signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		} else {
			// What runs in the background of a shell inherits that it is ignored.
			interrupted := make(chan os.Signal, 1)
			signal.Notify(interrupted, syscall.SIGINT)
			go func() {
				<-interrupted
				os.Exit(1)
			}()
		}
		if slices.Contains(args, "root") {
			if err := syscall.Setuid(0); err != nil {
				return fail(err)
			}
		}
		port := 0
		if slices.Contains(args, "listen") {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return fail(err)
			}
			port = l.Addr().(*net.TCPAddr).Port
		}
		say("ready", strconv.Itoa(os.Getpid()), strconv.Itoa(port))
		select {} // not a deadlock: signal handling counts as a waiter
	case "orphan": // leaves a child behind, in its own session if "setsid"
		next := args[1:]
		cmd := self(next...)
		if args[0] == "setsid" {
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}
		if err := cmd.Start(); err != nil {
			return fail(err)
		}
		return 0
	case "leader": // stays, with a child
		cmd := self(args...)
		if err := cmd.Start(); err != nil {
			return fail(err)
		}
		say("ready", strconv.Itoa(os.Getpid()), "0")
		_ = cmd.Wait()
		select {}
	case "burn": // uses processor time and memory, then stays unless told to "exit"
		block := make([]byte, burnMemory)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		for spent := time.Duration(0); spent < burnTime; {
			var r unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
				return fail(err)
			}
			spent = time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
		say("ready", strconv.Itoa(os.Getpid()), "0")
		if slices.Contains(args, "exit") {
			return 0
		}
		for { // the memory stays in use
			time.Sleep(time.Hour)
			block[0]++
		}
	case "guard":
		return fail(guard(args))
	case "keeper":
		exe, _ := os.Executable()
		_ = os.Setenv(roleVar, strings.Join(args, " "))
		code, err := Keeper{
			Name: fmt.Sprintf("test-%d", os.Getpid()), Scope: args[1] == "scope",
			Argv: []string{exe}, Env: os.Environ(), Dir: "/",
		}.Run(context.Background())
		say("kept", strconv.Itoa(code))
		return fail(err)
	}
	return fail(fmt.Errorf("unknown role %q", role))
}

// What a burning process uses at least.
const (
	burnMemory = 64 << 20
	burnTime   = 300 * time.Millisecond
)

func say(words ...string) { fmt.Println(strings.Join(words, " ")) }

func fail(err error) int {
	if err != nil {
		say("failed", err.Error())
		return 1
	}
	return 0
}

// reply is what a guard answers.
type reply struct {
	Members []ID
	Left    []ID
	Err     string
	Self    ID
	Method  string
	Cgroup  string
	Zombies int
	Usage   Usage
	By      string
}

// guard is a small guard that obeys lines on its input, and ends its tree when
// its input closes or its parent ends.
func guard(args []string) error {
	parent, err := Identify(os.Getppid())
	if err != nil {
		return err
	}
	kept := len(args) > 1 && args[1] == "kept"
	owner := os.Getpid()
	if kept {
		owner = parent.PID
	}
	tree, err := NewTreeWith(fmt.Sprintf("test-%d", owner), Options{NoCgroup: args[0] == "subreaper", Scope: args[0] == "scope" && !kept})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	lines := make(chan string)
	var waits sync.WaitGroup
	if kept {
		for range 2 {
			if _, err := tree.Start(self("orphan", "setsid", "wait", "stubborn", "listen")); err != nil {
				return err
			}
		}
	} else {
		go func() {
			in := bufio.NewScanner(os.Stdin)
			for in.Scan() {
				lines <- in.Text()
			}
			close(lines)
		}()
	}
	id, err := Self()
	if err != nil {
		return err
	}
	answer(reply{Self: id, Method: tree.Method(), Cgroup: tree.Cgroup()})
	lost := make(chan struct{})
	go func() {
		if parent.Wait(ctx) == nil {
			close(lost)
		}
	}()
	for {
		var line string
		var open bool
		select {
		case <-lost:
		case line, open = <-lines:
		}
		if !open {
			left, err := tree.Kill(ctx)
			if err != nil {
				return fmt.Errorf("%v left: %w", left, err)
			}
			return tree.Close()
		}
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "start":
			cmd := self(strings.Fields(rest)...)
			if script, ok := strings.CutPrefix(rest, "script "); ok {
				cmd = exec.Command(script)
				cmd.Stdout = os.Stdout
			}
			id, err := tree.Start(cmd)
			answer(reply{Self: id, Err: text(err)})
			waits.Go(func() { _ = cmd.Wait() })
		case "await": // until all that was started has ended
			waits.Wait()
			answer(reply{})
		case "usage":
			u, err := tree.Usage()
			answer(reply{Usage: u, Err: text(err)})
		case "limit":
			n, _ := strconv.ParseInt(rest, 10, 64)
			by, err := tree.LimitMemory(n)
			answer(reply{By: by, Err: text(err)})
		case "members":
			m, err := tree.Members()
			all, _ := everyone()
			z := 0
			for _, p := range all {
				if p.zombie && p.PPID == os.Getpid() {
					z++
				}
			}
			answer(reply{Members: m, Err: text(err), Zombies: z})
		case "stop":
			ms := func(i int) time.Duration {
				n, _ := strconv.Atoi(strings.Fields(rest)[i])
				return time.Duration(n) * time.Millisecond
			}
			left, err := tree.Stop(ctx, StopPlan{ms(0), ms(1), ms(2)})
			answer(reply{Left: left, Err: text(err)})
		case "kill":
			left, err := tree.Kill(ctx)
			answer(reply{Left: left, Err: text(err)})
		case "group": // takes another control group for its own
			tree.group = rest
			answer(reply{})
		case "close":
			answer(reply{Err: text(tree.Close())})
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func answer(r reply) {
	b, _ := json.Marshal(r)
	say("answer", string(b))
}

// program is a role that runs beside the test.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	buf []string // lines that were passed over
}

// run starts a role whose output, and that of all its descendants, is one pipe.
func run(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	cmd.Stdout = nil
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = in.Close() // a guard ends its tree and itself
		late := time.AfterFunc(4*time.Minute, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
	})
	return p
}

// line returns the rest of the next line that begins with word.
func (p *program) line(word string) string {
	p.t.Helper()
	for i, l := range p.buf {
		if rest, ok := strings.CutPrefix(l, word+" "); ok {
			p.buf = slices.Delete(p.buf, i, i+1)
			return rest
		}
	}
	for {
		l, err := p.out.ReadString('\n')
		if err != nil {
			p.t.Fatalf("waiting for %q: %v", word, err)
		}
		l = strings.TrimSuffix(l, "\n")
		if rest, ok := strings.CutPrefix(l, word+" "); ok {
			return rest
		}
		if strings.HasPrefix(l, "failed ") {
			p.t.Fatal(l)
		}
		p.buf = append(p.buf, l)
	}
}

// ready waits for n programs to say that they are there.
func (p *program) ready(n int) (pids, ports []int) {
	p.t.Helper()
	for range n {
		var pid, port int
		if _, err := fmt.Sscan(p.line("ready"), &pid, &port); err != nil {
			p.t.Fatal(err)
		}
		pids, ports = append(pids, pid), append(ports, port)
	}
	return pids, ports
}

func (p *program) answer() (r reply) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.line("answer")), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *program) ask(line string) reply {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
	return p.answer()
}

// silence waits until nobody holds the output any more: the program and all
// that came from it have ended.
func (p *program) silence() {
	p.t.Helper()
	if _, err := io.Copy(io.Discard, p.out); err != nil {
		p.t.Fatal(err)
	}
}

func isRoot(t *testing.T) bool {
	t.Helper()
	return os.Geteuid() == 0
}

// mustFree wants a port to be free: of a program with several threads the first
// has ended a moment before the last one lets go of its sockets.
func mustFree(t *testing.T, port int) {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("port %d is still taken: %v", port, err)
		}
	}
}

// mustGone wants processes to end that were told to: their output closes a
// moment before they have.
func mustGone(t *testing.T, pids []int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	for _, pid := range pids {
		id, err := Identify(pid)
		if err == nil {
			err = id.Wait(ctx)
		}
		if err != nil && !errors.Is(err, ErrGone) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
}
