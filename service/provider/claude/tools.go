package claude

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/reevehq/reeve/service/provider"
)

// maxEdited limits the files that are read to show an edit against them.
const maxEdited = 8 << 20

// input holds the fields of all tools' inputs that are shown.
type input struct {
	Command     string `json:"command"`
	Description string `json:"description"`
	FilePath    string `json:"file_path"`
	Notebook    string `json:"notebook_path"`
	Path        string `json:"path"`
	Pattern     string `json:"pattern"`
	URL         string `json:"url"`
	Query       string `json:"query"`
	Content     string `json:"content"`
	edit
	Edits      []edit     `json:"edits"`
	CellID     string     `json:"cell_id"`
	NewSource  string     `json:"new_source"`
	Todos      []todo     `json:"todos"`
	Questions  []question `json:"questions"`
	Background bool       `json:"run_in_background"`
}

type edit struct {
	Old string `json:"old_string"`
	New string `json:"new_string"`
	All bool   `json:"replace_all"`
}

type todo struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}

type question struct {
	Question string `json:"question"`
	Multi    bool   `json:"multiSelect"`
	Options  []struct {
		Label string `json:"label"`
	} `json:"options"`
}

// describe turns a tool call into what a person decides about. cwd is where the
// program stands. withDiff reads the file that would be edited.
func describe(call, name string, raw json.RawMessage, cwd string, withDiff bool) provider.Tool {
	var in input
	json.Unmarshal(raw, &in) // fields that don't fit stay empty; Input shows all
	t := provider.Tool{Call: call, Name: name, Kind: "other", Title: name, Cwd: cwd, Reason: in.Description, Input: raw}
	paths := func(list ...string) {
		for _, p := range list {
			if p != "" {
				if !filepath.IsAbs(p) {
					p = filepath.Join(cwd, p)
				}
				t.Paths = append(t.Paths, p)
			}
		}
	}
	switch name {
	case "Read", "NotebookRead":
		t.Kind = "read"
		paths(in.FilePath, in.Notebook)
		t.Title = "Read " + strings.Join(t.Paths, ", ")
	case "Glob", "Grep", "LS":
		t.Kind = "search"
		paths(in.Path)
		if len(t.Paths) == 0 {
			t.Paths = []string{cwd}
		}
		// A pattern may itself lead elsewhere, so its fixed part counts too.
		if fixed := fixedPart(in.Pattern); name == "Glob" && (filepath.IsAbs(fixed) || strings.Contains(fixed, "..")) {
			paths(fixed)
		}
		t.Title = strings.TrimSpace("Search " + in.Pattern)
	case "Edit", "Write", "MultiEdit", "NotebookEdit":
		t.Kind = "edit"
		paths(in.FilePath, in.Notebook)
		t.Title = "Edit " + strings.Join(t.Paths, ", ")
		if withDiff && len(t.Paths) > 0 {
			t.Diff = proposed(name, t.Paths[0], in)
		}
	case "Bash", "PowerShell":
		t.Kind, t.Command, t.Title = "execute", in.Command, in.Command
	case "WebFetch", "WebSearch":
		t.Kind, t.Title = "fetch", in.URL+in.Query
	case "TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet":
		t.Kind, t.Title = "plan", "Keep the task list"
	default:
		if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
			if server, tool, ok := strings.Cut(rest, "__"); ok {
				t.Kind, t.Server, t.Title = "mcp", server, tool
			}
		}
	}
	return t
}

// fixedPart is a pattern up to its first special character.
func fixedPart(pattern string) string {
	if i := strings.IndexAny(pattern, "*?[{"); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// proposed returns the diff that an edit would make to the file as it is now.
// Where the file can't be read, or does not contain what is to be replaced, the
// diff is that of the texts of the call: it must never show less than the call
// would do.
func proposed(name, path string, in input) string {
	old, exists := readText(path)
	switch name {
	case "Write":
		return provider.UnifiedDiff(path, exists, old, in.Content)
	case "NotebookEdit":
		return provider.UnifiedDiff(path+"#"+in.CellID, true, cellSource(old, in.CellID), in.NewSource)
	}
	edits := in.Edits
	if len(edits) == 0 {
		edits = []edit{in.edit}
	}
	text, fits := old, true
	for _, e := range edits {
		n := 1
		if e.All {
			n = -1
		}
		if !strings.Contains(text, e.Old) || (e.Old == "" && text != "") {
			fits = false
			break
		}
		text = strings.Replace(text, e.Old, e.New, n)
	}
	if fits {
		return provider.UnifiedDiff(path, exists, old, text)
	}
	var b strings.Builder
	for _, e := range edits {
		b.WriteString(provider.UnifiedDiff(path, true, e.Old, e.New))
	}
	return b.String()
}

// readText reads a regular file of moderate size. A pipe would block for ever.
func readText(path string) (string, bool) {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxEdited {
		return "", err == nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", true
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEdited))
	if err != nil {
		return "", true
	}
	return string(b), true
}

func cellSource(notebook, id string) string {
	var nb struct {
		Cells []struct {
			ID     string          `json:"id"`
			Source json.RawMessage `json:"source"`
		} `json:"cells"`
	}
	json.Unmarshal([]byte(notebook), &nb)
	for _, c := range nb.Cells {
		if c.ID == id && id != "" {
			var lines []string
			var one string
			if json.Unmarshal(c.Source, &lines) == nil {
				return strings.Join(lines, "")
			}
			json.Unmarshal(c.Source, &one)
			return one
		}
	}
	return ""
}

// asked returns the question of an AskUserQuestion call. Several questions are
// put as one; answers then gives one line to each.
func asked(raw json.RawMessage) *provider.Question {
	var in input
	json.Unmarshal(raw, &in)
	q := &provider.Question{}
	var texts []string
	for _, x := range in.Questions {
		texts = append(texts, x.Question)
		q.Multi = q.Multi || x.Multi
		for _, o := range x.Options {
			q.Options = append(q.Options, o.Label)
		}
	}
	q.Text = strings.Join(texts, "\n")
	return q
}

// answers returns the call's input with the person's answer. As many lines as
// there are questions answer one each, otherwise the text answers all.
func answers(raw json.RawMessage, text string) (json.RawMessage, error) {
	var in input
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	json.Unmarshal(raw, &in)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	given := map[string]string{}
	for i, q := range in.Questions {
		given[q.Question] = text
		if len(lines) == len(in.Questions) {
			given[q.Question] = lines[i]
		}
	}
	b, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	fields["answers"] = b
	return json.Marshal(fields)
}

// planOf returns the steps of a TodoWrite call, or nil.
func planOf(name string, raw json.RawMessage) []provider.PlanStep {
	if name != "TodoWrite" {
		return nil
	}
	var in input
	json.Unmarshal(raw, &in)
	var steps []provider.PlanStep
	for _, t := range in.Todos {
		steps = append(steps, provider.PlanStep{Text: t.Content, Status: t.Status})
	}
	return steps
}
