package server

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/reevehq/reeve/ipc/wire"
)

// What is wrong with the parameters of a method, as far as that can be told
// without the backend.

// need refuses an id that is missing or too long for one.
func need(field, value string) *wire.Error {
	switch {
	case value == "":
		return wire.InvalidField(field, "is missing or empty")
	case len(value) > wire.MaxID:
		return wire.InvalidField(field, "is longer than 128 bytes")
	}
	return nil
}

// limit refuses a number of entries that is negative or above most, and puts
// normal in the place of one that was left out.
func limit(n *int, normal, most int) *wire.Error {
	if *n < 0 || *n > most {
		said := strconv.Itoa(most)
		if most >= 1000 {
			said = fmt.Sprintf("%d,%03d", most/1000, most%1000)
		}
		return wire.InvalidField("limit", "must be between 1 and "+said+", or left out")
	}
	if *n == 0 {
		*n = normal
	}
	return nil
}

func checkMission(p wire.MissionParams) *wire.Error { return need("id", p.ID) }

func checkSteer(p wire.SteerParams) *wire.Error {
	bad := need("id", p.ID)
	if bad == nil && p.Text == "" {
		bad = wire.InvalidField("text", "is missing or empty")
	}
	return bad
}

func checkRecover(p wire.RecoverParams) *wire.Error {
	return cmp.Or(need("id", p.ID), need("recovery_ref", p.Ref))
}

func checkWorktree(p wire.WorktreeParams) *wire.Error {
	return cmp.Or(need("id", p.ID), need("action", p.Action))
}

func checkAnswer(p wire.AnswerParams) *wire.Error {
	return cmp.Or(need("id", p.ID), need("digest", p.Digest))
}

func checkApprovalList(p wire.ApprovalListParams) *wire.Error {
	if len(p.Mission) > wire.MaxID {
		return wire.InvalidField("mission_id", "is longer than 128 bytes")
	}
	return nil
}

func checkBlobRead(p wire.BlobReadParams) *wire.Error {
	bad := need("digest", p.Digest)
	if bad == nil && p.Offset < 0 {
		bad = wire.InvalidField("offset", "must not be negative")
	}
	return bad
}

func checkRoomSend(p wire.RoomSendParams) *wire.Error {
	bad := need("room", p.Room)
	switch {
	case bad == nil && strings.TrimSpace(p.Text) == "":
		bad = wire.InvalidField("text", "is missing or empty")
	case bad == nil && len(p.Text) > wire.MaxRoomText:
		bad = wire.InvalidField("text", "is longer than 16 KiB")
	}
	return bad
}

func checkSettle(p wire.EffectSettleParams) *wire.Error {
	bad := need("id", p.ID)
	if bad == nil && p.Revision == 0 {
		bad = wire.InvalidField("revision", "is missing or 0; repeat that of the effect you saw")
	}
	if bad == nil && p.Outcome != wire.EffectHappened && p.Outcome != wire.EffectDidNot && p.Outcome != wire.EffectLeft {
		bad = wire.InvalidField("outcome", "must be happened, did_not or left")
	}
	return bad
}
