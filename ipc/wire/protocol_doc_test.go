package wire

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const protocolDoc = "../../docs/protocol.md"

// TestProtocolDoc holds docs/protocol.md to the sources: every method, error
// code, event, topic, kind and JSON field stands in its table, and the tables
// name nothing else.
func TestProtocolDoc(t *testing.T) {
	src := readSources(t)
	doc := readTables(t)

	for heading, prefix := range map[string]string{
		"Methods": "Method", "Errors": "Code", "Topics": "Topic", "Entries": "Kind", "Kinds of tools": "Tool",
		"Purposes": "Purpose", "Reasons for closing": "Closing",
	} {
		sameNames(t, heading, src.values(prefix), doc.column(heading, 0))
	}
	events := src.values("Ev")
	events = slices.DeleteFunc(events, func(s string) bool { return strings.HasPrefix(s, "guard.") })
	sameNames(t, "Events", events, doc.column("Events", 0))
	sameNames(t, "Guard methods", append(src.values("Guard"), src.values("EvGuard")...), doc.column("Guard methods", 0))

	documented := map[string][]string{}
	for _, rows := range doc {
		if len(rows) < 2 || rows[0][0] != "struct" {
			continue
		}
		name := ""
		for _, row := range rows[1:] {
			if row[0] != "" {
				name = unquote(row[0])
				if _, twice := documented[name]; twice {
					t.Errorf("%s is documented twice", name)
				}
				documented[name] = []string{}
			}
			if row[1] != "" {
				documented[name] = append(documented[name], unquote(row[1])+" "+row[2])
			}
		}
	}
	for name := range documented {
		if src.structs[name] == nil {
			t.Errorf("the document has a struct %s, package wire doesn't", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(src.structs)) {
		fields, ok := documented[name]
		if !ok {
			t.Errorf("the struct %s is missing in the document", name)
			continue
		}
		sameNames(t, "the fields of "+name, src.fields(name), fields)
	}

	classes := readClasses(t)
	for _, row := range doc["Methods"][1:] {
		method := unquote(row[0])
		if got := classes[src.nameOf(method)]; got != row[1] {
			t.Errorf("%s: the document says class %q, the server %q", method, row[1], got)
		}
	}
	for _, heading := range []string{"Methods", "Guard methods"} {
		for _, row := range doc[heading][1:] {
			for _, cell := range row[len(row)-3 : len(row)-1] {
				if s := unquote(cell); s != "–" && src.structs[s] == nil {
					t.Errorf("%s: there is no struct %q", row[0], s)
				}
			}
		}
	}
	for _, row := range doc["Entries"][1:] {
		if s := unquote(row[1]); src.structs[s] == nil {
			t.Errorf("%s: there is no struct %q", row[0], s)
		}
	}
}

func sameNames(t *testing.T, where string, want, got []string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%s: %q is missing in the document", where, w)
		}
	}
	for i, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("%s: the document has %q, the sources don't", where, g)
		}
		if slices.Contains(got[:i], g) {
			t.Errorf("%s: %q stands there twice", where, g)
		}
	}
}

// sources is what the Go files of this package declare.
type sources struct {
	consts  map[string]string // string constants by name
	structs map[string]*ast.StructType
}

func readSources(t *testing.T) sources {
	t.Helper()
	s := sources{map[string]string{}, map[string]*ast.StructType{}}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for i, v := range spec.Values {
						if lit, ok := v.(*ast.BasicLit); ok && g.Tok == token.CONST && lit.Kind == token.STRING {
							s.consts[spec.Names[i].Name], _ = strconv.Unquote(lit.Value)
						}
					}
				case *ast.TypeSpec:
					if st, ok := spec.Type.(*ast.StructType); ok && s.crosses(st) {
						s.structs[spec.Name.Name] = st
					}
				}
			}
		}
	}
	return s
}

// crosses says whether a struct is a message: all of its fields have JSON names
// or are embedded.
func (sources) crosses(st *ast.StructType) bool {
	for _, f := range st.Fields.List {
		if f.Tag == nil && len(f.Names) > 0 {
			return false
		}
	}
	return len(st.Fields.List) > 0
}

