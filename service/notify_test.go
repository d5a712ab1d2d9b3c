package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestManagerOf(t *testing.T) {
	pid := fmt.Sprint(os.Getpid())
	for name, c := range map[string]struct {
		env  map[string]string
		want manager
	}{
		"nobody":           {nil, manager{}},
		"no socket":        {map[string]string{"WATCHDOG_USEC": "6000000"}, manager{}},
		"ready only":       {map[string]string{"NOTIFY_SOCKET": "/n"}, manager{socket: "/n"}},
		"watched":          {map[string]string{"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "6000000", "WATCHDOG_PID": pid}, manager{"/n", 6 * time.Second}},
		"another's":        {map[string]string{"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "6000000", "WATCHDOG_PID": "1" + pid}, manager{socket: "/n"}},
		"not a number":     {map[string]string{"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "soon"}, manager{socket: "/n"}},
		"no time at all":   {map[string]string{"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"}, manager{socket: "/n"}},
		"without whose id": {map[string]string{"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "3000"}, manager{"@n", 3 * time.Millisecond}},
	} {
		if got := managerOf(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A service that is well gives signs of life, and one that is not gives none.
func TestWatchdog(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sd_notify on Windows")
	}
	path := filepath.Join(t.TempDir(), "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hear := func() string {
		t.Helper()
		b := make([]byte, 512)
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	m := manager{socket: path, every: 3 * time.Millisecond}
	m.tell("READY=1", "STATUS=it\nworks \x00")
	if got := hear(); got != "READY=1\nSTATUS=it works \x00" {
		t.Errorf("it said %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	looks := make(chan error) // what each look at the service comes to
	go func() {
		defer close(ended)
		m.watchdog(ctx, func(context.Context) error { return <-looks })
	}()
	looks <- nil
	if got := hear(); got != "WATCHDOG=1" {
		t.Errorf("it said %q", got)
	}
	looks <- errors.New("it hangs")
	looks <- errors.New("it hangs") // so the first one came to nothing
	m.tell("END=1")
	if got := hear(); got != "END=1" {
		t.Errorf("it said %q", got)
	}
	cancel()
	select {
	case looks <- errors.New("the last one"):
	case <-ended:
	}
	<-ended
	manager{}.tell("READY=1") // to nobody
	manager{}.watchdog(t.Context(), nil)
}
