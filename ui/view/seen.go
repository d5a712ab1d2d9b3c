package view

import (
	"encoding/json"

	"github.com/reevehq/reeve/ui/model"
)

// prefSeen is the preference that holds which missions a person saw, as JSON.
const prefSeen = "seen"

// remember takes up what an earlier run kept; what can't be read counts as
// nothing.
func (d *desk) remember() {
	var seen model.Seen
	if json.Unmarshal([]byte(d.app.Preferences().String(prefSeen)), &seen) == nil {
		d.st.Remember(seen)
	}
}

// markSeen says that a person looks at a mission, and keeps that.
func (d *desk) markSeen(id string) {
	if d.st.MarkSeen(id) {
		d.keepSeen()
	}
}

// keepSeen keeps what the person saw for the next run.
func (d *desk) keepSeen() {
	seen, ok := d.st.Seen(d.now())
	if !ok {
		return
	}
	if raw, err := json.Marshal(seen); err == nil {
		d.app.Preferences().SetString(prefSeen, string(raw))
	}
}
