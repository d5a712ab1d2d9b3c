package view

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"
	"go.uber.org/goleak"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

var update = flag.Bool("update", false, "write the pictures in testdata anew")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("fyne.io/fyne/v2/test.NewApp.func1"), goleak.IgnoreAnyFunction("fyne.io/fyne/v2/internal/async.(*UnboundedChan[...]).processing"))
}

// rig is a program without display, service and clock: calls are recorded and
// answered by reply, hops wait until the test lets them happen.
type rig struct {
	*desk
	t     *testing.T
	clock time.Time
	notes []model.Note

	mu    sync.Mutex
	calls []call
	hops  []func()
	reply func(method string, params any) (any, error)
}

type call struct {
	method string
	params any
}

func (r *rig) send(n model.Note) { r.notes = append(r.notes, n) }
func (r *rig) settle(waits func(model.Note) bool) {
	r.notes = slices.DeleteFunc(r.notes, func(n model.Note) bool { return !waits(n) })
}
func (r *rig) listen(context.Context) {}
func (r *rig) close()                 {}

// day is the moment at which everything in the tests happens.
var day = time.Date(2026, 3, 4, 15, 5, 20, 0, time.UTC)

func clock(h, m int) time.Time     { return time.Date(2026, 3, 4, h, m, 11, 0, time.UTC) }
func clockPtr(h, m int) *time.Time { t := clock(h, m); return &t }

func newRig(t *testing.T, mode kit.Mode) *rig {
	t.Helper()
	app := test.NewTempApp(t)
	test.ApplyTheme(t, kit.Theme{Mode: mode})
	r := &rig{t: t, clock: day}
	r.desk = newDesk(app, Options{Home: "/home/me", Version: "1.0.0", PID: 7})
	r.desk.now = func() time.Time { return r.clock }
	r.desk.do = func(f func()) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hops = append(r.hops, f)
	}
	r.desk.call = func(_ context.Context, method string, params, result any) error {
		r.mu.Lock()
		r.calls = append(r.calls, call{method, params})
		reply := r.reply
		r.mu.Unlock()
		if reply == nil {
			return nil
		}
		v, err := reply(method, params)
		if err != nil || v == nil {
			return err
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, result)
	}
	r.desk.blob = func(context.Context, wire.BlobRef) ([]byte, error) { return nil, errors.New("no blobs here") }
	r.desk.notifier = r
	r.desk.env = map[string]string{"PATH": "/bin"}
	t.Cleanup(func() {
		r.cancel()
		r.tasks.Wait()
	})
	return r
}

// hop runs what waits for the UI goroutine.
func (r *rig) hop() {
	for {
		r.mu.Lock()
		hops := r.hops
		r.hops = nil
		r.mu.Unlock()
		if len(hops) == 0 {
			return
		}
		for _, f := range hops {
			f()
		}
	}
}

// until runs hops until ok holds.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(4 * time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		r.hop()
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (r *rig) called(method string) []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []any
	for _, c := range r.calls {
		if c.method == method {
			out = append(out, c.params)
		}
	}
	return out
}

func raw(t *testing.T, v any) json.RawMessage {
	t.Helper()
	return rawOf(t, v)
}

func rawOf(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// know gives the model a whole topic.
func know[T any](r *rig, topic string, items ...T) {
	r.t.Helper()
	var raws []json.RawMessage
	for _, it := range items {
		raws = append(raws, raw(r.t, it))
	}
	if _, err := r.st.Snapshot(topic, raws); err != nil {
		r.t.Fatal(err)
	}
}

// ask makes an approval whose digest is right.
func ask(t *testing.T, id, mission, title, provider, folder string, turn int, kind approval.Kind, sub approval.Subject, at time.Time) wire.Approval {
	t.Helper()
	a := wire.Approval{ID: id, Kind: string(kind), Mission: mission, Title: title, Provider: provider, Folder: folder, TurnNo: turn, Attempt: "a-1",
		Subject: raw(t, sub), CreatedAt: at, State: "pending"}
	if kind == approval.MissionStart {
		a.Attempt = ""
	}
	d, err := approval.Digest(approval.Envelope{ID: id, Kind: kind, Mission: mission, Attempt: a.Attempt, Turn: turn, Subject: sub})
	if err != nil {
		t.Fatal(err)
	}
	a.Digest = d
	return a
}

// picture draws o in a window of the given size.
func (r *rig) picture(name string, o fyne.CanvasObject, size fyne.Size) {
	r.t.Helper()
	w := test.NewTempWindow(r.t, o)
	w.SetPadded(false)
	w.Resize(size)
	compare(r.t, name, w.Canvas().Capture())
}

func compare(t *testing.T, name string, got image.Image) {
	t.Helper()
	path := filepath.Join("testdata", name+".png")
	if *update {
		write(t, path, got)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	want, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if n := different(want, got); n > 0 {
		failed := filepath.Join("testdata", "failed", name+".png")
		write(t, failed, got)
		t.Errorf("%s: %d pixels differ; look at %s, and run with -update if it is right", path, n, failed)
	}
}

// different counts pixels that differ by more than other floating-point units
// explain.
func different(a, b image.Image) int {
	if a.Bounds() != b.Bounds() {
		return max(1, a.Bounds().Dx()*a.Bounds().Dy())
	}
	n := 0
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			r1, g1, b1, _ := a.At(x, y).RGBA()
			r2, g2, b2, _ := b.At(x, y).RGBA()
			for _, d := range []int{int(r1) - int(r2), int(g1) - int(g2), int(b1) - int(b2)} {
				if d > 0x800 || d < -0x800 {
					n++
					break
				}
			}
		}
	}
	return n
}

func write(t *testing.T, path string, img image.Image) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := png.Encode(f, img); err != nil {
		t.Fatal(err)
	}
}

var themes = map[string]kit.Mode{"light": kit.Light, "dark": kit.Dark}

func ptr[T any](v T) *T { return &v }

// blobOf gives data once gate is closed.
func blobOf(gate chan struct{}, data []byte) func(context.Context, wire.BlobRef) ([]byte, error) {
	return func(ctx context.Context, _ wire.BlobRef) ([]byte, error) {
		select {
		case <-gate:
			return data, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
