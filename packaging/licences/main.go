// Licences lists what built programs contain of others' work and under which
// licences, with every licence's text.
//
//	go run ./packaging/licences PROGRAM... > third-party-licences.txt
//
// It reads the modules out of the programs themselves, so that it works for
// programs of every platform. A module without a licence, or with one that
// nobody has looked at yet, is an error.
package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licensecheck"

	"github.com/reevehq/reeve/assets"
)

// accepted are the licences that somebody has looked at and found fit for
// programs that are passed on with their texts.
var accepted = []string{"Apache-2.0", "Bitstream-Vera", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-Modification", "ISC", "MIT", "OFL-1.1", "Unlicense", "Zlib"}

// unscanned are licences that the scanner doesn't know, by a line of their text.
var unscanned = map[string]string{"Bitstream Vera Fonts Copyright": "Bitstream-Vera"}

// work is something of others: a module, the Go libraries, a font.
type work struct {
	name, version string
	texts         []text
}

type text struct {
	name     string // of the file, for a reader
	licences []string
	body     string
}

func main() {
	if err := list(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func list(w io.Writer, programs []string) error {
	if len(programs) == 0 {
		return errors.New("name the programs")
	}
	works := []work{}
	modules := make(map[string]*debug.Module)
	goVersion := ""
	for _, p := range programs {
		info, err := buildinfo.ReadFile(p)
		if err != nil {
			return fmt.Errorf("read what %s was built from: %w", p, err)
		}
		goVersion = info.GoVersion
		for _, m := range info.Deps {
			modules[m.Path] = m
		}
	}
	dirs, err := folders(modules)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		texts, err := find(dirs[path])
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		works = append(works, work{path, modules[path].Version, texts})
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	texts, err := find(strings.TrimSpace(string(root)), "LICENSE")
	if err != nil {
		return fmt.Errorf("the Go libraries: %w", err)
	}
	works = append(works, work{"Go and its standard library", strings.TrimPrefix(goVersion, "go"), texts})
	if _, desktop := modules["fyne.io/fyne/v2"]; desktop {
		fonts := assets.FontLicences()
		for _, file := range slices.Sorted(maps.Keys(fonts)) {
			t, err := read(file, fonts[file])
			if err != nil {
				return err
			}
			works = append(works, work{"Font " + strings.TrimSuffix(file, "-LICENSE.txt"), "", []text{t}})
		}
	}
	return print(w, works)
}

// folders asks Go where the sources of the modules are.
func folders(modules map[string]*debug.Module) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		if m.Replace != nil {
			return nil, fmt.Errorf("%s is replaced by %s, whose licence is not looked for", m.Path, m.Replace.Path)
		}
		args = append(args, m.Path+"@"+m.Version)
	}
	if len(modules) == 0 {
		return nil, nil
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("find the modules' sources: %w: %s", err, out)
	}
	dirs := make(map[string]string)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return dirs, nil
		} else if err != nil {
			return nil, err
		}
		dirs[m.Path] = m.Dir
	}
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-_.].*)?$`)

// find reads the licences below dir, those of C sources and fonts that a module
// carries included; only those named, when any are.
func find(dir string, names ...string) ([]text, error) {
	var texts []text
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); path != dir && (len(names) > 0 || n == "testdata" || strings.HasPrefix(n, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if len(names) > 0 && !slices.Contains(names, rel) || !licenceFile.MatchString(d.Name()) || strings.HasSuffix(rel, ".go") {
			return nil
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		t, err := read(filepath.ToSlash(rel), string(body))
		texts = append(texts, t)
		return err
	})
	if err == nil && len(texts) == 0 {
		err = errors.New("has no licence; ask its authors, or do without it")
	}
	return texts, err
}

// read recognises the licences in a text. What is not known or not accepted is
// an error; notices, which add to a licence, may be anything.
func read(name, body string) (text, error) {
	t := text{name: name, body: strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))}
	base := strings.ToLower(filepath.Base(name))
	if strings.HasPrefix(base, "notice") || strings.HasPrefix(base, "patents") {
		return t, nil
	}
	for _, m := range licensecheck.Scan([]byte(body)).Match {
		if !m.IsURL && !slices.Contains(t.licences, m.ID) {
			t.licences = append(t.licences, m.ID)
		}
	}
	for line, id := range unscanned {
		if strings.Contains(body, line) {
			t.licences = append(t.licences, id)
		}
	}
	for _, id := range t.licences {
		if !slices.Contains(accepted, id) {
			return t, fmt.Errorf("%s is under %s, which nobody has accepted; look at it, then add it to the list or do without the module", name, id)
		}
	}
	if len(t.licences) == 0 {
		return t, fmt.Errorf("%s is no licence that is known; look at it", name)
	}
	return t, nil
}

// print writes a table, then each text once with those that it covers.
func print(w io.Writer, works []work) error {
	var b strings.Builder
	b.WriteString("Reeve contains work of others. This is what and under which licences; their texts follow.\n\n")
	width := 0
	for _, k := range works {
		width = max(width, len(k.name)+len(k.version)+1)
	}
	covers := make(map[string][]string)
	var order []string
	for _, k := range works {
		var licences []string
		for _, t := range k.texts {
			for _, l := range t.licences {
				if !slices.Contains(licences, l) {
					licences = append(licences, l)
				}
			}
			if covers[t.body] == nil {
				order = append(order, t.body)
			}
			covers[t.body] = append(covers[t.body], k.name+" ("+t.name+")")
		}
		slices.SortFunc(licences, cmp.Compare)
		fmt.Fprintf(&b, "%-*s  %s\n", width, strings.TrimSpace(k.name+" "+k.version), strings.Join(licences, ", "))
	}
	rule := strings.Repeat("=", 78)
	for _, body := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", rule, strings.Join(covers[body], "\n"), rule, body)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