// values lists the constants whose name is the prefix and a capital letter.
func (s sources) values(prefix string) (out []string) {
	for name, value := range s.consts {
		rest, ok := strings.CutPrefix(name, prefix)
		if ok && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' {
			out = append(out, value)
		}
	}
	return out
}

func (s sources) nameOf(value string) string {
	for name, v := range s.consts {
		if v == value && strings.HasPrefix(name, "Method") {
			return name
		}
	}
	return ""
}

// fields lists "name type" of a struct, those of embedded structs included.
func (s sources) fields(name string) (out []string) {
	for _, f := range s.structs[name].Fields.List {
		if len(f.Names) == 0 {
			out = append(out, s.fields(f.Type.(*ast.Ident).Name)...)
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		key, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		typ := typeName(f.Type)
		if _, pointer := f.Type.(*ast.StarExpr); pointer && options == "" {
			typ += " or null"
		} else if options != "" {
			typ += "?"
		}
		out = append(out, key+" "+typ)
	}
	return out
}

// typeName is the type as the document writes it.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ArrayType:
		if id, ok := e.Elt.(*ast.Ident); ok && id.Name == "byte" {
			return "base64"
		}
		return "list of " + typeName(e.Elt)
	case *ast.MapType:
		return "map of " + typeName(e.Value)
	case *ast.SelectorExpr:
		return map[string]string{"Time": "time", "Duration": "nanoseconds", "RawMessage": "JSON"}[e.Sel.Name]
	case *ast.Ident:
		switch e.Name {
		case "int", "int64", "uint64":
			return "integer"
		case "float64":
			return "number"
		case "bool":
			return "boolean"
		case "Code":
			return "string"
		}
		return e.Name
	}
	return fmt.Sprintf("%T", e)
}

// tables are those of the document by the heading above them, header row first.
// Rows of struct tables, of which a heading may have several, are under keys of
// their own.
type tables map[string][][]string

func readTables(t *testing.T) tables {
	t.Helper()
	b, err := os.ReadFile(protocolDoc)
	if err != nil {
		t.Fatal(err)
	}
	out := tables{}
	heading, key := "", ""
	for n, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(line, "#") {
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
		if !strings.HasPrefix(line, "|") {
			key = ""
			continue
		}
		if key == "" {
			key = heading
			if _, taken := out[key]; taken {
				key = fmt.Sprintf("%s, line %d", heading, n+1)
			}
		}
		row := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, "¦"), "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		if !strings.HasPrefix(row[0], "---") {
			out[key] = append(out[key], row)
		}
	}
	return out
}

func (d tables) column(heading string, n int) (out []string) {
	for i, row := range d[heading] {
		if i > 0 {
			out = append(out, unquote(row[n]))
		}
	}
	return out
}

// unquote takes the name out of its backticks; "session:<id>" stands for the
// prefix.
func unquote(cell string) string { return strings.TrimSuffix(strings.Trim(cell, "`"), "<id>") }

// readClasses finds, in the server's dispatch table, who may call each method.
func readClasses(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../server/methods.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, ok := kv.Key.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		var first ast.Expr
		switch v := kv.Value.(type) {
		case *ast.CallExpr:
			first = v.Args[0]
		case *ast.CompositeLit:
			first = v.Elts[0]
		}
		if id, ok := first.(*ast.Ident); ok {
			out[key.Sel.Name] = id.Name
		}
		return true
	})
	return out
}

// TestDocumentsNameTests finds every test that the documents rely on.
func TestDocumentsNameTests(t *testing.T) {
	exists := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "../.." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(src, -1) {
			exists[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/decisions/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil || len(more) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		files = append(files, more...)
	}
	quoted := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	for _, name := range files {
		doc, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quoted.FindAllSubmatch(doc, -1) {
			if !exists[string(m[1])] {
				t.Errorf("%s: there is no test %s", name, m[1])
			}
		}
	}
}
