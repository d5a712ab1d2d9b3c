//go:build linux

package e2e

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/keychain/keyring"
)

// marked makes a secret that can be searched for.
func marked() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b)
	return "canary" + hex.EncodeToString(b)
}

// typed runs a command with lines on its standard input.
func (m *machine) typed(stdin string, args ...string) result {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.reeve, args...)
	cmd.Env, cmd.Dir, cmd.Stdin = m.env, m.dir, strings.NewReader(stdin)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// vault adds an agent that gets secrets, and makes a repository with a program
// that proves which it got without showing them.
func (m *machine) vault(pass ...string) (repo string) {
	m.t.Helper()
	args := []string{"providers", "add"}
	for _, name := range pass {
		args = append(args, "--pass", name)
	}
	if r := m.run(append(args, "vault", m.reeve, "demo-agent")...); r.code != 0 {
		m.t.Fatal(r.err)
	}
	repo = m.repo("repo")
	script := "#!/bin/sh\n"
	for _, name := range pass {
		script += fmt.Sprintf("printf '%%s' \"$%s\" | sha256sum | cut -c-64 >>proof\n", name)
	}
	if err := os.WriteFile(filepath.Join(repo, "prove.sh"), []byte(script), 0o755); err != nil {
		m.t.Fatal(err)
	}
	return repo
}

// proven says that the agent's tool had exactly these secrets.
func proven(t *testing.T, repo string, secrets ...string) {
	t.Helper()
	want := ""
	for _, s := range secrets {
		sum := sha256.Sum256([]byte(s))
		want += hex.EncodeToString(sum[:]) + "\n"
	}
	got, err := os.ReadFile(filepath.Join(repo, "proof"))
	if err != nil || string(got) != want {
		t.Errorf("the agent had %q (%v), want %q", got, err, want)
	}
	_ = os.Remove(filepath.Join(repo, "proof"))
}

// TestKeychainStates is case 29: keychain absent, locked or refusing are three
// messages, each with its mend; a mission that needs it waits, also over a
// restart of the service, and goes on by itself; nothing is written in plain
// text.
func TestKeychainStates(t *testing.T) {
	t.Parallel()
	bus, refusing := keyring.Start(t, ""), keyring.Start(t, keyring.Refusing)
	bus.Unlocked()
	refusing.Unlocked()
	m := newMachine(t)
	secret := marked()
	on := func(address string) {
		t.Helper()
		if m.cmd != nil {
			m.signal(syscall.SIGTERM)
		}
		if !m.tryStart("DBUS_SESSION_BUS_ADDRESS=" + address) {
			t.Fatalf("the service did not come up:\n%s", m.logs.text())
		}
	}
	on(bus.Address)
	repo := m.vault("OPENAI_API_KEY")
	if r := m.typed(secret+"\n", "credentials", "set", "OPENAI_API_KEY"); r.code != 0 {
		t.Fatal(r.err)
	}
	if r := must[wire.CredentialListResult](m, "credentials"); r.Keychain.State != "ready" || len(r.Credentials) != 1 || !r.Credentials[0].Ready || r.Credentials[0].In != wire.InKeychain {
		t.Fatalf("%+v", r)
	}

	messages := map[string]string{}
	for _, c := range []struct {
		state, address string
		lock           bool
	}{{"absent", "", false}, {"locked", bus.Address, true}, {"refused", refusing.Address, false}} {
		if c.lock {
			bus.Lock()
		}
		on(c.address)
		v := m.watch()
		list := must[wire.CredentialListResult](m, "credentials", "list")
		k := list.Keychain
		if k.State != c.state || k.Message == "" || k.Fix == "" || messages[k.Message] != "" || list.Credentials[0].Ready || list.Credentials[0].Fix != k.Fix {
			t.Errorf("%s: %+v", c.state, list)
		}
		messages[k.Message] = c.state
		if r := m.run("doctor"); r.code != 1 || !strings.Contains(r.out, k.Message) || !strings.Contains(r.out, k.Fix) {
			t.Errorf("%s: doctor says %d\n%s", c.state, r.code, r.out)
		}
		other := marked()
		if r := m.typed(other+"\n", "credentials", "set", "GEMINI_API_KEY"); r.code != 1 || !strings.Contains(r.err, k.Message) || strings.Contains(r.err, other) {
			t.Errorf("%s: set exits with %d\n%s", c.state, r.code, r.err)
		}
		m.noSecrets(t, other)

		p := m.demoTerms(repo, "demo:command sh prove.sh")
		p.Provider = "acp:vault"
		mi := v.begin(p)
		waits := v.phase(mi.ID, "blocked")
		if !strings.Contains(waits.BlockedBy, k.Message) || !strings.Contains(waits.BlockedBy, k.Fix) {
			t.Errorf("%s: blocked by %q", c.state, waits.BlockedBy)
		}
		if guards := m.glob("attempts/" + mi.Attempt + "/*"); len(guards) > 0 {
			t.Errorf("%s: something was started: %v", c.state, guards)
		}
		v.wait("what is wanted", func() bool {
			return len(v.credentials.Wanted) == 1 && v.credentials.Wanted[0] == "OPENAI_API_KEY"
		})
		if c.state == "absent" {
			on("") // it waits in the next service as well
			v.wait("the next service", func() bool { return v.service.Generation == 3 && len(v.credentials.Wanted) == 1 })
			v.phase(mi.ID, "blocked")
		}
		if c.lock {
			bus.Unlocked() // nobody tells the service
		} else {
			do[wire.CredentialListResult](v, wire.MethodCredentialHand, wire.CredentialHandParams{Secrets: map[string]string{"OPENAI_API_KEY": secret}})
		}
		ask, _ := v.asked(mi.ID, "prove.sh")
		v.answer(ask, wire.AnswerParams{Allow: true})
		v.settledButKeychain(v.phase(mi.ID, "completed", "stopped"))
		proven(t, repo, secret)
		v.f.Close()
	}
	m.noSecrets(t, secret)
}

