package say_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rooms are the packages that speak.
var rooms = []string{"../model", "../view", "../view/kit"}

// said is what the sources say: texts by key, with the English that verbs are
// compared with, and where.
type said struct {
	texts, plurals map[string][]string // the English forms
	at             map[string]string
}

// files parses the sources of a package, without its tests.
func files(t *testing.T, dir string) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(dir, err)
	}
	set := token.NewFileSet()
	var out []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return set, out
}

// literal is the value of a string that is written out.
func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// called is the name of a function as a call writes it: "say.T".
func called(call *ast.CallExpr) string {
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		if of, ok := sel.X.(*ast.Ident); ok {
			return of.Name + "." + sel.Sel.Name
		}
		return "." + sel.Sel.Name
	}
	return ""
}

func read(t *testing.T) said {
	t.Helper()
	s := said{texts: map[string][]string{}, plurals: map[string][]string{}, at: map[string]string{}}
	for _, dir := range rooms {
		set, list := files(t, dir)
		for _, f := range list {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				at := set.Position(call.Pos()).String()
				arg := func(i int) string {
					text, ok := literal(call.Args[i])
					if !ok {
						t.Errorf("%s: %s wants its text written out; say.Word takes keys", at, called(call))
					}
					return text
				}
				switch called(call) {
				case "say.T", "say.Key":
					key := arg(0)
					s.texts[key], s.at[key] = []string{key}, at
				case "say.As":
					key := arg(0) + ": " + arg(1)
					s.texts[key], s.at[key] = []string{arg(1)}, at
				case "say.N":
					key := arg(2)
					if was, ok := s.plurals[key]; ok && was[0] != arg(1) {
						t.Errorf("%s: %q has another singular here than at %s", at, key, s.at[key])
					}
					s.plurals[key], s.at[key] = []string{arg(1), key}, at
				}
				return true
			})
		}
	}
	for key := range s.plurals {
		if _, ok := s.texts[key]; ok {
			t.Errorf("%s: %q is said with and without a number", s.at[key], key)
		}
	}
	return s
}

var verb = regexp.MustCompile(`%(\[\d+\])?[-+# 0]*\d*(?:\.\d+)?[a-zA-Z%]`)

// verbs are the verbs of a text by the argument that they take, so that a
// translation may have another order.
func verbs(text string) []string {
	var out []string
	next := 1
	for _, m := range verb.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			next, _ = strconv.Atoi(strings.Trim(m[1], "[]"))
		}
		kind := m[0][len(m[0])-1:]
		if kind == "%" {
			out = append(out, "%%")
			continue
		}
		out = append(out, strconv.Itoa(next)+kind)
		next++
	}
	slices.Sort(out)
	return out
}

// forms are the plural forms that a language has.
var forms = map[string][]string{"de": {"one", "other"}, "ja": {"other"}}

// TestEveryTextIsTranslated compares what the sources say with what the
// languages have: nothing is missing, nothing is left over, and every verb is
// there.
func TestEveryTextIsTranslated(t *testing.T) {
	s := read(t)
	if len(s.texts) < 300 || len(s.plurals) < 20 {
		t.Fatalf("only %d texts and %d plurals were found", len(s.texts), len(s.plurals))
	}
	for tag, want := range forms {
		data, err := os.ReadFile("../../assets/translations/" + tag + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var file map[string]any
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatalf("%s: %v", tag, err)
		}
		check := func(key, english, text string) {
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s: nothing for %q", tag, key)
			}
			if a, b := verbs(english), verbs(text); !slices.Equal(a, b) {
				t.Errorf("%s: %q has the verbs %v, %q has %v", tag, english, a, text, b)
			}
			if strings.HasSuffix(english, "…") != strings.HasSuffix(text, "…") {
				t.Errorf("%s: %q and %q end differently: … tells that more is asked", tag, english, text)
			}
		}
		for key, english := range s.texts {
			if text, ok := file[key].(string); ok {
				check(key, english[0], text)
			} else {
				t.Errorf("%s has no text for %q, said at %s", tag, key, s.at[key])
			}
		}
		for key, english := range s.plurals {
			have, _ := file[key].(map[string]any)
			for _, form := range want {
				if text, ok := have[form].(string); ok {
					check(key, english[1], text)
				} else {
					t.Errorf("%s has no form %q for %q, said at %s", tag, form, key, s.at[key])
				}
			}
			if len(have) > len(want) {
				t.Errorf("%s has other forms of %q than %q", tag, key, want)
			}
			check("the singular", english[1], english[0])
		}
		for key := range file {
			if s.at[key] == "" {
				t.Errorf("%s has a text for %q, which nothing says", tag, key)
			}
		}
	}
}

