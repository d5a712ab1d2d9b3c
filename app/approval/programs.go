package approval

// How a program is joined to what stands before it.
const (
	JoinThen       = "then"       // ; newline && ||
	JoinInto       = "into"       // |
	JoinInside     = "inside"     // $( ) backticks <( ), or run by the program before it
	JoinBackground = "background" // started with & and not waited for
)

// Structure is what a shell command would run.
type Structure struct {
	Programs  []Program
	Redirects []string // as written, such as "> out.txt"
	Unclear   string   // why the list may not be the whole truth; empty if it is
}

// Program is one program of a command.
type Program struct {
	Program string // as written, quotes removed
	Join    string // empty for the first
}
