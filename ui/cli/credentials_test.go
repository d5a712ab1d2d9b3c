package cli

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
)

func (f *fake) CredentialSet(_ context.Context, _ server.Actor, p wire.CredentialSetParams) (wire.CredentialListResult, error) {
	return f.tell(p)
}

func (f *fake) CredentialHand(_ context.Context, _ server.Actor, p wire.CredentialHandParams) (wire.CredentialListResult, error) {
	return f.tell(p)
}

func (f *fake) tell(p any) (wire.CredentialListResult, error) {
	f.mu.Lock()
	f.told = append(f.told, p)
	refuse := f.refuse
	f.mu.Unlock()
	if refuse != nil {
		return wire.CredentialListResult{}, refuse
	}
	return f.CredentialList(context.Background())
}

func (w *world) readSecret() (string, error) {
	if len(w.secrets) == 0 {
		return "", io.EOF
	}
	s := w.secrets[0]
	w.secrets = w.secrets[1:]
	return s, nil
}

func TestCredentials(t *testing.T) {
	v := &fake{
		secrets: []wire.Credential{
			{Name: "ANTHROPIC_API_KEY", Providers: []string{"claude"}, In: wire.InKeychain, Problem: "The keychain is locked.", Fix: "Unlock it."},
			{Name: "OPENAI_API_KEY", Providers: []string{"codex", "acp:mine\x1b[31m"}, In: wire.InFile, Ready: true},
		},
		chain:  wire.Keychain{State: "locked", Message: "The keychain is locked.", Fix: "Unlock it."},
		wanted: []string{"ANTHROPIC_API_KEY"},
	}
	w := newWorld(t, v)
	out, _ := w.expect(ExitOK, "ANTHROPIC_API_KEY", "", "credentials")
	for _, want := range []string{"The keychain is locked. Unlock it.", "OPENAI_API_KEY", "encrypted file", "Missions wait for ANTHROPIC_API_KEY."} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("a name went to the terminal as it is: %q", out)
	}
	w.expect(ExitOK, `"state":"locked"`, "", "credentials", "list", "--json")

	w.stdin = "hidden-1\nignored\n"
	w.expect(ExitOK, "Stored OPENAI_API_KEY.", "", "credentials", "set", "OPENAI_API_KEY")
	w.stdin = "hidden-2\r\na passphrase" // no newline at the end
	w.expect(ExitOK, "Stored OPENAI_API_KEY.", "", "credentials", "set", "OPENAI_API_KEY", "--in", "file")
	w.stdin = "a passphrase\n"
	w.expect(ExitOK, "is open", "", "credentials", "unlock")
	v.with(func() { v.note = "The keychain had none.\x1b[2J" })
	w.expect(ExitOK, "Removed OPENAI_API_KEY.\nThe keychain had none.", "", "credentials", "remove", "OPENAI_API_KEY")
	if out, _ := w.expect(ExitOK, "keychain", "", "credentials"); strings.Contains(out, "OPENAI_API_KEY") {
		t.Errorf("it was not removed:\n%s", out)
	}
	w.terminal, w.secrets = true, []string{"hidden-3", "a passphrase"}
	w.expect(ExitOK, "Stored", "Passphrase of the encrypted file: ", "credentials", "set", "OPENAI_API_KEY", "--in", "file")
	w.terminal = false
	want := []any{
		wire.CredentialSetParams{Name: "OPENAI_API_KEY", Secret: "hidden-1", In: wire.InKeychain},
		wire.CredentialSetParams{Name: "OPENAI_API_KEY", Secret: "hidden-2", In: wire.InFile, Passphrase: "a passphrase"},
		wire.CredentialHandParams{Passphrase: "a passphrase"},
		wire.CredentialSetParams{Name: "OPENAI_API_KEY", Secret: "hidden-3", In: wire.InFile, Passphrase: "a passphrase"},
	}
	v.with(func() {
		if !reflect.DeepEqual(v.told, want) {
			t.Errorf("told %+v", v.told)
		}
		v.told = nil
	})
	w.stdin = ""
	w.expect(ExitUsage, "", "Nothing was entered", "credentials", "set", "OPENAI_API_KEY")
	w.stdin = "hidden\n"
	w.expect(ExitUsage, "", "Nothing was entered", "credentials", "set", "OPENAI_API_KEY", "--in", "file")
	w.expect(ExitUsage, "", "never an argument", "credentials", "set", "OPENAI_API_KEY", "hidden")
	w.expect(ExitUsage, "", "no place for a secret", "credentials", "set", "OPENAI_API_KEY", "--in", "plain")
	w.expect(ExitUsage, "", "takes one name", "credentials", "remove")
	v.with(func() {
		if len(v.told) > 0 {
			t.Errorf("told %+v", v.told)
		}
		v.refuse = wire.Errorf(wire.CodeUnavailable, "The keychain is locked. Unlock it.")
	})
	w.stdin = "hidden\n"
	w.expect(ExitFailed, "", "The keychain is locked.", "credentials", "set", "OPENAI_API_KEY")
}
