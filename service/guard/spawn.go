package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/proc"
)

// Process is the keeper of a guard that this program spawned.
type Process struct {
	ID   wire.Process
	done chan struct{}
	exit int
}

// Done is closed when the keeper has ended, and with it everything below it.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is the guard's exit code, valid after Done.
func (p *Process) Exit() int { return p.exit }

// Spawn makes the attempt directory dir, writes its bootstrap record, and
// starts `exe guard dir` detached: in a session of its own, with nothing of
// the caller but env (complete; keep it small), and with its output in the
// attempt's guard.log. Connect then waits for it.
//
// The guard is not bound to ctx, nor to the life of the caller.
func Spawn(ctx context.Context, exe, dir string, b wire.Bootstrap, env []string) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := private.EnsureDir(dir); err != nil {
		return nil, fmt.Errorf("spawn a guard: %w", err)
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("spawn a guard: %w", err)
	}
	if err := private.WriteFile(filepath.Join(dir, bootstrapFile), raw); err != nil {
		return nil, fmt.Errorf("spawn a guard: %w", err)
	}
	out, err := private.OpenAppend(filepath.Join(dir, outputFile))
	if err != nil {
		return nil, fmt.Errorf("spawn a guard: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(exe, "guard", dir)
	cmd.Dir, cmd.Env = dir, append(slices.Clip(env), proc.GuardVar+"="+b.Attempt)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("spawn a guard with %s: %w", exe, err)
	}
	id, err := proc.Identify(cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill() // ours, and not waited for: the pid still holds
		_ = cmd.Wait()
		return nil, fmt.Errorf("spawn a guard: record its identity: %w", err)
	}
	p := &Process{ID: wire.Process(id), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the exit code says it
		p.exit = cmd.ProcessState.ExitCode()
	}()
	return p, nil
}

// ReadRecord reads the record that a guard wrote when its socket was bound. The
// error is fs.ErrNotExist before that.
func ReadRecord(dir string) (wire.GuardRecord, error) {
	var rec wire.GuardRecord
	return rec, readJSON(filepath.Join(dir, recordFile), &rec)
}

// ReadBootstrap reads the record that the guard was started with.
func ReadBootstrap(dir string) (wire.Bootstrap, error) {
	var b wire.Bootstrap
	return b, readJSON(filepath.Join(dir, bootstrapFile), &b)
}

func readJSON(path string, v any) error {
	raw, err := private.ReadFile(path, maxRecord)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("read %s: %w; it is damaged, move it away", path, err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return private.WriteFile(path, raw)
}

// EndUnadopted ends the guard and the keeper that an earlier service left in
// dir: exactly the two recorded processes, and through them the worker's tree.
// The guard is asked first and ends its tree; what does not end is killed. It
// returns how many of the two were alive, and nothing is signalled that cannot
// be identified. A directory without a record has nothing to end.
func EndUnadopted(ctx context.Context, dir string) (ended int, err error) {
	rec, err := ReadRecord(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("end the guard that was left in %s: %w", dir, err)
	}
	// The guard goes first: it knows its tree. The keeper follows by itself
	// once nothing is left, and is asked only when it does not.
	for _, id := range []proc.ID{proc.ID(rec.Process), proc.ID(rec.Keeper)} {
		switch id.State() {
		case proc.Gone:
			continue
		case proc.Unknown:
			return ended, fmt.Errorf("end the guard that was left in %s: whether %v still runs cannot be told; nothing was signalled", dir, id)
		}
		ended++
	}
	if err := endProcess(ctx, proc.ID(rec.Process), true); err != nil {
		return 0, fmt.Errorf("end the guard that was left in %s: %w", dir, err)
	}
	keeper := proc.ID(rec.Keeper)
	if waitFor(ctx, keeper, keeperLinger) {
		return ended, nil
	}
	if err := endProcess(ctx, keeper, true); err != nil {
		return 0, fmt.Errorf("end the keeper that was left in %s: %w", dir, err)
	}
	return ended, nil
}

const (
	// guardLinger is how long a guard may take to end its tree.
	guardLinger = 12 * time.Second
	// keeperLinger is how long a keeper may take to end what a guard left.
	keeperLinger = 12 * time.Second
)

func endProcess(ctx context.Context, id proc.ID, ask bool) error {
	if id.State() == proc.Gone {
		return nil
	}
	if ask {
		if err := id.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, proc.ErrGone) {
			ask = false // Windows cannot ask
		}
	}
	if ask && waitFor(ctx, id, guardLinger) {
		return nil
	}
	if err := id.Signal(os.Kill); err != nil && !errors.Is(err, proc.ErrGone) {
		return err
	}
	return id.Wait(ctx)
}

// waitFor says whether the process ended within d.
func waitFor(ctx context.Context, id proc.ID, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return id.Wait(ctx) == nil
}
