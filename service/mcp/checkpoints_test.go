package mcp

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/ipc/wire"
)

// TestCheckpointsHold: whatever the service makes of them, only acknowledged
// cursors are sent, none after a newer one but what the room has not, and the
// newest that it has is on record as soon as one try of it succeeds.
func TestCheckpointsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var mu sync.Mutex
		var sent, kept []int // that the room has
		outcomes := rapid.SliceOf(rapid.SampledFrom([]error{
			nil, errLost, wire.Errorf(wire.CodeShuttingDown, "ending"), wire.Errorf(wire.CodeStaleGeneration, "Stale binding."),
		})).Draw(t, "outcomes")
		last := rapid.IntRange(1, 60).Draw(t, "newest of the room")
		acknowledged := rapid.SliceOfN(rapid.IntRange(1, 60), 1, 30).Draw(t, "acknowledged")
		k := &checkpoints{
			clock: clock{sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }},
			send: func(_ context.Context, _ worker, c string) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				n, ok := parseCursor(c)
				if !ok || !slices.Contains(acknowledged, n) {
					t.Errorf("sent %q, which nobody acknowledged", c)
				}
				if n > last {
					return "", wire.InvalidField("room_cursor", "is beyond the newest message of the room")
				}
				sent = append(sent, n)
				var err error
				if len(outcomes) > 0 {
					err, outcomes = outcomes[0], outcomes[1:]
				}
				if err == nil {
					kept = append(kept, n)
				}
				return c, err
			},
			refused: func(error) {},
		}
		k.quit, k.stop = context.WithCancel(context.Background())
		newest := 0
		for _, n := range acknowledged {
			k.note(worker{}, n)
			if rapid.Bool().Draw(t, "settles") {
				k.wg.Wait()
			}
			if n <= last {
				newest = max(newest, n)
			}
		}
		k.wg.Wait()
		outcomes = nil
		if newest > 0 {
			k.note(worker{}, newest) // as the next wait does
		}
		k.close()
		if !slices.IsSorted(sent) {
			t.Errorf("an older cursor after a newer: %v", sent)
		}
		if newest > 0 && (len(kept) == 0 || kept[len(kept)-1] != newest) || len(slices.Compact(slices.Clone(kept))) != len(kept) {
			t.Errorf("on record: %v of %v, where the newest message is %d", kept, acknowledged, last)
		}
		k.note(worker{}, last) // after the end
		k.wg.Wait()
		if len(sent) > 0 && sent[len(sent)-1] > newest {
			t.Error("it goes on after its end")
		}
	})
}

// A bridge that outlives a turn may find its worker in another room, whose
// messages have numbers of their own.
func TestCheckpointsOfAnotherRoom(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	k := &checkpoints{clock: clock{}, refused: func(error) {}, send: func(_ context.Context, w worker, c string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, w.room+" "+c)
		return c, nil
	}}
	k.quit, k.stop = context.WithCancel(context.Background())
	for _, c := range []struct {
		room string
		n    int
	}{{"a", 40}, {"b", 3}, {"b", 2}, {"a", 41}} {
		k.note(worker{room: c.room}, c.n)
		k.wg.Wait()
	}
	k.close()
	if want := []string{"a msg_40", "b msg_3", "a msg_41"}; !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
}

// What counts is what the service says: it may know that the agent was told less,
// or that another process of the worker has acknowledged more.
func TestCheckpointsCountAsTheServiceSays(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	now := "msg_2"
	k := &checkpoints{refused: func(error) {}, send: func(_ context.Context, _ worker, c string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, c)
		return now, nil
	}}
	k.quit, k.stop = context.WithCancel(context.Background())
	note := func(n int) { k.note(worker{}, n); k.wg.Wait() }
	note(5)
	now = "msg_9"
	note(5)
	note(7)
	note(9)
	now = "msg_12"
	note(12)
	k.close()
	if want := []string{"msg_5", "msg_5", "msg_12"}; !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
}
