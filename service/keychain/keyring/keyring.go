//go:build linux

// Package keyring runs a real session bus and a real gnome-keyring for tests, in
// a directory of their own.
package keyring

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// Bus is a session bus that ends with the test.
type Bus struct {
	Address string // for DBUS_SESSION_BUS_ADDRESS
	Dir     string // of all that the keyring writes

	t      testing.TB
	daemon *exec.Cmd
}

// policies of a bus, beside that everybody may talk to everybody. None of them
// starts a service by itself.
const config = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>%s</policy></busconfig>
`

// Refusing is a policy of a bus that lets nobody talk to the keyring.
const Refusing = `<deny send_destination="org.freedesktop.secrets"/>`

// Start starts a bus with one more policy. It skips the test where this machine
// lacks what it takes.
func Start(t testing.TB, policy string) *Bus {
	t.Helper()
	for _, name := range []string{"dbus-daemon", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	dir, err := os.MkdirTemp("", "bus") // sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &Bus{t: t, Dir: dir}
	socket := filepath.Join(dir, "bus")
	file := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, socket, policy), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("dbus-daemon", "--config-file="+file, "--nofork", "--print-address")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(cmd) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the bus did not come up: %v", err)
	}
	b.Address = strings.TrimSpace(line)
	return b
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// Unlocked starts the keyring service with an open login keyring, which it makes
// the first time.
func (b *Bus) Unlocked() { b.t.Helper(); b.start("--unlock") }

// Locked starts the keyring service and opens nothing: the login keyring is
// locked, or there is none yet.
func (b *Bus) Locked() { b.t.Helper(); b.start() }

func (b *Bus) start(args ...string) {
	b.t.Helper()
	b.Quit()
	cmd := exec.Command("gnome-keyring-daemon", append([]string{"--foreground", "--components=secrets"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.Dir, "XDG_DATA_HOME=" + filepath.Join(b.Dir, "data"), "XDG_RUNTIME_DIR=" + b.Dir, "DBUS_SESSION_BUS_ADDRESS=" + b.Address}
	cmd.Stdin = strings.NewReader("open sesame")
	if err := os.MkdirAll(filepath.Join(b.Dir, "data", "keyrings"), 0o700); err != nil {
		b.t.Fatal(err)
	}
	conn := b.connect()
	defer conn.Close()
	owner := make(chan *dbus.Signal, 16)
	conn.Signal(owner)
	if err := conn.AddMatchSignal(dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, "org.freedesktop.secrets")); err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.daemon = cmd
	b.t.Cleanup(b.Quit)
	timeout := time.After(4 * time.Minute)
	for {
		select {
		case s := <-owner:
			if s != nil && s.Name == "org.freedesktop.DBus.NameOwnerChanged" && s.Body[2] != "" {
				return
			}
		case <-timeout:
			b.t.Fatal("gnome-keyring did not come up")
		}
	}
}

// Quit ends the keyring service.
func (b *Bus) Quit() {
	if b.daemon != nil {
		end(b.daemon)
		b.daemon = nil
	}
}

// Hang keeps the keyring service from answering, until Wake.
func (b *Bus) Hang() { b.signal(syscall.SIGSTOP) }

// Wake undoes Hang.
func (b *Bus) Wake() { b.signal(syscall.SIGCONT) }

func (b *Bus) signal(s os.Signal) {
	b.t.Helper()
	if err := b.daemon.Process.Signal(s); err != nil {
		b.t.Fatal(err)
	}
}

// Lock locks the login keyring while the service runs.
func (b *Bus) Lock() {
	b.t.Helper()
	conn := b.connect()
	defer conn.Close()
	err := conn.Object("org.freedesktop.secrets", "/org/freedesktop/secrets").
		Call("org.freedesktop.Secret.Service.Lock", 0, []dbus.ObjectPath{"/org/freedesktop/secrets/collection/login"}).Err
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *Bus) connect() *dbus.Conn {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	b.t.Cleanup(cancel)
	conn, err := dbus.Connect(b.Address, dbus.WithContext(ctx))
	if err != nil {
		b.t.Fatal(err)
	}
	return conn
}
