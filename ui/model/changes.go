package model

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// ChangedFile is a row of the list of changed files.
type ChangedFile struct {
	Path     string // as it is asked for, not cleaned
	Name     string // for showing; of a renamed file the old and the new name
	Letter   string // A, M, D, R or T, as git writes it; = for what was put back
	Word     string // the same as a word, for names that are read aloud
	Plus     int
	Minus    int
	Binary   bool
	NotAgent bool // changed after the worker was lost
}

// Counts writes the added and removed lines: "+84", "−1".
func (f ChangedFile) Counts() (plus, minus string) {
	if f.Binary {
		return "", ""
	}
	return fmt.Sprintf("+%d", f.Plus), fmt.Sprintf("−%d", f.Minus)
}

var fileStates = map[string][2]string{
	"added": {"A", say.Key("added")}, "modified": {"M", say.Key("changed")}, "deleted": {"D", say.Key("deleted")}, "renamed": {"R", say.Key("renamed")},
	"typechange": {"T", say.Key("another kind of file")}, "restored": {"=", say.Key("put back as it was")},
}

// ChangedFiles lists what changed, in the service's order.
func ChangedFiles(r wire.ChangesResult) []ChangedFile {
	out := make([]ChangedFile, 0, len(r.Files))
	for _, f := range r.Files {
		row := ChangedFile{Path: f.Path, Name: exact(f.Path), Letter: "?", Word: oneLine(f.Status), Plus: f.Added, Minus: f.Removed, Binary: f.Binary, NotAgent: f.SinceLost}
		if s, ok := fileStates[f.Status]; ok {
			row.Letter, row.Word = s[0], say.Word(s[1])
		}
		if f.From != "" && f.From != f.Path {
			row.Name = exact(f.From) + " → " + row.Name
		}
		out = append(out, row)
	}
	return out
}

// ChangesSummary says how much changed: "3 files", "+131 −13".
func ChangesSummary(r wire.ChangesResult) (files, lines string) {
	plus, minus := 0, 0
	for _, f := range r.Files {
		plus, minus = plus+f.Added, minus+f.Removed
	}
	files = say.N(len(r.Files), "%d file", "%d files")
	if r.More {
		files = say.N(len(r.Files), "more than %d file", "more than %d files")
	}
	if plus+minus > 0 {
		lines = fmt.Sprintf("+%d −%d", plus, minus)
	}
	return files, lines
}

// SplitPatch divides a unified diff of many files by their paths. What git says
// of a file before its first hunk is kept, except for the headers that repeat
// its name and ids. The texts are not cleaned.
func SplitPatch(patch string) map[string]string {
	out := map[string]string{}
	var path string
	var body strings.Builder
	hunks := false
	flush := func() {
		if path != "" {
			out[path] = body.String()
		}
		path, hunks = "", false
		body.Reset()
	}
	for line := range strings.Lines(patch) {
		text := strings.TrimRight(line, "\r\n")
		// A line of a file is marked with a space, a sign or a backslash, so
		// this can only be the next header.
		if rest, ok := strings.CutPrefix(text, "diff --git "); ok {
			flush()
			path = bothPaths(rest)
			continue
		}
		if !hunks {
			if name, ok := headerPath(text); ok {
				if name != "" {
					path = name
				}
				continue
			}
			if strings.HasPrefix(text, "index ") {
				continue
			}
			hunks = strings.HasPrefix(text, "@@")
		}
		body.WriteString(line)
	}
	flush()
	return out
}

// headerPath reads the lines that name a file; the name is "" on the side where
// there is none. The new name counts, and the old one of what was deleted.
func headerPath(line string) (name string, ok bool) {
	for _, side := range []struct{ header, prefix string }{{"--- ", "a/"}, {"+++ ", "b/"}} {
		if rest, found := strings.CutPrefix(line, side.header); found {
			name = unquoted(strings.TrimSuffix(rest, "\t"))
			if name == "/dev/null" {
				return "", true
			}
			return strings.TrimPrefix(name, side.prefix), true
		}
	}
	if rest, found := strings.CutPrefix(line, "rename to "); found {
		return unquoted(rest), true
	}
	return "", strings.HasPrefix(line, "rename from ")
}