// settledButKeychain is settled where doctor has something to say about the
// keychain.
func (v *view) settledButKeychain(m wire.Mission) {
	v.m.t.Helper()
	if m.EndReason != "scope_done" || m.CheckoutOwned {
		v.m.t.Errorf("it ended as %s, owned=%v", m.EndReason, m.CheckoutOwned)
	}
	for _, c := range do[wire.CheckResult](v, wire.MethodServiceCheck, nil).Checks {
		if !c.OK && c.Name != "keychain" {
			v.m.t.Errorf("doctor: %s: %s", c.Name, c.Message)
		}
	}
}

// TestWaitingForACredentialEnds: a mission that waits can be stopped, and ends
// at its deadline; nothing of it ever ran.
func TestWaitingForACredentialEnds(t *testing.T) {
	t.Parallel()
	bus := keyring.Start(t, "")
	bus.Unlocked()
	m := newMachine(t)
	if !m.tryStart("DBUS_SESSION_BUS_ADDRESS=" + bus.Address) {
		t.Fatal(m.logs.text())
	}
	repo := m.vault("OPENAI_API_KEY")
	if r := m.typed(marked()+"\n", "credentials", "set", "OPENAI_API_KEY"); r.code != 0 {
		t.Fatal(r.err)
	}
	bus.Lock()
	v := m.watch()
	p := m.demoTerms(repo, "demo:command sh prove.sh")
	p.Provider = "acp:vault"
	first := do[wire.MissionStartResult](v, wire.MethodMissionStart, p)
	for _, want := range []string{"OPENAI_API_KEY (secret, from the keychain)", "could read its secrets: OPENAI_API_KEY."} {
		if !strings.Contains(string(first.Approval.Subject), want) {
			t.Errorf("the approval does not say %q: %s", want, first.Approval.Subject)
		}
	}
	v.answer(first.Approval, wire.AnswerParams{Allow: true})
	id := first.Mission.ID
	v.phase(id, "blocked")
	if _, err := try[wire.MissionResult](v, wire.MethodMissionResume, wire.MissionParams{ID: id}); wire.CodeOf(err) != wire.CodeConflict || !strings.Contains(err.Error(), "by itself") {
		t.Errorf("resume: %v", err)
	}
	end := do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: id}).Mission
	if end.Phase != "stopped" || end.CheckoutOwned {
		t.Errorf("stopped: %s, owned=%v", end.Phase, end.CheckoutOwned)
	}
	second := v.begin(p)
	v.phase(second.ID, "blocked")
	m.setClock(16 * 60e9)
	if end := v.phase(second.ID, "stopped"); end.EndReason != "deadline" {
		t.Errorf("ended as %s", end.EndReason)
	}
	if guards := m.glob("attempts/*"); len(guards) > 0 {
		t.Errorf("something was started: %v", guards)
	}
	v.wait("nothing is wanted", func() bool { return len(v.credentials.Wanted) == 0 })
}
