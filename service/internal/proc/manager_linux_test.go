package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/godbus/dbus/v5"
)

// TestManagerComesToTheBus: a user manager that lives is waited for until it is
// known by its name, whichever comes first, and where none lives nobody waits.
func TestManagerComesToTheBus(t *testing.T) {
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("there is no dbus-daemon")
	}
	dir := t.TempDir()
	address := "unix:path=" + filepath.Join(dir, "bus")
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, []byte(`<busconfig><type>session</type><listen>`+address+`</listen><auth>EXTERNAL</auth>
		<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(program, "--config-file="+config, "--nofork", "--nopidfile", "--print-address=1")
	ready, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	manager, asker := connect(t), connect(t)
	signals := make(chan *dbus.Signal, 16)
	asker.Signal(signals)
	if err := awaitManager(t.Context(), asker, signals); err != nil {
		t.Fatalf("where no manager lives: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "systemd", "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- awaitManager(t.Context(), asker, signals) }()
	if reply, err := manager.RequestName(managerName, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	if err := <-done; err != nil {
		t.Errorf("a manager that comes: %v", err)
	}
	if err := awaitManager(t.Context(), asker, signals); err != nil {
		t.Errorf("a manager that is there: %v", err)
	}
}

func connect(t *testing.T) *dbus.Conn {
	t.Helper()
	c, err := userBus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
