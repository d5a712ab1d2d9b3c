package keychain

import (
	"context"
	"errors"
	"os/exec"
	"strconv"

	keyring "github.com/zalando/go-keyring"
)

// most is how many bytes a secret may have, because the program `security` takes
// 4,096 in all, and the secret as base64.
const most = 2900

func look(context.Context) error { return nil }

// probe asks for what is not there.
func probe(service string) error {
	_, err := keyring.Get(service, "-")
	return err
}

// classify knows the end of the program `security`, which is the low byte of
// the system's error.
func classify(err error) error {
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return &Error{Absent, "There is no keychain here: /usr/bin/security is missing.", "Keep secrets in the encrypted file."}
	case !errors.As(err, &exit):
		return refused("it can't be asked")
	}
	switch exit.ExitCode() {
	case 36: // errSecInteractionNotAllowed
		return &Error{Locked, "The keychain is locked.", "Unlock it in Keychain Access, or run `security unlock-keychain` in a terminal."}
	case 37, 50: // errSecNoDefaultKeychain, errSecNoSuchKeychain
		return &Error{Absent, "There is no default keychain.", "Make one in Keychain Access, or keep secrets in the encrypted file."}
	}
	return refused("exit status " + strconv.Itoa(exit.ExitCode()))
}
