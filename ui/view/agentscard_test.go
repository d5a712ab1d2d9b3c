package view

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// ownAgent is one of the person's own.
func ownAgent() wire.Provider {
	return wire.Provider{Name: "acp:mine", Title: "My agent", Own: true, Found: true, Path: "/opt/my agent/bin/agent", Version: "3.1", SignedIn: nil, Entry: &wire.ProviderEntry{
		Name: "mine", Title: "My agent", Command: "/opt/my agent/bin/agent", Args: []string{"--acp", "--config=/home/me/my agent.toml"},
		Fixed: map[string]string{"MY_AGENT_LOG": "warn"}, Pass: []string{"OPENAI_API_KEY"}, Mode: "ask",
	}}
}

// agentsRig is the page of settings in a window, with a service that keeps
// agents; kept says how many.
func agentsRig(t *testing.T) (r *rig, c *agentsCard, kept func() int) {
	t.Helper()
	r = newRig(t, kit.Light)
	busy(t, r)
	list := append(agents(), ownAgent())
	var mu sync.Mutex // calls come from tasks
	r.reply = func(_ string, params any) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		at := func(name string) int {
			return slices.IndexFunc(list, func(p wire.Provider) bool { return p.Name == "acp:"+name })
		}
		switch p := params.(type) {
		case wire.ProviderListParams:
			return wire.ProviderListResult{Providers: slices.Clone(list)}, nil
		case wire.ProviderAddParams:
			for name := range p.Fixed {
				if strings.Contains(name, "TOKEN") {
					return nil, wire.Errorf(wire.CodeInvalidParams, "%s looks like a secret.", name).With(json.RawMessage(`{"field":"env"}`))
				}
			}
			if i := at(p.Name); p.Replace {
				list[i].Entry, list[i].Title = &p.ProviderEntry, p.Title
				return wire.ProviderResult{Provider: list[i]}, nil
			} else if i >= 0 {
				return nil, wire.Errorf(wire.CodeConflict, "There is an agent acp:%s already.", p.Name).With(json.RawMessage(`{"field":"name"}`))
			}
			list = append(list, wire.Provider{Name: "acp:" + p.Name, Title: p.Title, Own: true, Entry: &p.ProviderEntry})
			return wire.ProviderResult{Provider: list[len(list)-1]}, nil
		case wire.ProviderRemoveParams:
			gone := list[at(p.Name)]
			list = slices.DeleteFunc(list, func(x wire.Provider) bool { return x.Name == gone.Name })
			return wire.ProviderResult{Provider: gone}, nil
		}
		return nil, nil
	}
	r.providers.list, r.providers.known = slices.Clone(list), true
	r.main = newMainWindow(r.desk)
	win := test.NewTempWindow(t, r.main.root)
	win.Resize(mainSize)
	r.main.open(pageSettings)
	return r, r.main.settings.agents, func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(list)
	}
}

// page is every button that the page shows.
func page(r *rig) map[string][]*kit.Button { return buttons(r.main.settings.body) }

func (c *agentsCard) typeIn(text map[string]string) {
	for key, s := range text {
		c.fields[key].SetText(s)
	}
}

func focused(o interface {
	fyne.CanvasObject
	fyne.Focusable
}) bool {
	c := fyne.CurrentApp().Driver().CanvasForObject(o)
	return c != nil && c.Focused() == fyne.Focusable(o)
}

