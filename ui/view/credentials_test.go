package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// keeper is a service that keeps secrets by name.
func keeper(r *rig, list *wire.CredentialListResult) {
	r.reply = func(method string, params any) (any, error) {
		r.mu.Lock() // calls come from tasks
		defer r.mu.Unlock()
		switch p := params.(type) {
		case wire.CredentialHandParams:
			for i, c := range list.Credentials {
				if _, ok := p.Secrets[c.Name]; ok {
					list.Credentials[i].Ready, list.Credentials[i].Problem = true, ""
				}
				list.Wanted = slices.DeleteFunc(list.Wanted, func(n string) bool { return n == c.Name && list.Credentials[i].Ready })
			}
		case wire.CredentialSetParams:
			if p.Name == "BAD" {
				return nil, wire.Errorf(wire.CodeInvalidParams, "no agent knows BAD")
			}
			list.Credentials = append(list.Credentials, wire.Credential{Name: p.Name, In: p.In, Ready: true})
		case wire.CredentialRemoveParams:
			list.Credentials = slices.DeleteFunc(list.Credentials, func(c wire.Credential) bool { return c.Name == p.Name })
		}
		if strings.HasPrefix(method, "credential.") {
			out := *list
			out.Credentials, out.Wanted = slices.Clone(list.Credentials), slices.Clone(list.Wanted)
			return out, nil
		}
		return nil, nil
	}
}

func (r *rig) handed() []wire.CredentialHandParams {
	var out []wire.CredentialHandParams
	for _, p := range r.called(wire.MethodCredentialHand) {
		out = append(out, p.(wire.CredentialHandParams))
	}
	return out
}

// What a mission waits for is handed over without anybody's doing; what the
// keychain does not give is asked for again after a while.
func TestHandOver(t *testing.T) {
	r := newRig(t, kit.Light)
	list := secrets()
	list.Wanted = []string{"ANTHROPIC_API_KEY", "GEMINI_API_KEY"}
	keeper(r, &list)
	chain := map[string]string{"ANTHROPIC_API_KEY": "sk-ant-1"}
	asked := map[string]int{}
	r.o.Secret = func(_ context.Context, name string) (string, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		asked[name]++
		if s, ok := chain[name]; ok {
			return s, nil
		}
		return "", errors.New("the keychain has no such secret")
	}
	in := newInbox(r.desk)
	in.State(client.State{Phase: client.Connected})
	r.until("the secret handed over", func() bool { return len(r.handed()) == 1 && !r.credentials.handing })
	if p := r.handed()[0]; !maps.Equal(p.Secrets, chain) || p.Passphrase != "" {
		t.Errorf("handed over %v", slices.Collect(maps.Keys(p.Secrets)))
	}
	r.changed()
	r.hop()
	if n := len(r.called(wire.MethodCredentialList)); n != 1 || len(r.handed()) != 1 || asked["OPENAI_API_KEY"] != 0 {
		t.Errorf("listed %d times, asked %v", n, asked)
	}
	r.mu.Lock()
	chain["GEMINI_API_KEY"] = "g-1" // unlocked
	r.mu.Unlock()
	r.clock = r.clock.Add(handEvery)
	r.changed()
	r.until("the other one", func() bool { return len(r.handed()) == 2 && !r.credentials.handing })
	if p := r.handed()[1]; len(p.Secrets) != 1 || p.Secrets["GEMINI_API_KEY"] != "g-1" {
		t.Errorf("handed over %v", slices.Collect(maps.Keys(p.Secrets)))
	}
	// A service that began anew has forgotten them, and says so.
	know(r, wire.TopicService, wire.Service{Generation: 15})
	r.mu.Lock()
	list = secrets()
	r.mu.Unlock()
	in.Delta(wire.TopicService, wire.Event{Event: wire.EvCredentials, Topic: wire.TopicService, Data: raw(t, secrets())})
	r.until("handed over again", func() bool { return len(r.handed()) == 3 })
}

func TestNothingToHandOver(t *testing.T) {
	r := newRig(t, kit.Light)
	list := secrets()
	keeper(r, &list)
	r.o.Secret = func(context.Context, string) (string, error) { return "", errors.New("locked") }
	newInbox(r.desk).State(client.State{Phase: client.Connected})
	r.until("a look into the keychain", func() bool { return r.credentials.known && !r.credentials.handed.IsZero() && !r.credentials.handing })
	if len(r.handed()) > 0 || r.credentials.problem != "" {
		t.Errorf("handed over %d, %q", len(r.handed()), r.credentials.problem)
	}
}

func cardRig(t *testing.T) (*rig, *credentialsCard) {
	t.Helper()
	r := newRig(t, kit.Light)
	r.st.SetLink(model.Running, "")
	list := secrets()
	list.Keychain, list.Wanted = wire.Keychain{State: "ready"}, nil
	keeper(r, &list)
	r.tookCredentials(list)
	return r, newCredentialsCard(r.desk)
}

