package sock

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What was said is answered by the one listener, and both ends know each other.
func TestPipe(t *testing.T) {
	state := t.TempDir()
	getenv := func(name string) string { return map[string]string{"REEVE_STATE": state}[name] }
	service, err := Path(getenv)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{service, Beside(service, "desktop"), filepath.Join(state, "run", "a-1.sock"), filepath.Join(state, "run", "a-2.sock")} {
		if _, err := Dial(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("nobody listens on %s: %v", path, err)
		}
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		var used *InUseError
		if second, err := Listen(strings.ToUpper(path)); !errors.As(err, &used) {
			t.Fatalf("a second listener on %s: %v, %v", path, second, err)
		}
		for range 3 {
			talk(t, l, path)
		}
		if err := l.Close(); err != nil {
			t.Errorf("close %s: %v", path, err)
		}
	}
	if l, err := Listen(service); err != nil {
		t.Errorf("after the first ended: %v", err)
	} else {
		_ = l.Close()
	}
	if _, err := Listen("a.sock"); err == nil {
		t.Error("a relative path was taken")
	}
}

// talk has one client speak to l.
func talk(t *testing.T, l *Listener, path string) {
	t.Helper()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		defer c.Close()
		p, err := PeerOf(c)
		if err == nil && (p.PID != os.Getpid() || !SameUser(p)) {
			err = errors.New("the client is taken for another: " + p.UID)
		}
		line, wrong := bufio.NewReader(c).ReadString('\n')
		if err == nil && line == "hello\n" {
			_, wrong = c.Write([]byte("good day\n"))
		}
		served <- errors.Join(err, wrong)
	}()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "good day\n" {
		t.Fatalf("the answer: %q, %v", line, err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
}
