package view

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// displayLimit is how long a display may take to accept a connection.
const displayLimit = 3 * time.Second

// CheckDisplay says in a sentence why no window could be opened, or returns
// nil. The toolkit itself ends the program with a trace.
func CheckDisplay(getenv func(string) string) error {
	if runtime.GOOS != "linux" || getenv("WAYLAND_DISPLAY") != "" {
		return nil
	}
	display := getenv("DISPLAY")
	if display == "" {
		return errors.New("there is no display here; start it inside a desktop session, or use the command line: reeve --help")
	}
	host, screen, ok := strings.Cut(strings.TrimPrefix(display, "unix"), ":")
	number, _, _ := strings.Cut(screen, ".")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 {
		return fmt.Errorf("DISPLAY is %q, which names no display; it looks like :0", display)
	}
	addresses := [][2]string{{"tcp", net.JoinHostPort(host, strconv.Itoa(6000+n))}}
	if host == "" {
		path := fmt.Sprintf("/tmp/.X11-unix/X%d", n)
		addresses = [][2]string{{"unix", path}, {"unix", "@" + path}}
	}
	for _, a := range addresses {
		var c net.Conn
		if c, err = net.DialTimeout(a[0], a[1], displayLimit); err == nil {
			return c.Close()
		}
	}
	return fmt.Errorf("the display %s can't be reached (%w); start it inside a desktop session, or use the command line: reeve --help", display, err)
}