func TestAgentIsAdded(t *testing.T) {
	r, c, kept := agentsRig(t)
	test.Tap(c.add)
	if !focused(c.fields[model.AgentName]) {
		t.Error("the focus is not in the first field")
	}
	// What can be said without the service is said at its field, at once.
	typed := map[string]string{model.AgentName: "my agent", model.AgentArgs: "--acp\n--verbose", model.AgentEnv: "A=1\nnonsense"}
	c.typeIn(typed)
	test.Tap(c.save)
	if len(r.called(wire.MethodProviderAdd)) > 0 {
		t.Fatal("what can't be right was sent")
	}
	for field, says := range map[string]string{model.AgentName: "not a valid name", model.AgentCommand: "whole path", model.AgentEnv: "no NAME=VALUE"} {
		if !strings.Contains(c.wrong[field], says) {
			t.Errorf("%s: %q", field, c.wrong[field])
		}
	}
	if !focused(c.fields[model.AgentName]) {
		t.Error("the focus is not where something is wrong")
	}
	c.fields[model.AgentName].SetText("mine")
	if c.wrong[model.AgentName] != "" || c.wrong[model.AgentEnv] == "" {
		t.Errorf("after one was put right: %v", c.wrong)
	}
	// What the service refuses stands at its field, too, and nothing is lost.
	c.typeIn(map[string]string{model.AgentCommand: "my-agent", model.AgentEnv: "MY_TOKEN=x"})
	test.Tap(c.save)
	r.until("the refusal", func() bool { return c.wrong[model.AgentEnv] != "" })
	if !focused(c.fields[model.AgentEnv]) || !c.form || c.fields[model.AgentArgs].Text != typed[model.AgentArgs] || c.fields[model.AgentEnv].Text != "MY_TOKEN=x" {
		t.Errorf("after the refusal: %v, %q", c.form, c.text())
	}
	c.fields[model.AgentEnv].SetText("A=1\nB=2")
	c.fields[model.AgentCommand].OnSubmitted("")
	r.until("the next refusal", func() bool { return strings.Contains(c.wrong[model.AgentName], "already") })
	c.fields[model.AgentName].SetText("mine2")
	test.Tap(c.save)
	r.until("the agent", func() bool { return !c.form && len(r.providers.list) == kept() && kept() == 5 })
	sent := r.called(wire.MethodProviderAdd)
	got := sent[len(sent)-1].(wire.ProviderAddParams)
	want := wire.ProviderEntry{Name: "mine2", Command: "my-agent", Args: []string{"--acp", "--verbose"}, Fixed: map[string]string{"A": "1", "B": "2"}}
	got.ProviderEntry.Pass = nil
	if !reflect.DeepEqual(got.ProviderEntry, want) || got.Replace || got.RequestKey == "" || got.Env["PATH"] != "/bin" {
		t.Errorf("sent %+v", got)
	}
	if c.fields[model.AgentName].Text != "" {
		t.Error("the next form begins with what was typed for this one")
	}
}

func TestAgentIsChanged(t *testing.T) {
	r, c, _ := agentsRig(t)
	change := page(r)["Change…"]
	if len(change) != 1 {
		t.Fatalf("%d agents can be changed", len(change))
	}
	test.Tap(change[0])
	if got := c.text(); !reflect.DeepEqual(got, model.AgentText(*ownAgent().Entry)) || !focused(c.fields[model.AgentCommand]) {
		t.Errorf("the form begins with %q", got)
	}
	c.fields[model.AgentTitle].SetText("Mine")
	// Nothing that goes on beside it takes away what was typed.
	r.probe()
	r.until("the list", func() bool { return !r.providers.asking })
	r.st.SetLink(model.NoService, "")
	r.changed()
	c.fields[model.AgentTitle].TypedKey(&fyne.KeyEvent{Name: fyne.KeyEscape})
	if !c.form || c.fields[model.AgentTitle].Text != "Mine" || !c.save.Disabled() {
		t.Error("what was typed is lost, or can be sent to nobody")
	}
	r.st.SetLink(model.Running, "")
	r.changed()
	test.Tap(c.save)
	r.until("the change", func() bool { return !c.form })
	got := r.called(wire.MethodProviderAdd)[0].(wire.ProviderAddParams)
	want := *ownAgent().Entry
	want.Title = "Mine"
	if !reflect.DeepEqual(got.ProviderEntry, want) || !got.Replace {
		t.Errorf("sent %+v", got)
	}
	r.until("the list to show it", func() bool { return r.providers.list[3].Title == "Mine" && !r.providers.asking })
	// An untouched form goes away with Escape.
	test.Tap(page(r)["Change…"][0])
	c.fields[model.AgentTitle].TypedKey(&fyne.KeyEvent{Name: fyne.KeyEscape})
	if c.form {
		t.Error("Escape does not close an untouched form")
	}
}

