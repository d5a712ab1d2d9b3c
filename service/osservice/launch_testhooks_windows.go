//go:build testhooks

package osservice

import (
	"strconv"
	"strings"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// testKey is where a test says who is logged on: the services of the system get
// no environment from it.
const testKey, testSessions = `Software\ReeveTest`, "Sessions"

// While the key is there, this program's own user is in the sessions that it
// names, and nobody else is anywhere.
func init() {
	sessionsNow = func() (out []session) {
		ids, ok := saidSessions()
		if !ok {
			return present()
		}
		for _, id := range ids {
			if token, user, err := ownToken(); err == nil {
				_ = token.Close()
				out = append(out, session{id, user})
			}
		}
		return out
	}
	userOf = func(id uint32) (windows.Token, string, error) {
		if _, ok := saidSessions(); !ok {
			return userIn(id)
		}
		return ownToken()
	}
}

func saidSessions() (ids []uint32, ok bool) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, testKey, registry.QUERY_VALUE)
	if err != nil {
		return nil, false
	}
	defer k.Close()
	text, _, err := k.GetStringValue(testSessions)
	for _, word := range strings.Fields(text) {
		if id, err := strconv.ParseUint(word, 10, 32); err == nil {
			ids = append(ids, uint32(id))
		}
	}
	return ids, err == nil
}

func ownToken() (windows.Token, string, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return 0, "", err
	}
	var own, primary windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), windows.MAXIMUM_ALLOWED, &own); err != nil {
		return 0, "", err
	}
	defer own.Close()
	err = windows.DuplicateTokenEx(own, windows.MAXIMUM_ALLOWED, nil, windows.SecurityImpersonation, windows.TokenPrimary, &primary)
	return primary, user.User.Sid.String(), err
}
