package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	// scopeSuffix ends the name of a scope that was made here.
	scopeSuffix = ".scope"
	// ctlGroup holds guard and keeper, workGroup what they look after. Nobody
	// stays in the scope's own group: controllers are enabled only in groups
	// without processes, and a memory limit must not end the guard.
	ctlGroup, workGroup = "ctl", "work"
	// scopeWait bounds the whole talk with the user manager.
	scopeWait = 5 * time.Second
	// ownerWait is how long a manager that has just started may take to be known
	// by its name on the bus.
	ownerWait = 3 * time.Second
	// scopeStop is how long the manager waits, when a person stops the scope or
	// logs out, before it kills: a guard needs 8 s to end its tree.
	scopeStop = 12 * time.Second
)

// enterScope has the systemd user manager move this process into a scope of
// its own, which no longer ends with the service that this process was started
// by, and goes on into ctlGroup there. The manager forgets the scope when it
// is empty. After an error the process may be in the scope or not; it can do
// without.
func enterScope(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), scopeWait)
	defer cancel()
	unit := groupPrefix + name + scopeSuffix
	if err := startScope(ctx, unit, name); err != nil {
		return fmt.Errorf("make the scope %s: %w", unit, err)
	}
	dir, path, err := ownGroup()
	if err != nil {
		return err
	}
	if filepath.Base(path) != unit {
		return fmt.Errorf("make the scope %s: this process is in %s", unit, path)
	}
	ctl := filepath.Join(dir, ctlGroup)
	if err := os.Mkdir(ctl, 0o755); err != nil {
		return err
	}
	if err := control(ctl, "cgroup.procs", "0"); err != nil {
		return err
	}
	for _, controller := range []string{"memory", "pids", "cpu"} {
		// Which ones were handed down differs; LimitMemory says what it got.
		_ = control(dir, "cgroup.subtree_control", "+"+controller)
	}
	return nil
}

type unitProperty struct {
	Name  string
	Value dbus.Variant
}

const managerName = "org.freedesktop.systemd1"

// awaitManager returns once the manager has its name on the bus. It lives before
// it has, and what it starts at log-on may be sooner; where none lives there is
// nothing to wait for.
func awaitManager(ctx context.Context, conn *dbus.Conn, signals <-chan *dbus.Signal) error {
	if _, err := os.Stat(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd", "private")); err != nil {
		return nil // the first call says that nobody is there
	}
	ctx, cancel := context.WithTimeout(ctx, ownerWait)
	defer cancel()
	const bus = "org.freedesktop.DBus"
	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(bus), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, managerName)); err != nil {
		return err
	}
	var has bool
	if err := conn.BusObject().CallWithContext(ctx, bus+".NameHasOwner", 0, managerName).Store(&has); err != nil {
		return err
	}
	for !has {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the user manager lives and is not on the bus: %w", ctx.Err())
		case sig, open := <-signals:
			if !open {
				return errors.New("the bus closed the connection")
			}
			has = sig.Name == bus+".NameOwnerChanged" && len(sig.Body) == 3 && sig.Body[0] == managerName && sig.Body[2] != ""
		}
	}
	return nil
}

// startScope asks for the unit and waits until this process was moved.
func startScope(ctx context.Context, unit, name string) error {
	conn, err := userBus(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	removed := make(chan *dbus.Signal, 16)
	conn.Signal(removed)
	const manager = "org.freedesktop.systemd1.Manager"
	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(manager), dbus.WithMatchMember("JobRemoved")); err != nil {
		return err
	}
	if err := awaitManager(ctx, conn, removed); err != nil {
		return err
	}
	systemd := conn.Object(managerName, "/org/freedesktop/systemd1")
	if err := systemd.CallWithContext(ctx, manager+".Subscribe", dbus.FlagNoAutoStart).Err; err != nil {
		return err
	}
	properties := []unitProperty{
		{"Description", dbus.MakeVariant("Reeve worker " + name)},
		// 0 is whoever asks: a number would name another process if the manager
		// lives in another pid namespace.
		{"PIDs", dbus.MakeVariant([]uint32{0})},
		{"Delegate", dbus.MakeVariant(true)},
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
		{"TimeoutStopUSec", dbus.MakeVariant(uint64(scopeStop / time.Microsecond))},
	}
	var auxiliary []struct {
		Name       string
		Properties []unitProperty
	}
	var job dbus.ObjectPath
	if err := systemd.CallWithContext(ctx, manager+".StartTransientUnit", dbus.FlagNoAutoStart,
		unit, "fail", properties, auxiliary).Store(&job); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case sig, open := <-removed:
			if !open {
				return errors.New("the bus closed the connection")
			}
			var id uint32
			var path dbus.ObjectPath
			var of, result string
			if dbus.Store(sig.Body, &id, &path, &of, &result) != nil || path != job {
				continue
			}
			if result != "done" {
				return fmt.Errorf("the user manager says %q", result)
			}
			return nil
		}
	}
}

// userBus connects to the bus of the user's session, if there is one, and
// never starts one.
func userBus(ctx context.Context) (*dbus.Conn, error) {
	socket, err := userBusSocket(os.Getenv)
	if err != nil {
		return nil, err
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(deadline)
	}
	conn, err := dbus.NewConn(nc)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil {
		err = conn.Hello()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// userBusSocket finds the socket of the bus as net.Dial names it. Other kinds
// of addresses would run programs or leave the machine.
func userBusSocket(getenv func(string) string) (string, error) {
	for address := range strings.SplitSeq(getenv("DBUS_SESSION_BUS_ADDRESS"), ";") {
		keys, ok := strings.CutPrefix(address, "unix:")
		if !ok {
			continue
		}
		for kv := range strings.SplitSeq(keys, ",") {
			key, value, _ := strings.Cut(kv, "=")
			value, err := dbus.UnescapeBusAddressValue(value)
			switch {
			case err != nil || value == "":
			case key == "path":
				return value, nil
			case key == "abstract":
				return "@" + value, nil
			}
		}
	}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "bus"), nil
	}
	return "", errors.New("no bus of the user's session is known")
}