// What is typed while the service is asked is a change of what it took.
func TestTypingWhileAnAgentIsSaved(t *testing.T) {
	r, c, _ := agentsRig(t)
	reply, hold := r.reply, make(chan struct{})
	r.mu.Lock()
	r.reply = func(method string, params any) (any, error) {
		if method == wire.MethodProviderAdd {
			<-hold
		}
		return reply(method, params)
	}
	r.mu.Unlock()
	test.Tap(c.add)
	c.typeIn(map[string]string{model.AgentName: "new", model.AgentCommand: "new-agent"})
	test.Tap(c.save)
	c.fields[model.AgentMode].SetText("ask")
	close(hold)
	r.until("the agent", func() bool { return c.busy == "" })
	if !c.form || c.fields[model.AgentMode].Text != "ask" || !c.typed() || c.changing == nil || c.changing.Name != "new" {
		t.Fatalf("what was typed meanwhile: %v, %q", c.form, c.text())
	}
	test.Tap(c.save)
	r.until("the change", func() bool { return !c.form })
	sent := r.called(wire.MethodProviderAdd)
	first, last := sent[0].(wire.ProviderAddParams), sent[len(sent)-1].(wire.ProviderAddParams)
	if first.Mode != "" || first.Replace || last.Mode != "ask" || !last.Replace || last.Name != "new" {
		t.Errorf("sent %+v, then %+v", first, last)
	}
}

func TestRemovingAnAgentAsksFirst(t *testing.T) {
	r, c, kept := agentsRig(t)
	test.Tap(page(r)["Remove…"][0])
	if c.question != "mine" || len(r.called(wire.MethodProviderRemove)) > 0 || !focused(c.keep) {
		t.Fatalf("asks about %q", c.question)
	}
	test.Tap(c.keep)
	if c.question != "" {
		t.Error("keeping does not take the question back")
	}
	test.Tap(page(r)["Remove…"][0])
	test.Tap(page(r)["Remove it"][0])
	r.until("its end", func() bool { return kept() == 3 && len(r.providers.list) == 3 && c.question == "" })
	if got := r.called(wire.MethodProviderRemove)[0].(wire.ProviderRemoveParams); got.Name != "mine" {
		t.Errorf("removed %+v", got)
	}
}

// The program does not make way for its successor under a form.
func TestUpgradeWaitsForTheAgent(t *testing.T) {
	r, c, _ := agentsRig(t)
	r.desk.o.Renewed = func() bool { return true }
	test.Tap(c.add)
	c.fields[model.AgentName].SetText("mine")
	know(r, wire.TopicService, wire.Service{State: "running", Version: "1.1.0", Generation: 15})
	r.changed()
	if r.relaunch {
		t.Error("what was typed is lost")
	}
	c.close()
	r.changed()
	if !r.relaunch {
		t.Error("it does not make way")
	}
}

func TestWaitingForRateLimits(t *testing.T) {
	r := newRig(t, kit.Light)
	f := drawForm(t, r)
	if f.form.Params().WaitForReset {
		t.Error("it waits unasked")
	}
	f.limits.toggle.OnTapped()
	test.Tap(f.limits.wait)
	if !f.form.Params().WaitForReset || !f.form.NeedsCheck() {
		t.Error("the switch changes nothing")
	}
	again := newFormWindow(r.desk)
	again.fill(wire.Mission{Provider: "claude", Minutes: 60, WaitForReset: true})
	if !again.form.Params().WaitForReset || !again.limits.wait.On() {
		t.Error("the terms of an earlier mission are not taken over")
	}
}
