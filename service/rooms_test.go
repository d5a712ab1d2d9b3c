//go:build unix

package service

import (
	"context"
	"testing"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// A person writes only where somebody reads: in the room of a mission that has
// not ended, or where a worker of another mission came.
func TestSendWhereNobodyReads(t *testing.T) {
	h, ctx := newHouse(t), context.Background()
	r := h.start(h.checkout("a"), asksAndWaits, "/repo")
	other := h.start(h.checkout("b"), asksAndWaits, "/repo")
	other = h.asking(other.ID, 1)
	r = h.asking(r.ID, 1)
	must(h.prepare(r, 1, "1", wire.MCPJoinRoom, `{"room_id":"`+other.Bridge.Room+`"}`))(t)
	h.goOn(r.ID)
	h.until(r.ID, "move", func(r supervisor.Record) bool { return r.Bridge.Room == other.Bridge.Room })
	must(h.s.sup.Stop(ctx, other.ID))(t)
	last := h.send(other.Bridge.Room, "You alone.")
	must(h.s.sup.Stop(ctx, r.ID))(t)
	for _, id := range []string{other.Bridge.Room, other.ID, r.ID} {
		_, err := h.s.RoomSend(ctx, server.Actor{Program: "test"}, wire.RoomSendParams{Room: id, Text: "Anybody?"})
		refused(t, err, wire.CodeConflict, "no worker is in its room")
	}
	if got := h.messages(other.Bridge.Room); len(got) == 0 || got[len(got)-1].ID != last.ID {
		t.Errorf("the room holds %+v", got)
	}
}
