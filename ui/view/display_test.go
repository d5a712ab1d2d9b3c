package view

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestCheckDisplay(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has DISPLAY")
	}
	env := func(display, wayland string) func(string) string {
		return func(name string) string {
			return map[string]string{"DISPLAY": display, "WAYLAND_DISPLAY": wayland}[name]
		}
	}
	for _, c := range []struct{ display, want string }{
		{"", "no display here"}, {"nonsense", "names no display"}, {":x", "names no display"}, {":-1", "names no display"},
		{":47119", "can't be reached"}, {"unix:47119.0", "can't be reached"},
	} {
		if err := CheckDisplay(env(c.display, "")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.display, err, c.want)
		}
	}
	if err := CheckDisplay(env("", "wayland-0")); err != nil {
		t.Errorf("wayland: %v", err)
	}
	n := fmt.Sprint(20000 + os.Getpid()%20000) // the names are for the whole machine
	l, err := net.Listen("unix", "@/tmp/.X11-unix/X"+n)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := CheckDisplay(env(":"+n+".0", "")); err != nil {
		t.Errorf("a display that listens: %v", err)
	}
}
