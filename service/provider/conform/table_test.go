package conform_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// table is what the run found: a row for each scenario, a column for each
// provider. REEVE_TEST_TABLE names a file that gets it, too.
type table struct {
	mu      sync.Mutex
	rows    []string
	columns []string
	cells   map[[2]string]string
	silent  []string
}

var results = &table{cells: map[[2]string]string{}}

func (t *table) set(row, column, cell string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[[2]string{row, column}] = cell
}

func (t *table) print() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.cells) == 0 {
		return nil
	}
	var b strings.Builder
	width := 0
	for _, r := range t.rows {
		width = max(width, len(r))
	}
	line := func(first string, cells []string) {
		fmt.Fprintf(&b, "%-*s", width, first)
		for _, c := range cells {
			fmt.Fprintf(&b, " | %-12s", c)
		}
		b.WriteByte('\n')
	}
	line("", t.columns)
	var notes []string
	for _, r := range t.rows {
		var cells []string
		for _, c := range t.columns {
			cell := t.cells[[2]string{r, c}]
			if reason, ok := strings.CutPrefix(cell, "n/a: "); ok {
				note := fmt.Sprintf("n/a %s: %s", c, reason)
				i := slices.Index(notes, note)
				if i < 0 {
					notes = append(notes, note)
					i = len(notes) - 1
				}
				cell = fmt.Sprintf("n/a (%d)", i+1)
			}
			cells = append(cells, cell)
		}
		if slices.ContainsFunc(cells, func(s string) bool { return s != "" }) {
			line(r, cells)
		}
	}
	for i, n := range notes {
		fmt.Fprintf(&b, "(%d) %s\n", i+1, n)
	}
	for _, s := range t.silent {
		fmt.Fprintln(&b, s)
	}
	fmt.Print("\n", b.String())
	if path := os.Getenv("REEVE_TEST_TABLE"); path != "" {
		return os.WriteFile(path, []byte(b.String()), 0o644)
	}
	return nil
}
