//go:build !darwin && !windows

package keychain

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"
)

// most is how many bytes a secret may have: what a message of the bus carries
// with ease.
const most = 64 << 10

const (
	secrets    = "org.freedesktop.secrets"
	root       = dbus.ObjectPath("/org/freedesktop/secrets")
	login      = dbus.ObjectPath("/org/freedesktop/secrets/collection/login")
	get        = "org.freedesktop.DBus.Properties.Get"
	service    = "org.freedesktop.Secret.Service"
	collection = "org.freedesktop.Secret.Collection"
)

// address tells the session bus, "" if there is none. Without one the libraries
// would start a bus, which nobody would end.
func address() string {
	if a := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); a != "" && !strings.HasPrefix(a, "autolaunch:") {
		return a
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return ""
	}
	path := filepath.Join(dir, "bus")
	if st, err := os.Stat(path); err != nil || st.Mode().Type() != fs.ModeSocket {
		return ""
	}
	return "unix:path=" + dbus.EscapeBusAddressValue(path)
}

// look finds out, on a connection of its own, whether the secret service could
// be asked without hanging or bothering anybody: go-keyring asks a person to
// unlock what is locked, and waits for ever when nobody is there.
func look(ctx context.Context) error {
	a := address()
	if a == "" {
		return &Error{Absent, "There is no keychain here: this program has no session bus.",
			"Log in to a desktop, let the Reeve desktop hand secrets over, or keep them in the encrypted file."}
	}
	// go-keyring looks for it elsewhere.
	if err := os.Setenv("DBUS_SESSION_BUS_ADDRESS", a); err != nil {
		return err
	}
	conn, err := dbus.Connect(a, dbus.WithContext(ctx))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &Error{Absent, "There is no keychain here: the session bus can't be reached.",
			"Mend DBUS_SESSION_BUS_ADDRESS or log in anew, let the Reeve desktop hand secrets over, or keep them in the encrypted file."}
	}
	defer conn.Close()
	at, err := usual(ctx, conn)
	if err != nil {
		return onBus(ctx, err)
	}
	if at == "/" {
		return &Error{Absent, "There is no keychain yet: the keyring service has no default keyring.",
			"Make one, with the name Login, in the passwords program of your desktop; logging in with a password makes it, too."}
	}
	var locked dbus.Variant
	if err := conn.Object(secrets, at).CallWithContext(ctx, get, 0, collection, "Locked").Store(&locked); err != nil {
		return onBus(ctx, err)
	}
	if is, ok := locked.Value().(bool); ok && is {
		return &Error{Locked, "The keychain is locked.",
			"Unlock it in the passwords program of your desktop, or log in with your password."}
	}
	return nil
}

// usual tells the collection that go-keyring uses, "/" if there is none.
func usual(ctx context.Context, conn *dbus.Conn) (dbus.ObjectPath, error) {
	var v dbus.Variant
	if err := conn.Object(secrets, root).CallWithContext(ctx, get, 0, service, "Collections").Store(&v); err != nil {
		return "", err
	}
	if all, ok := v.Value().([]dbus.ObjectPath); ok && slices.Contains(all, login) {
		return login, nil
	}
	var at dbus.ObjectPath
	err := conn.Object(secrets, root).CallWithContext(ctx, service+".ReadAlias", 0, "default").Store(&at)
	return at, err
}

// onBus explains an error of the bus or of the service on it.
func onBus(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return classify(err)
}

func classify(err error) error {
	var e dbus.Error
	var p *dbus.Error
	if errors.As(err, &p) {
		e = *p
	} else if !errors.As(err, &e) {
		if strings.HasPrefix(err.Error(), "failed to unlock") {
			return &Error{Locked, "The keychain is locked, and was not unlocked.",
				"Unlock it in the passwords program of your desktop, or log in with your password."}
		}
		return refused("an error on the session bus")
	}
	name := strings.TrimPrefix(e.Name, "org.freedesktop.DBus.Error.")
	switch {
	case name == "ServiceUnknown", name == "NameHasNoOwner", strings.HasPrefix(name, "Spawn."):
		return &Error{NoService, "There is a session bus, but no program on it that keeps secrets.",
			"Install and start one, such as gnome-keyring or KWallet, or keep secrets in the encrypted file."}
	case name == "NoReply", name == "Timeout", name == "TimedOut":
		return slow()
	case e.Name == "org.freedesktop.Secret.Error.IsLocked":
		return &Error{Locked, "The keychain is locked.", "Unlock it in the passwords program of your desktop, or log in with your password."}
	}
	return refused(name)
}

// probe has nothing to add to look.
func probe(string) error { return nil }