// drawn is the card as it is now.
func drawn(c *credentialsCard) map[string][]*kit.Button { return buttons(kit.Col(0, c.draw()...)) }

func TestSecretIsKept(t *testing.T) {
	r, c := cardRig(t)
	drawn(c)
	test.Tap(c.add)
	c.name.SetText("BAD")
	c.secret.SetText("sk-1")
	test.Tap(c.save)
	r.until("the refusal", func() bool { return c.problem != "" })
	if !c.form || c.secret.Text != "sk-1" || c.problem != "No agent knows BAD." {
		t.Errorf("form %v, %q, %q", c.form, c.secret.Text, c.problem)
	}
	c.name.SetText("OPENAI_ORG_KEY")
	c.secret.OnSubmitted("")
	r.until("the secret", func() bool { return !c.form })
	got := r.called(wire.MethodCredentialSet)[1].(wire.CredentialSetParams)
	if got != (wire.CredentialSetParams{Name: "OPENAI_ORG_KEY", Secret: "sk-1", In: wire.InKeychain}) {
		t.Errorf("sent %+v", got.Name)
	}
	if c.secret.Text != "" || len(r.credentials.list.Credentials) != 4 {
		t.Error("the secret still stands in the field, or is not listed")
	}
	if text := fmt.Sprintf("%+v %+v", r.credentials, c.key()); strings.Contains(text, "sk-1") {
		t.Error("the program keeps the secret")
	}
	// Without a keychain the file is offered, and needs its passphrase.
	r.credentials.list.Keychain = wire.Keychain{State: "absent", Message: "There is none."}
	c.edit("OPENAI_API_KEY")
	c.secret.SetText("sk-2")
	if c.in.Chosen() != 1 || !c.save.Disabled() {
		t.Error("a file without a passphrase")
	}
	c.phrase.SetText("correct horse")
	test.Tap(c.save)
	r.until("the secret in the file", func() bool { return !c.form })
	if got := r.called(wire.MethodCredentialSet)[2].(wire.CredentialSetParams); got.In != wire.InFile || got.Passphrase != "correct horse" || got.Name != "OPENAI_API_KEY" {
		t.Errorf("sent %s in %s", got.Name, got.In)
	}
	if c.phrase.Text != "" {
		t.Error("the passphrase still stands in the field")
	}
}

func TestSecretIsTypedHidden(t *testing.T) {
	_, c := cardRig(t)
	for _, e := range []*entry{c.secret, c.phrase, c.unlock} {
		if !e.Password {
			t.Errorf("%q is shown as it is typed", e.PlaceHolder)
		}
	}
	drawn(c)
	test.Tap(c.add)
	c.secret.SetText("sk-1")
	c.secret.TypedKey(&fyne.KeyEvent{Name: fyne.KeyEscape})
	if c.form || c.secret.Text != "" {
		t.Error("Escape leaves the secret in the field")
	}
}

func TestRemovingASecretAsksFirst(t *testing.T) {
	r, c := cardRig(t)
	remove := drawn(c)["Remove…"]
	if len(remove) != 3 {
		t.Fatalf("%d can be removed", len(remove))
	}
	test.Tap(remove[1])
	drawn(c)
	if c.question != "OPENAI_API_KEY" || len(r.called(wire.MethodCredentialRemove)) > 0 {
		t.Fatalf("asks about %q", c.question)
	}
	test.Tap(c.keep)
	if c.question != "" {
		t.Error("keeping does not take the question back")
	}
	test.Tap(drawn(c)["Remove…"][1])
	test.Tap(drawn(c)["Remove it"][0])
	r.until("its end", func() bool { return len(r.credentials.list.Credentials) == 2 })
}

func TestFileIsUnlocked(t *testing.T) {
	r, c := cardRig(t)
	drawn(c)
	if c.unlock.SetText("correct horse"); c.open.Disabled() {
		t.Fatal("it can't be unlocked")
	}
	test.Tap(c.open)
	r.until("the file open", func() bool { return len(r.handed()) == 1 && c.busy == "" })
	if p := r.handed()[0]; p.Passphrase != "correct horse" || len(p.Secrets) > 0 || c.unlock.Text != "" {
		t.Error("the passphrase was not sent, or still stands there")
	}
}

// What the service tells of credentials reaches the page as it comes.
func TestCredentialsEvent(t *testing.T) {
	r := newRig(t, kit.Light)
	in := newInbox(r.desk)
	in.Delta(wire.TopicService, wire.Event{Event: wire.EvCredentials, Data: json.RawMessage(`{"credentials":[{"name":"A"}]}`)})
	r.hop()
	if len(r.credentials.list.Credentials) != 1 || !r.credentials.known {
		t.Errorf("%+v", r.credentials)
	}
	r.st.SetLink(model.NoService, "")
	in.Delta(wire.TopicService, wire.Event{Event: wire.EvCredentials, Data: json.RawMessage(`[]`)})
	r.hop()
	if len(r.credentials.list.Credentials) != 1 {
		t.Error("what can't be read replaced what is known")
	}
}
