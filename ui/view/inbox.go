package view

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
)

// inbox takes what the follower sees, on the follower's goroutine, and hands it
// to the UI goroutine in one hop for all that came since the last.
type inbox struct {
	d *desk

	mu    sync.Mutex
	items []func()
	due   bool // a hop is under way
}

func newInbox(d *desk) *inbox { return &inbox{d: d} }

func (in *inbox) put(f func()) {
	in.mu.Lock()
	in.items = append(in.items, f)
	hop := !in.due
	in.due = true
	in.mu.Unlock()
	if hop {
		in.d.do(in.deliver)
	}
}

// deliver runs on the UI goroutine.
func (in *inbox) deliver() {
	in.mu.Lock()
	items := in.items
	in.items, in.due = nil, false
	in.mu.Unlock()
	for _, f := range items {
		f()
	}
	in.d.changed()
}

// State is the follower's.
func (in *inbox) State(s client.State) { in.put(func() { in.d.linked(s) }) }

// Snapshot is the follower's.
func (in *inbox) Snapshot(topic string, items []json.RawMessage, _ string) {
	if id, ok := strings.CutPrefix(topic, wire.TopicSession); ok {
		entries := make([]wire.Entry, 0, len(items))
		for _, it := range items {
			var e wire.Entry
			if json.Unmarshal(it, &e) == nil {
				entries = append(entries, e)
			}
		}
		in.put(func() { in.d.sessionLoaded(id, entries) })
		return
	}
	in.put(func() {
		if topic == wire.TopicRules {
			in.d.rulesChanged()
		}
		first := !in.d.st.Known(topic)
		changes, err := in.d.st.Snapshot(topic, items)
		in.d.happened(changes, err)
		if !first {
			in.d.asked(changes)
		}
	})
}

// Delta is the follower's.
func (in *inbox) Delta(topic string, e wire.Event) {
	id, ok := strings.CutPrefix(topic, wire.TopicSession)
	switch {
	case ok && e.Event == wire.EvSession:
		var entry wire.Entry
		if json.Unmarshal(e.Data, &entry) == nil {
			in.put(func() { in.d.sessionEntry(id, entry) })
		}
	case ok && e.Event == wire.EvSnapshotFailed:
		var f wire.SnapshotFailed
		_ = json.Unmarshal(e.Data, &f)
		in.put(func() { in.d.sessionFailed(id, f.Reason) })
	case e.Event == wire.EvSnapshotFailed:
		var f wire.SnapshotFailed
		_ = json.Unmarshal(e.Data, &f)
		in.put(func() { in.d.st.Failed(topic, f.Reason) })
	case e.Event == wire.EvCredentials:
		var r wire.CredentialListResult
		if json.Unmarshal(e.Data, &r) == nil {
			in.put(func() { in.d.tookCredentials(r) })
		}
	case e.Event == wire.EvRule:
		in.put(in.d.rulesChanged)
	case !ok:
		in.put(func() {
			changes, err := in.d.st.Delta(e)
			in.d.happened(changes, err)
			in.d.asked(changes)
		})
	}
}

// linked takes how the connection stands.
func (d *desk) linked(s client.State) {
	switch s.Phase {
	case client.Connected:
		d.st.SetLink(model.Running, "")
		d.service.connected()
		d.providers.stale = true
		d.credentials.stale = true
	case client.Stopped:
		d.st.SetLink(model.NoService, "")
	case client.Mismatch:
		d.st.SetLink(model.Mismatch, sentence(s.Err))
	case client.Closing:
		if s.Reason == wire.ClosingUpdate {
			d.st.SetLink(model.Updating, "")
		} else {
			d.st.SetLink(model.Connecting, say.T("The service is closing."))
		}
	default:
		d.st.SetLink(model.Connecting, "")
	}
}

// happened passes on what the model made of news.
func (d *desk) happened(changes []model.Change, err error) {
	if err != nil {
		d.st.SetLink(model.Mismatch, sentence(err))
		return
	}
	for _, c := range changes {
		if !d.proposing(c) {
			d.notes.Add(c)
		}
	}
	d.notifyDue()
}

// proposing tells whether a question is about the start that the form asks for
// this very moment: the person is about to see it.
func (d *desk) proposing(c model.Change) bool {
	return c.Kind == model.Asked && d.form != nil && d.form.busy &&
		c.Approval.Kind == string(approval.MissionStart) && c.Approval.Folder == d.form.form.Terms.Folder
}

// asked opens the dialog of what was asked just now. One that is open already
// stays on its question, and its counter tells of the new one.
func (d *desk) asked(changes []model.Change) {
	for _, c := range changes {
		if c.Kind == model.Asked && (d.approvals == nil || !d.approvals.waits()) {
			d.review(c.Approval.ID)
		}
	}
}

func (d *desk) sessionLoaded(id string, entries []wire.Entry) {
	for _, w := range d.missions {
		if w.session == id {
			w.load(entries)
		}
	}
}

func (d *desk) sessionEntry(id string, e wire.Entry) {
	for _, w := range d.missions {
		if w.session == id {
			w.add(e)
		}
	}
}

func (d *desk) sessionFailed(id, reason string) {
	for _, w := range d.missions {
		if w.session == id {
			w.failed(reason)
		}
	}
}
