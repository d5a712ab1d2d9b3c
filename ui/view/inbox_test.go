package view

import (
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// What the service refuses to show is told, and does not look like peace.
func TestRefusedTopicsAreTold(t *testing.T) {
	r := newRig(t, kit.Light)
	in := newInbox(r.desk)
	in.State(client.State{Phase: client.Connected})
	const why = "Only a person may do this, and this comes from a worker."
	for _, topic := range []string{wire.TopicService, wire.TopicMissions, wire.TopicApprovals} {
		in.Delta(topic, wire.Event{Event: wire.EvSnapshotFailed, Topic: topic, Data: raw(t, wire.SnapshotFailed{Reason: why})})
	}
	r.hop()
	if link, text := r.st.Link(); link != model.Blind || !strings.Contains(text, why) {
		t.Errorf("%s %q", link, text)
	}
	if tray := r.st.Tray(r.clock); tray.State != model.TrayNoService {
		t.Errorf("the tray says %s %q", tray.State, tray.Tooltip)
	}
	if p := newLinkPage(r.desk); !p.needed() {
		t.Error("the window does not tell")
	}
	in.State(client.State{Phase: client.Connected}) // another connection is asked anew
	r.hop()
	if link, _ := r.st.Link(); link != model.Running {
		t.Errorf("after connecting again: %s", link)
	}
}
