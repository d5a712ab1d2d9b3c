package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

// roleVar makes the test binary play one of the programs below.
const roleVar = "PROC_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "":
		os.Exit(m.Run())
	case "wait": // says its pid, and waits for ever
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour)
	case "polite": // ends when it is asked to
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, os.Interrupt)
		fmt.Println(os.Getpid())
		<-asked
		os.Exit(3)
	case "parent": // leaves a process, and waits for ever
		child := self("wait")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			fmt.Println(err)
		}
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour)
	case "asker": // asks a member of a tree to end, from a console that it shares
		tree, err := NewTreeWith(os.Args[1], Options{})
		cmd := self("polite")
		out, wrong := cmd.StdoutPipe()
		if err := errors.Join(err, wrong); err != nil {
			fmt.Println(err)
			return
		}
		_, err = tree.Start(cmd)
		bufio.NewScanner(out).Scan()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		left, wrong := tree.Stop(ctx, StopPlan{Interrupt: 0, Term: time.Hour, Kill: time.Hour})
		if len(left) > 0 {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		fmt.Println(cmd.ProcessState.ExitCode(), left, errors.Join(err, wrong))
	case "keeper": // keeps a process that leaves another
		k := Keeper{Name: os.Args[1], Argv: []string{os.Args[0]}, Env: append(os.Environ(), roleVar+"=parent")}
		code, err := k.Run(context.Background())
		fmt.Println(code, err)
	}
}

func self(role string, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	return cmd
}

// said is what programs write, line by line.
func said(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	cmd.Stdout = w
	t.Cleanup(func() { _ = w.Close() })
	return bufio.NewScanner(r)
}

// pids reads n of them.
func pids(t *testing.T, lines *bufio.Scanner, n int) (out []int) {
	t.Helper()
	for range n {
		if !lines.Scan() {
			t.Fatalf("a program ended: %v", lines.Err())
		}
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(lines.Text())
		}
		out = append(out, pid)
	}
	slices.Sort(out)
	return out
}

func tree(t *testing.T, name string) *Tree {
	t.Helper()
	tree, err := NewTreeWith(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}

func TestIdentity(t *testing.T) {
	me, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Identify(os.Getpid()); err != nil || again != me || me.State() != Alive {
		t.Errorf("%v and %v, %v: %v", me, again, me.State(), err)
	}
	other := me
	other.Start--
	if other.State() != Gone {
		t.Error("another process of that pid is taken for this one")
	}
	if err := other.Signal(os.Kill); !errors.Is(err, ErrGone) {
		t.Errorf("signalled: %v", err)
	}
	up, boot, err := BootTime()
	if err != nil || boot != me.BootID || up <= 0 {
		t.Errorf("%v %q: %v", up, boot, err)
	}
	info, err := Inspect(os.Getpid())
	if exe, _ := os.Executable(); err != nil || !strings.EqualFold(info.Exe, exe) || info.PPID != os.Getppid() {
		t.Errorf("%+v: %v", info, err)
	}
	if all, err := Ancestors(os.Getpid()); err != nil || len(all) == 0 || all[0].ID != me {
		t.Errorf("%+v: %v", all, err)
	}
	if n, err := PhysicalMemory(); err != nil || n < 1<<20 {
		t.Errorf("%d bytes of memory: %v", n, err)
	}
}

// All that a member starts is in the job, is measured, and ends with it.
func TestJob(t *testing.T) {
	tr := tree(t, t.Name())
	cmd := self("parent")
	lines := said(t, cmd)
	id, err := tr.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	want := pids(t, lines, 2)
	members, err := tr.Members()
	var got []int
	for _, m := range members {
		got = append(got, m.PID)
	}
	if err != nil || !slices.Equal(got, want) || !slices.Contains(members, id) {
		t.Fatalf("members %v, want %v: %v", members, want, err)
	}
	if u, err := tr.Usage(); err != nil || u.Processes != 2 {
		t.Errorf("%+v: %v", u, err)
	} else if u.Memory == 0 {
		t.Log("no memory is counted here, as under Wine")
	}
	if by, err := tr.LimitMemory(1 << 30); err != nil || by != "job" {
		t.Errorf("%q: %v", by, err)
	}
	for _, pid := range want {
		if in, err := inJob(pid, []Guarded{{Cgroups: []string{`Local\none`, tr.Cgroup()}}}); err != nil || !in {
			t.Errorf("%d is not in the job: %v", pid, err)
		}
	}
	if in, err := inJob(os.Getpid(), []Guarded{{Cgroups: []string{tr.Cgroup()}}}); err != nil || in {
		t.Errorf("this process is in the job: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if left, err := tr.Kill(ctx); err != nil || len(left) > 0 {
		t.Fatalf("left %v: %v", left, err)
	}
	_ = cmd.Wait()
	for _, m := range members {
		if m.State() != Gone {
			t.Errorf("%v is %v", m, m.State())
		}
	}
}

// A member that ends when it is asked to is not killed. It is asked as a guard
// does it: with a console that has no window.
func TestAskedFirst(t *testing.T) {
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		t.Skip("Wine makes no console without a window, so nothing can be asked")
	}
	cmd := self("asker", t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW}
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "3 [] <nil>" {
		t.Errorf("%s: %v", out, err)
	}
}

// A guard that dies, however it does, takes all below it along.
func TestKeeper(t *testing.T) {
	for _, who := range []string{"guard", "keeper"} {
		cmd := self("keeper", t.Name()+"-"+who)
		lines := said(t, cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var ids []ID
		for _, pid := range pids(t, lines, 2) {
			id, err := Identify(pid)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		keeper, err := Identify(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		first := keeper
		if who == "guard" {
			for _, id := range ids {
				if info, err := Inspect(id.PID); err == nil && info.PPID == keeper.PID {
					first = id
				}
			}
			if first == keeper {
				t.Fatal("the keeper has no child")
			}
		}
		if err := first.Signal(os.Kill); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		for _, id := range append(ids, keeper) {
			if err := id.Wait(ctx); err != nil {
				t.Errorf("after the %s died %v goes on: %v", who, id, err)
			}
		}
		cancel()
		_ = cmd.Wait()
	}
}
