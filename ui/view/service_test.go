package view

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// TestServiceButtons: where no service runs it is registered with a click, by
// the command line program, and the settings say what starts it then.
func TestServiceButtons(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program in this test is a shell script")
	}
	dir := t.TempDir()
	did := filepath.Join(dir, "did")
	script := `#!/bin/sh
echo "$@" >>` + did + `
case "$2" in
status) [ ! -e ` + dir + `/on ] || on=true; echo '{"service":{"manager":"systemd","at_logon":'${on-false}'}}'; exit 3 ;;
install) touch ` + dir + `/on ;;
*) echo "reeve: It can't be done." >&2; exit 1 ;;
esac
`
	reeve := filepath.Join(dir, "reeve")
	if err := os.WriteFile(reeve, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, kit.Light)
	r.desk.o.Reeve = reeve
	m := newMainWindow(r.desk)
	r.main = m
	r.linked(client.State{Phase: client.Stopped, Err: client.ErrNotRunning})
	m.refresh()
	m.settings.refresh()
	r.until("what starts the service", func() bool { return r.service.starts != "" })
	if r.service.starts != "when somebody starts it" || m.settings.install.Disabled() {
		t.Errorf("starts %q", r.service.starts)
	}
	test.Tap(m.link.install)
	r.until("the registration", func() bool { m.settings.refresh(); return r.service.logon })
	if !strings.HasPrefix(r.service.starts, "at log-on and after a crash, by systemd") || r.service.problem != "" {
		t.Errorf("starts %q, problem %q", r.service.starts, r.service.problem)
	}
	m.settings.refresh()
	if !m.settings.install.Disabled() {
		t.Error("it can be registered again")
	}
	r.desk.act(model.DoRestart, "")
	r.until("the refusal", func() bool { return r.service.problem != "" })
	if r.service.problem != "It can't be done." {
		t.Errorf("problem %q", r.service.problem)
	}
	said, err := os.ReadFile(did)
	if want := "service status --json\nservice install\nservice status --json\nservice restart\n"; err != nil || !strings.HasPrefix(string(said), want) {
		t.Errorf("it ran %q: %v", said, err)
	}
}

// TestNothingStartsTheServiceAtLogOn: where the system has no service manager
// nobody is offered to have the service started at log-on, and the settings say
// why.
func TestNothingStartsTheServiceAtLogOn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program in this test is a shell script")
	}
	reeve := filepath.Join(t.TempDir(), "reeve")
	if err := os.WriteFile(reeve, []byte("#!/bin/sh\necho '{\"service\":{\"manager\":\"\",\"at_logon\":false}}'\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, kit.Light)
	r.desk.o.Reeve = reeve
	m := newMainWindow(r.desk)
	r.main = m
	offered := func() bool { return strings.Contains(texts(m.link.root), "at every log-on") }
	inTray := func() bool {
		menu := menuOf(r.st.Tray(r.now()).Menu, nil)
		for _, it := range menu.Items {
			if it.Label != "Service" {
				continue
			}
			for _, s := range it.ChildMenu.Items {
				if s.Label == "Start at every log-on" {
					return !s.Disabled
				}
			}
		}
		t.Fatal("the tray has no such item")
		return false
	}
	r.linked(client.State{Phase: client.Stopped, Err: client.ErrNotRunning})
	m.refresh()
	if !offered() || !inTray() {
		t.Error("it is not offered before anything is known")
	}
	r.until("what starts the service", func() bool { return r.service.starts != "" })
	m.refresh()
	m.settings.refresh()
	if !m.settings.install.Disabled() || offered() || inTray() {
		t.Errorf("offered: in the settings %v, on the page %v, in the tray %v", !m.settings.install.Disabled(), offered(), inTray())
	}
	if !strings.HasSuffix(r.service.starts, "this system has no service manager for it") {
		t.Errorf("the settings say %q", r.service.starts)
	}
}