// wordless are literals that stand in windows in every language: names, and
// what is typed into a terminal.
var wordless = []string{"Reeve", "Reeve: ", "reeve start", "reeve demo", "reeve service run", "Ctrl F",
	"Inter and IBM Plex Mono, under the SIL Open Font License 1.1", "Claude Code", "nobody else works here" /* the service's name of a check */}

// windows are the functions that draw or keep their texts as they get them.
var windows = regexp.MustCompile(`^(kit\.(NewButton|NewGatedButton|NewText|NewParagraph|NewNavItem|NewSelect|NewSegments|NewTabs|NewSearch|NewBadge|Note|Small|Body|Strong|Title|Wrapped|Chip)|problemBox|sectionHead|setting|head|section|centered|field|.*\.(SetText|SetLabel|SetPlaceHolder|SetContent|Hint|NewWindow|window))$`)

// TestWindowsSayEverything holds windows to saying their texts: a literal that
// goes straight into one is English in every language.
func TestWindowsSayEverything(t *testing.T) {
	letters := regexp.MustCompile(`\pL{2}`)
	for _, dir := range rooms {
		set, list := files(t, dir)
		for _, f := range list {
			ast.Inspect(f, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.KeyValueExpr: // fields that are drawn
					if key, ok := x.Key.(*ast.Ident); ok && slices.Contains([]string{"Label", "Title", "Text", "Word", "Body", "Tooltip", "Detail"}, key.Name) {
						if text, ok := literal(x.Value); ok && letters.MatchString(text) && !slices.Contains([]string{"sha256", "Reeve"}, text) {
							t.Errorf("%s: %s: %q is not said", set.Position(x.Pos()), key.Name, text)
						}
					}
				case *ast.CallExpr:
					name := called(x)
					if id, ok := x.Fun.(*ast.Ident); ok {
						name = id.Name
					}
					if !windows.MatchString(name) {
						return true
					}
					for i, arg := range x.Args {
						ast.Inspect(arg, func(n ast.Node) bool {
							switch y := n.(type) {
							case *ast.CallExpr, *ast.FuncLit:
								return false // looked at by itself
							case *ast.BinaryExpr, *ast.BasicLit:
								text, ok := "", false
								if e, is := y.(ast.Expr); is {
									text, ok = literal(e)
								}
								if key := strings.HasSuffix(name, ".window") && i == 1; ok && !key && letters.MatchString(text) && !slices.Contains(wordless, text) {
									t.Errorf("%s: %s draws %q, which is not said", set.Position(y.Pos()), name, text)
								}
							}
							return true
						})
					}
				}
				return true
			})
		}
	}
}

// quiet are functions whose words are no part of a window: errors are told by
// the service or on the terminal, and the rest looks for what others wrote.
var quiet = regexp.MustCompile(`^(say\.\w+|errors\.New|fmt\.Errorf|strings\.\w+|exec\.\w+|panic|english)$`)

// TestSentencesAreSaid finds words that are kept for a while before they are
// drawn: whatever has two words in a row is meant for a person.
func TestSentencesAreSaid(t *testing.T) {
	words := regexp.MustCompile(`\pL[\pL’']* \pL`)
	found, passed := 0, map[ast.Node]bool{}
	for _, dir := range rooms {
		set, list := files(t, dir)
		for _, f := range list {
			ast.Inspect(f, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.CallExpr:
					name := called(x)
					if id, ok := x.Fun.(*ast.Ident); ok {
						name = id.Name
					}
					if quiet.MatchString(name) {
						for _, arg := range x.Args {
							if sum, ok := arg.(*ast.BinaryExpr); ok {
								arg = leftmost(sum)
							}
							passed[arg] = true
						}
					}
				case *ast.BasicLit:
					text, ok := literal(x)
					if ok && !passed[x] && !strings.HasPrefix(x.Value, "`") && words.MatchString(text) {
						if found++; !slices.Contains(wordless, text) {
							t.Errorf("%s: %q is not said", set.Position(x.Pos()), text)
						}
					}
				}
				return true
			})
		}
	}
	if found == 0 {
		t.Error("no sentence was looked at")
	}
}

// leftmost is where a sum begins.
func leftmost(e ast.Expr) ast.Expr {
	for {
		sum, ok := e.(*ast.BinaryExpr)
		if !ok {
			return e
		}
		e = sum.X
	}
}
