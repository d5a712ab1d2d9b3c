package approval

// Span is a piece of one line.
type Span struct {
	Text  string // the exact original
	Token string // if not empty, draw this and never Text
}

// Hidden counts one kind of character that would not have been seen.
type Hidden struct {
	Token     string
	Codepoint string // U+202E, or the byte as 0xFF
	Name      string
	Count     int
}

// Shown is a text with nothing hidden in it.
type Shown struct {
	Lines  [][]Span
	Hidden []Hidden // in the order of first appearance
}
