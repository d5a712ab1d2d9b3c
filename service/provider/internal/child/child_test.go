package child

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	switch os.Getenv("REEVE_CHILD") {
	case "echo":
		io.Copy(os.Stdout, os.Stdin)
		os.Exit(0)
	case "leave":
		// Leaves a process behind that holds all its pipes.
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{"REEVE_CHILD=hold"}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			os.Exit(9)
		}
		os.Stdout.WriteString("one\nlast")
		os.Stderr.WriteString(strings.Repeat("x", 20<<10) + "end of stderr")
		os.Exit(3)
	case "hold":
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, mode string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"REEVE_CHILD=" + mode}
	p, err := Start(cmd, (*exec.Cmd).Start)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEcho(t *testing.T) {
	p := start(t, "echo")
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if _, err := p.Write([]byte("a line\n" + strings.Repeat("y", 200<<10) + "\n")); err != nil {
			t.Error(err)
		}
	})
	var sizes []int
	p.Lines(func(line []byte) {
		if sizes = append(sizes, len(line)); len(sizes) == 2 {
			p.CloseInput()
		}
	})
	if !slices.Equal(sizes, []int{6, 200 << 10}) {
		t.Errorf("lines of %d bytes", sizes)
	}
	p.End()
	if p.Err() != nil {
		t.Error(p.Err())
	}
}

// What was written before the end is read, though something still holds the
// pipes.
func TestEndWithPipesHeld(t *testing.T) {
	p := start(t, "leave")
	var lines []string
	p.Lines(func(line []byte) { lines = append(lines, string(line)) })
	if !slices.Equal(lines, []string{"one", "last"}) {
		t.Errorf("lines %q", lines)
	}
	p.End()
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) || exit.ExitCode() != 3 {
		t.Errorf("ended with %v", p.Err())
	}
	if tail := p.Tail(); len(tail) != tailSize || !strings.HasSuffix(tail, "xend of stderr") {
		t.Errorf("%d bytes of stderr were kept", len(tail))
	}
	p.CloseInput() // lets the process that holds the pipes end
}

func TestLines(t *testing.T) {
	read := func(s string, limit int) ([]string, error) {
		r := bufio.NewReaderSize(strings.NewReader(s), 16)
		for list := []string(nil); ; {
			line, err := readLine(r, limit)
			if err != nil {
				return list, err
			}
			list = append(list, string(line))
		}
	}
	long := strings.Repeat("z", 100)
	if list, err := read("a\n\n"+long+"\nend", 200); err != io.EOF || strings.Join(list, "|") != "a||"+long+"|end" {
		t.Errorf("%q, %v", list, err)
	}
	if list, err := read("a\n"+long+"\n", 50); !errors.Is(err, errLineTooLong) || len(list) != 1 {
		t.Errorf("%q, %v", list, err)
	}
}

func TestLaunchThatFails(t *testing.T) {
	_, err := Start(exec.Command(os.Args[0]), func(*exec.Cmd) error { return errors.New("no") })
	if err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("started: %v", err)
	}
}
