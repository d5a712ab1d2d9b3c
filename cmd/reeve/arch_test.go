package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/reevehq/reeve/"

// rooms says what each package may import of ours; a trailing /... allows all
// below, "*" anything. A package that is not listed fails the test, so that a
// new room is a decision.
var rooms = map[string][]string{
	"app/mission":  {},
	"app/approval": {},

	"ipc/wire":   {},
	"ipc/sock":   {},
	"ipc/server": {"ipc/wire", "ipc/sock"},
	"ipc/client": {"ipc/wire", "ipc/sock"},

	"service":                     {"service/...", "ipc/server", "ipc/sock", "ipc/wire", "app/..."},
	"service/guard":               {"ipc/wire", "ipc/sock", "service/provider", "service/internal/proc", "service/internal/runlog", "service/internal/private", "service/internal/fault", "service/internal/checkout/contextfile", "app/..."},
	"service/keychain":            {},
	"service/keychain/keyring":    {}, // for tests only
	"service/osservice":           {},
	"service/mcp":                 {"ipc/client", "ipc/wire"},
	"service/provider":            {"app/mission"},
	"service/provider/claude":     {"app/mission", "service/provider", "service/provider/internal/..."},
	"service/provider/codex":      {"app/mission", "service/provider", "service/provider/internal/..."},
	"service/provider/acp":        {"app/mission", "service/provider", "service/provider/internal/..."},
	"service/provider/demo":       {},
	"service/provider/modelstub":  {},
	"service/provider/conform":    {"app/mission", "service/provider", "service/provider/..."},
	"service/provider/internal/…": {"app/mission", "service/provider"},

	"service/internal/checkout/contextfile": {"service/internal/private"},

	"service/internal/agents":     {"service/internal/private", "service/provider/acp", "app/..."},
	"service/internal/fault":      {},
	"service/internal/powerloss":  {}, // for tests only
	"service/internal/private":    {},
	"service/internal/proc":       {},
	"service/internal/runlog":     {"service/internal/private"},
	"service/internal/store":      {"service/internal/private"},
	"service/internal/approvals":  {"service/internal/store", "app/..."},
	"service/internal/credential": {"service/internal/store", "service/internal/private", "service/keychain"},
	"service/internal/checkout":   {"service/internal/checkout/contextfile", "service/internal/store", "service/internal/proc", "app/..."},
	"service/internal/effects":    {"service/internal/store", "app/..."},
	"service/internal/room":       {"service/internal/store"},
	"service/internal/session":    {"service/internal/runlog"},
	"service/internal/supervisor": {"service/internal/...", "service/guard", "service/provider", "ipc/wire", "app/..."},

	"assets":      {},
	"ui/say":      {},
	"ui/model":    {"ui/say", "ipc/client", "ipc/wire", "app/..."},
	"ui/cli":      {"ipc/client", "ipc/wire", "ipc/sock", "ui/model", "app/..."},
	"ui/locale":   {},
	"ui/view/kit": {"ui/say", "assets"},
	"ui/view":     {"ui/say", "ui/model", "ui/view/kit", "assets", "ipc/client", "ipc/sock", "ipc/wire", "app/..."},

	"cmd/reeve":                 {"*"},
	"cmd/reeve-desktop":         {"ui/locale", "ui/view", "ui/view/kit", "ui/model", "ipc/...", "service/keychain", "assets"},
	"packaging/icons/generate":  {"assets"},
	"packaging/licences":        {"assets"},
	"packaging/macos/universal": {},
	"packaging/manual":          {"ui/cli", "assets"},
	"packaging/windows/winegit": {}, // for tests only
}

type listed struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
	Deps       []string
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Imports,GoFiles,Deps"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func room(path string) ([]string, bool) {
	if r, ok := rooms[path]; ok {
		return r, true
	}
	for name, r := range rooms {
		if base, ok := strings.CutSuffix(name, "…"); ok && strings.HasPrefix(path, base) {
			return r, true
		}
	}
	return nil, false
}

// TestImports holds every package to what its room may import.
func TestImports(t *testing.T) {
	for _, p := range list(t, module+"...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		if len(p.GoFiles) == 0 {
			continue // only tests
		}
		allowed, ok := room(name)
		if !ok {
			t.Errorf("%s is no room of the architecture; decide what it may import", name)
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "github.com/zalando/go-keyring") && name != "service/keychain" {
				t.Errorf("%s may not import %s: without a time limit it hangs", name, imp)
			}
			of, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			if !slices.ContainsFunc(allowed, func(a string) bool {
				base, all := strings.CutSuffix(a, "/...")
				return a == "*" || a == of || all && (of == base || strings.HasPrefix(of, base+"/"))
			}) {
				t.Errorf("%s may not import %s", name, of)
			}
		}
	}
}

// TestForbidden keeps heavy or wrong dependencies out of programs, and I/O out
// of the rules. A name that ends in / stands for all below.
func TestForbidden(t *testing.T) {
	for pkg, forbidden := range map[string][]string{
		"cmd/reeve":         {"fyne.io/", module + "service/internal/powerloss"},
		"ui/model":          {"fyne.io/", module + "service/"},
		"ui/cli":            {"fyne.io/", module + "service/"},
		"ui/view":           {"fyne.io/fyne/v2/app", module + "service/"},
		"cmd/reeve-desktop": {module + "service", module + "service/internal/", module + "service/guard", module + "service/provider"},
		"app/mission":       {module, "os/exec", "net/http", "math/rand/v2"},
		"app/approval":      {module, "os/exec", "net/http", "math/rand/v2"},
	} {
		for _, p := range list(t, module+pkg) {
			for _, d := range p.Deps {
				if slices.ContainsFunc(forbidden, func(f string) bool {
					return d == f || strings.HasSuffix(f, "/") && strings.HasPrefix(d, f)
				}) {
					t.Errorf("%s depends on %s", pkg, d)
				}
			}
		}
	}
}

// sole says which modules only one package imports, so that it can be replaced.
var sole = map[string]string{
	"github.com/kardianos/service":     "service/osservice",
	"github.com/zalando/go-keyring":    "service/keychain",
	"go.etcd.io/bbolt":                 "service/internal/store",
	"gopkg.in/natefinch/lumberjack.v2": "service",
}

// TestSoleImporters holds them to it.
func TestSoleImporters(t *testing.T) {
	for _, p := range list(t, module+"...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			if owner, ok := sole[imp]; ok && owner != name {
				t.Errorf("%s imports %s, which only %s may", name, imp, owner)
			}
		}
	}
}