// bothPaths reads "a/x b/x", for files of which git says nothing else: both
// names are then the same.
func bothPaths(rest string) string {
	if strings.HasPrefix(rest, `"`) {
		if first, err := strconv.QuotedPrefix(rest); err == nil {
			return strings.TrimPrefix(unquoted(first), "a/")
		}
	}
	if n := (len(rest) - len("a/ b/")) / 2; n > 0 && strings.HasPrefix(rest, "a/") && len(rest) > 5+n {
		return rest[2 : 2+n]
	}
	return rest
}

// unquoted undoes git's quoting of names with unusual characters.
func unquoted(name string) string {
	if strings.HasPrefix(name, `"`) {
		if s, err := strconv.Unquote(name); err == nil {
			return s
		}
	}
	return name
}

// WorktreeStanding says in words how a worktree stands, most important first.
func WorktreeStanding(t wire.Worktree, s *wire.WorktreeState) []string {
	if t.State == "removed" {
		return []string{say.T("removed")}
	}
	if s == nil {
		if t.State == "planned" {
			return []string{say.T("made when the mission starts")}
		}
		return nil
	}
	if s.Missing {
		return []string{say.T("its folder is gone")}
	}
	var out []string
	if s.Files > 0 {
		out = append(out, say.N(s.Files, "%d file not committed", "%d files not committed"))
	}
	switch {
	case s.Ahead == 0:
		out = append(out, say.T("no commits of its own"))
	default:
		out = append(out, say.N(s.Ahead, "%d commit", "%d commits"))
		if s.Merged || t.Merged != "" {
			out = append(out, say.T("merged"))
		} else {
			out = append(out, say.T("not merged"))
		}
		if s.Pushed {
			out = append(out, say.T("pushed"))
		} else {
			out = append(out, say.T("not pushed"))
		}
	}
	return out
}

// Loss is one kind of thing that would be lost with a worktree.
type Loss struct {
	Text  string   // "2 files that were changed and not committed"
	Files []string // cleaned; not always all
	More  int      // how many are not listed
}

// WorktreeLosses lists what is saved nowhere else and would be gone with the
// worktree's folder. Commits of its branch are not: it stays when only it has
// them.
func WorktreeLosses(s wire.WorktreeState) []Loss {
	var out []Loss
	add := func(n int, files []string, text func(n int) string) {
		if n == 0 {
			return
		}
		l := Loss{Text: text(n), More: max(n-len(files), 0)}
		for _, f := range files {
			l.Files = append(l.Files, exact(f))
		}
		out = append(out, l)
	}
	// Of both lists at most the first are sent; what is beyond them counts to
	// the one that was cut.
	changed, unknown := len(s.Uncommitted), len(s.Untracked)
	if beyond := s.Files - changed - unknown; beyond > 0 {
		if unknown > changed {
			unknown += beyond
		} else {
			changed += beyond
		}
	}
	add(changed, s.Uncommitted, func(n int) string {
		return say.N(n, "%d file changed and not committed", "%d files changed and not committed")
	})
	add(unknown, s.Untracked, func(n int) string {
		return say.N(n, "%d new file that git does not know", "%d new files that git does not know")
	})
	add(len(s.Nested), s.Nested, func(n int) string {
		return say.N(n, "%d repository inside, with a history of its own", "%d repositories inside, with histories of their own")
	})
	add(s.Loose, nil, func(n int) string {
		return say.N(n, "%d commit that is on no branch", "%d commits that are on no branch")
	})
	add(len(s.UnderWay), s.UnderWay, func(n int) string {
		return say.N(n, "%d operation of git that is under way, with what it set aside", "%d operations of git that are under way, with what they set aside")
	})
	add(len(s.Refs), s.Refs, func(n int) string {
		return say.N(n, "%d git reference that only this worktree has", "%d git references that only this worktree has")
	})
	add(s.Ignored, nil, func(n int) string {
		return say.N(n, "%d ignored file or folder, such as build output or .env", "%d ignored files and folders, such as build output or .env")
	})
	return out
}

// BranchStays says what becomes of the commits when the folder is removed.
func BranchStays(t wire.Worktree, s wire.WorktreeState) string {
	switch {
	case s.Ahead > 0 && s.Merged:
		return say.T("Its commits are kept: they are merged.")
	case s.Ahead > 0 && s.Pushed:
		return say.T("The branch %s stays; its commits are pushed.", exact(t.Branch))
	case s.Ahead > 0:
		return say.N(s.Ahead, "The branch %[2]s stays: %[1]d commit is nowhere else.", "The branch %[2]s stays: %[1]d commits are nowhere else.", exact(t.Branch))
	}
	return ""
}
