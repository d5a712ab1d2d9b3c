package keychain

import (
	"context"
	"errors"
	"strconv"
	"syscall"

	keyring "github.com/zalando/go-keyring"
)

// most is how many bytes a secret may have in the Credential Manager.
const most = 2560

func look(context.Context) error { return nil }

// probe asks for what is not there.
func probe(service string) error {
	_, err := keyring.Get(service, "-")
	return err
}

func classify(err error) error {
	const noLogonSession, accessDenied = syscall.Errno(1312), syscall.Errno(5)
	var code syscall.Errno
	switch {
	case !errors.As(err, &code):
		return refused("it can't be asked")
	case code == noLogonSession:
		return &Error{Absent, "There is no Credential Manager here: this program has no logon session.",
			"Run the service as yourself, let the Reeve desktop hand secrets over, or keep them in the encrypted file."}
	case code == accessDenied:
		return refused("access denied")
	}
	return refused("error " + strconv.Itoa(int(code)))
}
